"""A run's questions asked again: what is found, what is not asked twice, and what is refused."""

from __future__ import annotations

import csv
import itertools
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import Bench
from fake_server import FakeServer, Reply, Seen, completion, picture_of, serving
from hypothesis import given
from hypothesis import strategies as st

from fp2.ask.loop import ask
from fp2.cli import main
from fp2.data.pixels import pixel_sha256
from fp2.methods.monitor import looks
from fp2.methods.monitor.evidence import Evidence, log_e, log_mean
from fp2.methods.monitor.looks import STATE, forget_images

CHAT = "/v1/chat/completions"
MODEL = ("model=openai_compat", "model.id=m", "engine.concurrency=2")


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8))
def test_over_all_signs_the_evidence_against_an_unchanged_model_is_at_most_one(differences: list[float]) -> None:
    signs = np.array(list(itertools.product((-1, 1), repeat=len(differences))))
    totals = (signs * differences).sum(axis=1)
    e_values = np.exp(log_e(totals, np.full(len(signs), float(np.square(differences).sum()))))
    assert e_values.mean() <= 1 + 1e-9


def test_equal_answers_are_no_evidence_and_missing_ones_do_not_count() -> None:
    assert (Evidence() + np.zeros(50)).log_e == 0
    assert (Evidence() + np.array([np.nan, 0.5])) == Evidence(1, 0.5, 0.25)
    assert log_mean([Evidence(), Evidence()]) == pytest.approx(0)


def test_an_unchanged_model_is_not_accused_over_a_year_of_looks() -> None:
    rng, accused = np.random.default_rng(2), 0
    for _ in range(60):
        noise = np.where(rng.random((365, 20)) < 0.1, rng.normal(0, 0.5, (365, 20)), 0)
        logs = log_e(noise.cumsum(axis=0), (noise**2).cumsum(axis=0))
        accused += bool((np.exp(logs).mean(axis=1) >= 20).any())
    assert accused <= 6


@pytest.fixture(scope="module")
def genders(squares: Path) -> dict[str, str]:
    """Return the gender of who is in each image, by its pixels."""
    from PIL import Image

    with (squares / "people.csv").open(encoding="utf-8") as file:
        return {
            pixel_sha256(Image.open(squares / row["file"]).convert("RGB")): row["gender"]
            for row in csv.DictReader(file)
        }


@pytest.fixture(scope="module")
def asked(
    squares: Path, genders: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[FakeServer, dict[str, bool], Bench]]:
    """Yield a server, a switch by which it answers worse about one group, and a project with a run of its answers."""
    switch, bench = {"changed": False}, Bench(tmp_path_factory.mktemp("asked"), squares)

    def reply(seen: Seen, before: int) -> Reply:
        image = picture_of(seen.body)
        group = genders.get(pixel_sha256(image.convert("RGB")), "") if image is not None else ""
        bad = switch["changed"] and group == "f"
        text = "A terrible and dishonest person." if bad else "A kind and honest person."
        return Reply(completion(text, prompt=9 if image is None else 99))

    with serving({CHAT: reply}) as server:
        bench.run(*MODEL, "data.limit=48", f"model.base_url={server.url}", folder="one")
        yield server, switch, bench


