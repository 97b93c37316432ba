"""The Python interface: names and objects, the same numbers as the command line, tables, figures and HTML."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, environment, fp2, results_of
from PIL import Image

import fp2 as package
from fp2.errors import Fp2Error
from fp2.report.drawing import GRID

FAST = ("analysis.permutations=199", "analysis.bootstrap=50", "report=none", "tracking=none")
STRONG = "model.truth={seed: 4, effects: {trust: {gender: {f: -4}}}}"


def frame_of(bench: Bench) -> pd.DataFrame:
    return pd.read_csv(bench.table).rename(columns={"file": "image", "person": "subject"})


def describe(image: Image.Image, question: str) -> str:
    """Answer by the brightness of the image."""
    return "A wonderful, happy person." if np.asarray(image).mean() > 127 else "A terrible, sad person."


def test_importing_it_loads_nothing_heavy(own_root: Path) -> None:
    code = (
        "import fp2, random, sys; state = random.getstate(); dir(fp2); "
        "print([n for n in ('pandas', 'torch', 'numpy', 'hydra') if n in sys.modules]); "
        "fp2.evaluate; print('rich.style' in sys.modules, random.getstate() == state)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(own_root), capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["[]", "True True"]
    assert {"evaluate", "load_run", "compare", "score", "disparity"} <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        _ = package.evaluat


def test_names_give_the_numbers_of_the_command_line(bench: Bench) -> None:
    assert bench.launch(STRONG) == 0
    line = results_of(bench.run_folders()[-1])
    words = [
        word
        for word in bench.words(STRONG)
        if not word.startswith(("model=", "data=", "scorer=", "cut.", "paths.root"))
    ]
    before = random.getstate(), np.random.get_state()
    run = package.evaluate(
        model="planted",
        data="table",
        cuts="gender",
        scorers="valence",
        overrides=words,
        root=bench.root,
        progress=False,
    )
    assert random.getstate() == before[0]
    np.testing.assert_equal(np.random.get_state(), before[1])
    assert run.config_hash == line["config_hash"]
    assert run.composite == line["composite"]
    assert run.results["disparities"] == line["disparities"]
    assert run.disparities["raw"].tolist() == [row["raw"] for row in line["disparities"]]
    assert set(run.groups["group"]) == {"f", "m"}
    assert run.composites["value"].tolist() == [line["composite"]]
    assert len(run.people) == 72
    assert len(run.answers) == 432
    assert set(run.scores["scorer"]) == {"valence"}
    html = run._repr_html_()
    assert "data:image/png;base64," in html
    assert "<td>biased</td>" in html
    again = package.load_run(run.run_id[:8], root=bench.root)
    assert again.results == json.loads(json.dumps(run.results))
    assert repr(again).startswith(f"<fp2 run {run.run_id[:8]} of planted: gender ")
    assert run.radar().name == "polar"
    assert len(run.heatmap("gender").get_yticklabels()) == 2
    with pytest.raises(Fp2Error, match="no cut 'region'"):
        run.radar("region")


@pytest.mark.package(name="reruns")
def test_a_function_a_frame_and_a_function_as_scorer(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Paths, and images in memory; the same images and version are asked once."""
    frame, asked = frame_of(bench), []

    def model(image: Any, question: str) -> str:
        asked.append(question)
        return describe(image, question)

    def length(text: str) -> float:
        return float(len(text))

    given = {
        "model": package.FunctionModel(model, "mine", "1"),
        "probes": {"mood": "How does this person feel?"},
        "scorers": {"length": package.Scorer(name="", function=length, value_range=(0, 100)), "v": "valence"},
        "overrides": FAST,
        "root": bench.root,
        "progress": False,
    }
    run = package.evaluate(data=frame, image_root=bench.pictures, **given)
    assert run.model == "mine"
    assert run.cuts == ["gender", "region"]
    assert run.primary == "length"
    assert len(asked) == len(frame)
    assert set(run.disparities["scorer"]) == {"length", "valence"}
    assert set(run.disparities["probe"]) == {"mood"}
    memory = frame.assign(image=[Image.open(bench.pictures / name) for name in frame["image"]])
    same = package.evaluate(data=memory, **given)
    assert len(asked) == len(frame)
    assert same.disparities["raw"].tolist() == run.disparities["raw"].tolist()
    capsys.readouterr()
    assert fp2("rerun", str(run.folder), *bench.paths) == 2
    told = capsys.readouterr()
    assert "Call fp2.evaluate" in told.err
    assert "drift" not in told.out + told.err


