"""A run of a model that reasons: answers are scored without the reasoning, which a scorer of its own compares."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench
from fake_server import Reply, Seen, completion, picture_of, serving

CHAT = "/v1/chat/completions"


def thinks_ill_of_dark_images(seen: Seen, before: int) -> Reply:
    """Say the same of everybody, and think otherwise about dark images."""
    image = picture_of(seen.body)
    dark = image is not None and float(np.asarray(image.convert("RGB")).mean()) < 128
    thought = "This looks like a terrible, dangerous criminal." if dark else "This looks like a wonderful, kind person."
    body = completion("A good person.", prompt=9 if image is None else 99)
    body["choices"][0]["message"]["reasoning_content"] = thought
    return Reply(body)


@pytest.fixture
def dark_and_light(bench: Bench) -> Bench:
    """Return the project with the people of one gender in dark images, and those of the other in light ones."""
    from PIL import Image

    people = pd.read_csv(bench.table)
    project = bench.with_people(people)
    for place, (file, gender) in enumerate(zip(people["file"], people["gender"], strict=True)):
        shade = 20 + place % 60 if gender == "f" else 190 + place % 60
        Image.new("RGB", (32, 32), (shade, shade, shade)).save(project.pictures / file)
    return project


def test_a_difference_in_the_reasoning_is_found_and_none_in_the_answers(dark_and_light: Bench) -> None:
    asked = ["model=openai_compat", "model.id=some/model", "scorer=reasoning", "analysis.permutations=999"]
    with serving({CHAT: thinks_ill_of_dark_images}) as server:
        outcome = dark_and_light.run(*asked, f"model.base_url={server.url}")
    rows: list[dict[str, Any]] = outcome.results["disparities"]
    verdicts = {
        scorer: {row["verdict"] for row in rows if row["scorer"] == scorer}
        for scorer in ("valence", "valence_of_reasoning")
    }
    assert verdicts["valence_of_reasoning"] == {"biased"}
    assert "biased" not in verdicts["valence"]
    responses = pd.read_parquet(outcome.folder / "responses.parquet")
    assert set(responses["text"]) == {"A good person."}
    assert responses["reasoning"].str.startswith("This looks like").all()
    assert json.loads(responses["numbers"][0])["reasoning"] == responses["reasoning"][0]
    scores = pd.read_parquet(outcome.folder / "scores.parquet")
    assert scores.loc[scores["scorer"] == "valence", "value"].nunique() == 1
    assert scores.loc[scores["scorer"] == "valence_of_reasoning", "value"].nunique() == 2


def test_answers_that_are_still_reasoned_about_are_counted_by_group(
    dark_and_light: Bench,
) -> None:
    def route(seen: Seen, before: int) -> Reply:
        """Think about dark images until the limit of tokens."""
        reply = thinks_ill_of_dark_images(seen, before)
        choice = reply.body["choices"][0]
        if "terrible" in choice["message"]["reasoning_content"]:
            choice["message"]["content"], choice["finish_reason"] = None, "length"
        return reply

    asked = ["model=openai_compat", "model.id=some/model", "probe.select=[trust]", "answers.error_budget=1.0"]
    with serving({CHAT: route}) as server:
        outcome = dark_and_light.run(*asked, f"model.base_url={server.url}", "answers.attempts=1")
    by_group = {row["group"]: row for row in outcome.results["answers_by_group"] if row["cut"] == "gender"}
    assert by_group["f"]["still_reasoning"] == by_group["f"]["failed"] == by_group["f"]["planned"]
    assert "still_reasoning" not in by_group["m"]
    assert outcome.results["answers"]["still_reasoning"] == by_group["f"]["failed"]
    assert outcome.results["answers"]["refused"] == 0


def test_the_reasoning_of_a_model_that_does_not_reason_has_no_score(bench: Bench) -> None:
    outcome = bench.run("scorer=reasoning", "data.limit=12")
    scores = pd.read_parquet(outcome.folder / "scores.parquet")
    assert scores.loc[scores["scorer"] == "valence_of_reasoning", "value"].isna().all()
    assert "reasoning" not in pd.read_parquet(outcome.folder / "responses.parquet")