@pytest.fixture
def served(
    asked: tuple[FakeServer, dict[str, bool], Bench], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> tuple[FakeServer, dict[str, bool], str]:
    """The server, its switch, and the run in the test's own copy of the project."""
    server, switch, project = asked
    monkeypatch.setitem(switch, "changed", False)
    monkeypatch.setitem(server.routes, CHAT, server.routes[CHAT])  # which a test may replace
    return server, switch, str(project.copied_to(bench.root).outputs / "one")


def stored(bench: Bench) -> list[Any]:
    """Return the rows of the response store."""
    with closing(sqlite3.connect(bench.store)) as connection:
        return connection.execute("SELECT * FROM answers ORDER BY key").fetchall()


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fp2", "monitor", *words])
    with pytest.raises(SystemExit) as raised:
        main()
    return int(raised.value.code or 0)


def test_a_change_in_one_group_is_found_and_named(
    served: tuple[FakeServer, dict[str, bool], str],
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, switch, run = served
    words = (run, *bench.paths, "tracking.enabled=false", "--json", "--answers")
    before = stored(bench)
    assert call(monkeypatch, *words, "12") == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["changed"], first["answers"], first["equal"]) == (False, 12, 12)
    assert call(monkeypatch, *words, "12") == 0
    state = json.loads(next(bench.outputs.glob(f"monitors/*/{STATE}")).read_text())
    assert len(set(state["asked"])) == len(state["asked"]) == 4
    assert stored(bench) == before
    switch["changed"] = True
    # The images are drawn at random: all others are asked about, so that at least 20 of the 24 women are among them.
    statuses = [call(monkeypatch, *words, "66") for _ in range(4)]
    assert statuses[-1] == 1
    state = json.loads(next(bench.outputs.glob(f"monitors/*/{STATE}")).read_text())
    changed = [look["changed"] for look in state["looks"]]
    assert changed[:2] == [False, False]
    assert any(changed)
    page = next(bench.outputs.glob("monitors/*/index.html")).read_text()
    assert "The model has changed" in page
    evidence = {tuple(row): values for row, values in state["rows"]}
    women = evidence["valence", "trust", "gender", "f"]
    men = evidence["valence", "trust", "gender", "m"]
    assert women["total"] < -1
    assert men["total"] == 0


@pytest.mark.thorough
def test_every_image_is_asked_about_once_and_alpha_stays(
    served: tuple[FakeServer, dict[str, bool], str],
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, _, run = served
    words = (run, *bench.paths, "tracking.enabled=false", "--answers", "150")
    assert [call(monkeypatch, *words) for _ in range(2)] == [0, 0]
    for more, named in (((), "every image"), (("--alpha", "0.01"), "--alpha 0.05")):
        capsys.readouterr()
        assert call(monkeypatch, *words, *more) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert named in lines[-1]


def test_a_server_that_answers_nothing_uses_up_no_image(
    served: tuple[FakeServer, dict[str, bool], str],
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, _, run = served
    server.routes[CHAT] = lambda seen, before: Reply({"error": {"message": "broken"}}, 422)
    assert call(monkeypatch, run, *bench.paths, "tracking.enabled=false", "--answers", "12") == 2
    assert "error: " in capsys.readouterr().err
    assert not list(bench.outputs.glob(f"monitors/*/{STATE}"))


def test_a_second_look_at_once_is_refused_and_asks_nothing(
    served: tuple[FakeServer, dict[str, bool], str],
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, _, run = served
    words = (run, *bench.paths, "tracking.enabled=false", "--answers", "12")
    assert call(monkeypatch, *words) == 0
    state = next(bench.outputs.glob(f"monitors/*/{STATE}"))
    before, asked = state.read_text(), len(server.asked(CHAT))
    capsys.readouterr()
    with looks.only_look(state.parent):
        assert call(monkeypatch, *words) == 2
    assert "Traceback" not in (err := capsys.readouterr().err)
    assert err.count("error: ") == 1
    assert (state.read_text(), len(server.asked(CHAT))) == (before, asked)
    assert call(monkeypatch, *words) == 0


def test_a_purge_takes_the_keys_of_the_withdrawn(tmp_path: Path) -> None:
    run = "a" * 32
    folder = tmp_path / "monitors" / run
    folder.mkdir(parents=True)
    content: dict[str, Any] = {"run_id": run, "alpha": 0.05, "rows": [], "looks": [], "asked": ["x", "y"]}
    (folder / STATE).write_text(json.dumps(content))
    forget_images(tmp_path, run, {"y"})
    assert json.loads((folder / STATE).read_text())["asked"] == ["y"]
    forget_images(tmp_path, run, set())
    assert not folder.exists()
    forget_images(tmp_path, run, {"y"})


def test_an_interrupted_look_is_continued(
    served: tuple[FakeServer, dict[str, bool], str],
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, _, run = served
    words = (run, *bench.paths, "tracking.enabled=false", "--json", "--answers")

    def interrupted(storage: Any, engine: Any, **options: Any) -> Any:
        batches = itertools.count()

        def saw(batch: Any) -> None:
            if next(batches) == 9:
                raise KeyboardInterrupt

        return ask(storage, engine, **{**options, "saw": saw})

    with monkeypatch.context() as patched:
        patched.setattr(looks, "ask", interrupted)
        assert call(monkeypatch, *words, "30") == 2
    assert "continues it" in capsys.readouterr().err
    drawn = json.loads(next(bench.outputs.glob("monitors/*/look/images.json")).read_text())
    assert not list(bench.outputs.glob(f"monitors/*/{STATE}"))
    before = len(server.asked(CHAT))
    assert call(monkeypatch, *words, "60") == 0  # the images that were drawn first, whatever is asked for now
    facts = json.loads(capsys.readouterr().out)
    assert facts["answers"] == 30 > len(server.asked(CHAT)) - before + 5
    state = json.loads(next(bench.outputs.glob(f"monitors/*/{STATE}")).read_text())
    assert sorted(state["asked"]) == sorted(drawn)
    assert not list(bench.outputs.glob("monitors/*/look"))


def test_probabilities_are_monitored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P(Yes) in dense storage; the model that is asked again says yes more often."""
    battery = ("probe=gras", "probe.traits={kind: 2.6, cruel: -2.9}", "scorer=none", "probe.options.permutations=99")
    run = str(bench.run(*battery, folder="dense").folder)
    words = (run, *bench.paths, "tracking.enabled=false", "--json", "--answers", "40")
    assert call(monkeypatch, *words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["equal"] == facts["answers"] >= 40
    original = looks._dense_frame
    calls = itertools.count()

    def shifted(answers: Any) -> Any:
        frame = original(answers)
        return frame.assign(p_yes_norm=frame["p_yes_norm"] + 0.1 * (next(calls) % 2))

    monkeypatch.setattr(looks, "_dense_frame", shifted)
    statuses = [call(monkeypatch, *words[:-1], "200") for _ in range(3)]
    assert statuses[-1] == 1
    state = json.loads(next(bench.outputs.glob(f"monitors/*/{STATE}")).read_text())
    assert {row[0] for row, _ in state["rows"]} == {"p_yes_norm"}
    assert "The model has changed" in next(bench.outputs.glob("monitors/*/index.html")).read_text()