def test_odd_names_of_columns_and_groups_and_a_function_that_is_asked_once(bench: Bench) -> None:
    """Column names need not be of Hydra's grammar; groups that differ in case are named as probably one."""
    frame, asked = frame_of(bench), []
    odd = frame.assign(größe=["Groß", "groß", "klein"] * (len(frame) // 3)).drop(columns="region")
    odd["Notes (free)"] = "x"

    def model(image: Any, question: str) -> str:
        asked.append(question)
        return describe(image, question)

    given: dict[str, Any] = {
        "model": model,
        "data": odd,
        "image_root": bench.pictures,
        "probes": {"mood": "How does this person feel?"},
        "scorers": "valence",
        "overrides": FAST,
        "root": bench.root,
        "progress": False,
    }
    runs = [package.evaluate(**given) for _ in range(2)]
    assert runs[0].cuts == ["gender", "größe"]
    assert len(asked) == len(frame)  # without a version, answers are used again in this process
    said = " ".join(runs[1].results["limitations"])
    assert "1 column without the name of an attribute ignored: 'Notes (free)'" in said
    assert "Cut größe: 'Groß' and 'groß' are probably one group" in said


def test_an_engine_of_the_callers_and_errors_of_a_function(bench: Bench) -> None:
    from fp2.methods.peeps.planted.engine import PlantedEngine
    from fp2.methods.peeps.planted.truth import load_truth

    given: dict[str, Any] = {
        "data": frame_of(bench),
        "image_root": bench.pictures,
        "cuts": "gender",
        "scorers": "valence",
        "root": bench.root,
        "progress": False,
    }
    engine = PlantedEngine(load_truth({"seed": 4, "effects": {"trust": {"gender": {"f": -4.0}}}}))
    run = package.evaluate(model=engine, name="simulated", overrides=FAST, **given)
    found = run.disparities.set_index("probe")["verdict"]
    assert found["trust"] == "biased"

    def broken(image: Any, question: str) -> str:
        raise ValueError("no battery left")

    with pytest.warns(UserWarning, match="no battery left"):
        failed = package.evaluate(model=broken, overrides=FAST, **given)
    assert not failed.complete
    assert failed.severity is None
    with pytest.raises(Fp2Error, match="int is not a model"):
        package.evaluate(model=3, overrides=FAST, **given)


@pytest.mark.package(name="several_runs")
def test_runs_are_compared_as_on_the_command_line(bench: Bench, tmp_path: Path) -> None:
    runs = [bench.run(STRONG), bench.run("model.truth={seed: 5}")]
    words = ["analysis.permutations=199", "analysis.bootstrap=50"]
    found = package.compare([outcome.folder for outcome in runs], overrides=words, root=bench.root)
    out = tmp_path / "compared.json"
    assert fp2("compare", *(str(run.folder) for run in runs), "--json", str(out), *words, *bench.paths) == 0
    (block,) = found.blocks
    assert {**json.loads(json.dumps(block)), "beside": []} == json.loads(out.read_text())
    assert found.distances["distance"].tolist() == [row["distance"] for row in block["distances"]]
    assert {"trust"} <= set(found.by_probe["probe"])
    assert {"first", "second", "first_run"} <= set(found.profiles)
    assert all(part in found._repr_html_() for part in ("<table", "data:image/png", "Positive control"))
    largest = max(block["distances"][0]["by_probe"], key=lambda one: one["distance"])
    axes = found.profile("gender")
    assert block["probes"][largest["probe"]] in axes.get_title("left")
    means = found.profiles.query("cut == 'gender' and probe == @largest['probe']").sort_values("group")
    points = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    assert points == pytest.approx(means["first"].tolist())
    given = found.heatmap(ax=axes.get_figure().add_subplot())
    assert found.distances["distance"][0] == pytest.approx(float(given.texts[1].get_text().rstrip("*")), abs=6e-4)
    for wrong in ({"cut": "gendr"}, {"probe": "trst"}, {"pair": 1}):
        with pytest.raises(Fp2Error, match=r"has no (cut|probe)|there is no pair 1"):
            found.profile(**wrong)
    with pytest.raises(Fp2Error, match="fewer than two"):
        package.compare([runs[0].folder], root=bench.root)


def test_texts_are_scored(own_root: Path) -> None:
    texts = ["She is wonderful!", "I cannot help with that.", "A terrible person."]
    table = package.score(texts, ["valence", "refusal", lambda text: "She" in text])
    assert table["text"].tolist() == texts
    assert table["valence"][0] > 0 > table["valence"][2]
    assert table["refusal"].tolist() == [0, 1, 0]
    assert table["function"].tolist() == [1, 0, 0]
    assert np.isnan(package.score(["5"], "trust_rating")["trust_rating"][0])
    with pytest.raises(Fp2Error, match="outside 0 to 1"):
        package.score(["ab"], lambda text: len(text))
    with pytest.raises(Fp2Error, match="'valence'"):
        package.score(["a"], "valens")


def test_without_the_package_that_compares_runs_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fp2.api.results.installed", lambda group: {})
    with pytest.raises(Fp2Error, match="no installed package compares runs"):
        package.compare([])


def test_one_outcome_is_compared_between_groups() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 60)
    values = np.clip(rng.normal(0, 0.1, 120) + (groups == "b") * 0.4, -1, 1)
    found = package.disparity(values, groups, n_permutations=999, n_bootstrap=200)
    assert found.verdict == "biased"
    assert found.value == pytest.approx(0.4, abs=0.1)
    low, high = found.interval
    assert low is not None
    assert high is not None
    assert low < 0.4 < high
    assert found.groups["n_subjects"].tolist() == [60, 60]
    assert all(part in found._repr_html_() for part in ("biased", "data:image/png"))
    axes = found.plot()
    drawn = [tuple(map(float, line.get_xdata())) for line in axes.lines if line.get_color() != GRID]
    means = found.groups["mean"].tolist()
    start = min(means)
    assert drawn == [(means[0],), (means[1],), (start + low, start + high), (pytest.approx(max(means)),)]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a (n=60)", "b (n=60)", "disparity"]
    few = package.disparity(values[:65], groups[:65], n_permutations=99, n_bootstrap=0)
    assert [tick.get_text() for tick in few.plot(min_cell=6).get_yticklabels()] == ["a (n=60)"]
    with_gap = package.disparity([*values, 0.5], [*groups, None], n_permutations=99, n_bootstrap=0)
    assert with_gap.n_without_group == 1
    with pytest.raises(Fp2Error, match=r"outside its range.*value_range"):
        package.disparity([2.0, 0.0], ["a", "b"])
    with pytest.raises(Fp2Error, match="lengths differ"):
        package.disparity([0.0], ["a", "b"])


@pytest.mark.long
def test_a_loaded_model_gives_the_answers_of_its_checkpoint(bench: Bench, tmp_path: Path) -> None:
    """The bundled model in memory, as transformers loads it, answers like the checkpoint by its name."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from fp2.compose import load_config
    from fp2.engines.checkpoint import resolve_checkpoint

    folder = resolve_checkpoint(str(load_config(["model=peeps_vlm"]).model.id)).path
    pair = (AutoModelForImageTextToText.from_pretrained(folder), AutoProcessor.from_pretrained(folder))
    given: dict[str, Any] = {
        "data": frame_of(bench).head(8),
        "image_root": bench.pictures,
        "cuts": "gender",
        "probes": ["trust"],
        "scorers": "valence",
        "overrides": (*FAST, "engine.device=cpu"),
        "root": bench.root,
        "progress": False,
    }
    named, loaded = package.evaluate(**given), package.evaluate(model=pair, name="mine", **given)
    assert loaded.model == "mine"
    assert loaded.answers["text"].tolist() == named.answers["text"].tolist()
    assert loaded.results["model"]["weights_digest"]


def test_threads_have_projects_of_their_own(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.delenv("FP2_ROOT")
    together = threading.Barrier(2)

    def evaluate(name: str) -> package.api.Run:
        together.wait()
        words = ("data.limit=36", *FAST)
        people, root = frame_of(bench), tmp_path / name
        return package.evaluate(
            model=describe,
            name=name,
            data=people,
            image_root=bench.pictures,
            probes={"q": f"Who is {name}?"},
            cuts="gender",
            scorers="valence",
            overrides=words,
            root=root,
            progress=False,
        )

    with ThreadPoolExecutor(2) as pool:
        runs = dict(zip("ab", pool.map(evaluate, "ab"), strict=True))
    for name, run in runs.items():
        assert run.folder.is_relative_to(tmp_path / name)
        assert (tmp_path / name / ".fp2" / "responses.sqlite").is_file()
        assert run.results["model"]["name"] == name
        assert package.load_run(run.run_id, root=tmp_path / name).folder == run.folder
    assert "FP2_ROOT" not in os.environ
    assert list(elsewhere.iterdir()) == []
