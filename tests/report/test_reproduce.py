"""How to repeat a run, on its page: the line gives its config, nothing of the machine is in it, seeds and decoding."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from bench import Bench, results_of
from report.hostile_words import HOSTILE

from fp2.compose import config_hash, load_config
from fp2.report.passport import generator
from fp2.report.reproduce import decoding_words, how_to_repeat, question_sets

ASKED = {"answers": {"planned": 6}, "model": {}, "fp2_version": "1.0"}


def folder_with(folder: Path, config: dict[str, Any], words: list[str]) -> Path:
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (folder / "overrides.yaml").write_text(yaml.safe_dump(words), encoding="utf-8")
    return folder


def command_of(html: str) -> list[str]:
    line = re.search(r'<th scope="row">Command</th>\s*<td[^>]*><code><bdi>(.*?)</bdi></code>', html)
    assert line is not None
    return shlex.split(unescape(line[1]))


def test_the_line_on_the_page_gives_the_config_of_the_run(bench: Bench, tmp_path: Path) -> None:
    own = tmp_path / "my truth.yaml"
    own.write_text("seed: 7\n", encoding="utf-8")
    quoted = "probe.probes={trust: {label: T, measures: m, questions: [{id: t, text: 'Who\\'s \"nice\"; $HOME?'}]}}"
    settings = ("probe.select=[trust]", "probe.decoding.max_new_tokens=32", "seed=5")
    run = bench.run(f"model.truth='{own}'", quoted, *settings, "report=default", "report.figures=false")
    html = (run.folder / "dashboard.html").read_text(encoding="utf-8")
    program, verb, *words = command_of(html)
    assert (program, verb) == ("fp2", "run")
    assert "local:my truth.yaml" in html
    places = {"local:my truth.yaml": str(own), "local:people.csv": str(bench.table)}
    for place, path in places.items():
        words = [word.replace(place, path) for word in words]
    assert config_hash(load_config([*words, *bench.paths])) == run.results["config_hash"]
    assert str(bench.root) not in html
    assert str(tmp_path) not in html
    assert 'Who\'s "nice"; $HOME?' in unescape(html.split('id="h-asked"')[1].split("</section>")[0])
    again = html.split('id="h-again"')[1]
    for said in ("greedy (temperature 0), at most 32 new tokens", "analysis 5", generator()["version"]):
        assert said in again
    assert generator()["git_commit"] is None or generator()["git_commit"] in again
    assert (run.folder / "config.yaml").read_text(encoding="utf-8") in unescape(again) + "\n"


@pytest.mark.package(name="reruns")
def test_a_rescored_run_states_the_lines_that_made_its_answers(bench: Bench) -> None:
    from fp2.methods.reruns.rescoring import rescore
    from fp2.progress import Progress

    first = bench.run("probe.select=[trust]")
    place = bench.config()
    second = rescore(first.folder, place, ["analysis.alpha=0.1"], bench.outputs / "second", Progress(quiet=True))
    third = rescore(second.folder, place, ["analysis.alpha=0.2"], bench.outputs / "third", Progress(quiet=True))
    found = how_to_repeat(third.folder, results_of(third.folder))
    assert found["command"] == f"fp2 rescore {second.run_id} analysis.alpha=0.2"
    assert [line.split()[:2] for line in found["earlier"]] == [["fp2", "run"], ["fp2", "rescore"]]
    assert found["earlier"][1].endswith(f"{first.run_id} analysis.alpha=0.1")
    assert found["passport"]["payload_sha256"]
    assert found["code"] == generator()  # as the passport states it


def test_no_password_and_no_control_character_reaches_a_page(tmp_path: Path) -> None:
    words = ["data.url=https://me:hunter2@host/x", f"model.name={HOSTILE}\x1b[31m"]
    found = how_to_repeat(folder_with(tmp_path, {"seed": 1, "data": {"url": words[0][9:]}}, words), ASKED)
    text = json.dumps(found, ensure_ascii=False)
    assert "hunter2" not in text
    assert "https://host/x" in found["command"]
    assert "\x1b" not in found["command"]


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        ({}, "greedy (temperature 0), at most 64 new tokens, one answer"),
        (
            {"decoding": {"temperature": 0.7, "samples": 3, "seed": 9, "max_new_tokens": 16}},
            "sampled at temperature 0.7, at most 16 new tokens, 3 samples for each question and image, decoding seed 9",
        ),
        ({"templates": {"a": "Is {trait}?"}}, "read as probabilities"),
        ({"probes": {"a": {"questions": [{"id": "q", "kind": "choice"}]}}}, "read as probabilities"),
        ({"probes": {"a": {"questions": [{"id": "q", "kind": "choice"}, {"id": "r"}]}}}, "greedy"),
    ],
)
def test_how_answers_were_generated(tmp_path: Path, probe: dict[str, Any], said: str) -> None:
    assert said in decoding_words(how_to_repeat(folder_with(tmp_path, {"probe": probe}, []), ASKED))


def test_what_is_not_known_is_not_stated(tmp_path: Path) -> None:
    assert how_to_repeat(tmp_path, ASKED)["command"] is None
    folder = folder_with(tmp_path, {"engine": {"target": "fp2.engines.given:GivenEngine"}}, ["data=peeps"])
    assert how_to_repeat(folder, ASKED)["objects"] == ["the model"]
    for results in ({**ASKED, "answers": {"planned": 0}}, {**ASKED, "model": {"supplied": {}}}):
        assert decoding_words(how_to_repeat(folder, results)) == ""
    (tmp_path / "passport.json").write_text('{"payload": "x"}', encoding="utf-8")
    assert how_to_repeat(folder, ASKED)["passport"] is None


def test_runs_with_the_same_questions_are_named_together() -> None:
    one, other = ([{"id": "trust", "label": "T", "text": text}] for text in ("Is it?", "Is it? | Was it?"))
    (alone,) = question_sets([("a", one), ("b", one)])
    assert alone["runs"] == []
    first, second = question_sets([("a", one), ("b", other), ("c", one)])
    assert (first["runs"], second["runs"]) == (["a", "c"], ["b"])
    assert second["probes"][0]["texts"] == ["Is it?", "Was it?"]
