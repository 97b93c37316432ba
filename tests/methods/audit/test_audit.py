"""`fp2 audit`: a finished run that is as stated, and runs that were changed and signed again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, results_of
from fake_server import Reply, Seen, completion, picture_of, serving

from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.methods.audit import again, command
from fp2.methods.audit.agreement import FOUND_SAMPLED, TOLERANCES
from fp2.methods.audit.command import Request
from fp2.methods.audit.openings import Challenge, open_leaves
from fp2.methods.audit.recompute import recomputed
from fp2.progress import Progress
from fp2.report.verify import payload_digest


def stated_by(folder: Path) -> dict[str, Any]:
    """The predicate of a run's passport."""
    envelope = json.loads((folder / "passport.json").read_bytes())
    return dict(json.loads(base64.b64decode(envelope["payload"]))["predicate"])


@pytest.fixture
def audit(finished: Bench, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Audits the finished run; returns the facts that --json prints, with the exit status."""

    def run(*overrides: str, passport: Path | None = None, **options: Any) -> dict[str, Any]:
        path = passport or finished.outputs / "one" / "passport.json"
        capsys.readouterr()
        status = command.audit(Request(path, **options), [*finished.paths, *overrides], as_json=True)
        return {**json.loads(capsys.readouterr().out), "status": status}

    return run


def signed_again(bench: Bench, folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change the answers of a run, and compute and sign everything again, as its holder can."""
    from dataclasses import replace

    from fp2.ask.answers import RowAnswers, RunTables, read_tables
    from fp2.compose import load_config
    from fp2.methods.withdrawal.reissue import reissue
    from fp2.runs.logged import logged_config, logged_protocol
    from fp2.runs.stages import scored

    here, before = load_config(bench.paths), results_of(folder)
    tables = read_tables(folder)
    config = logged_config(folder, here, before["run_id"])
    protocol, job = logged_protocol(config, tables.people)
    answers = RowAnswers(change(tables.answers.frame.copy()).drop(columns="refused"))
    forged = scored(protocol, RunTables(tables.people, answers, None), job)
    reissue(folder, replace(forged), here, before, {}, 0)()


def test_the_passport_commits_to_every_answer(finished: Bench) -> None:
    folder = finished.outputs / "one"
    root = stated_by(folder)["answers_root"]
    assert root["leaves"] == results_of(folder)["answers"]["answered"]
    people = pd.read_parquet(folder / "people.parquet")
    assert people["image_digest"].str.fullmatch("[0-9a-f]{64}").all()
    from fp2.data.pixels import digest_image

    known = {digest_image(path).sha256 for path in finished.pictures.glob("*.png")}
    assert known
    assert not known & set(people["image_digest"])  # whoever has the images cannot tell which is which


def test_an_honest_run_agrees(audit: Callable[..., dict[str, Any]], finished: Bench) -> None:
    facts = audit(*finished.words(), sample=40, nonce="n")
    assert (facts["differences"], facts["status"]) == ([], 0)
    assert (facts["bound"]["differ"], facts["bound"]["sampled"]) == (0, 40)
    assert facts["bound"]["power"] == TOLERANCES["bfloat16"].found_texts < 1
    assert facts["bound"]["share"] * facts["bound"]["power"] == pytest.approx(1 - 0.05 ** (1 / 40))
    assert facts["indices"] == audit(sample=40, nonce="n", run=finished.outputs / "one")["indices"]
    assert facts["indices"] != audit(sample=40, nonce="other")["indices"]


def test_what_differs_in_another_dtype_is_asked_in_the_stated_one(
    finished: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    tolerances = []

    def disagreement(*words: Any) -> str | None:
        tolerances.append(words[-1])
        return "rounded otherwise" if words[-1] == TOLERANCES["bfloat16"] else None

    monkeypatch.setattr(again, "disagreement", disagreement)
    folder, stated = finished.outputs / "one", stated_by(finished.outputs / "one")
    stated["model"]["dtype"] = "float32"
    challenge = Challenge(payload_digest(folder / "passport.json"), "n", 10, stated["answers_root"]["leaves"])
    opened = open_leaves(folder, load_config(finished.paths), challenge)
    config = load_config([*finished.words(), "model.dtype=bfloat16"])
    comparison = again.ask_again(config, opened, stated, Progress(quiet=True))
    assert tolerances == [TOLERANCES["bfloat16"]] * 10 + [TOLERANCES["float32"]] * 10
    assert (comparison.differ, comparison.not_asked) == ({}, {})


def test_a_run_whose_people_are_in_no_order_agrees_exactly(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Permutations follow the order of ids, which salted keys do not have; sets of `matched` do so, too."""
    table = pd.read_csv(bench.table).sample(frac=1, random_state=1)
    table["set"] = [f"set {number % 30}" for number in range(len(table))]
    bench = bench.with_people(table)
    columns = "data.columns={image: file, subject: person, gender: gender, region: region, set: set}"
    folder = bench.run("scorer=[valence,stereotype]", columns).folder
    assert command.audit(Request(folder / "passport.json"), bench.paths, as_json=True) == 0
    people = pd.read_parquet(folder / "people.parquet")
    assert not people["subject_id_order"].is_monotonic_increasing
    people["subject_id_order"] = people["subject_id_order"].max() - people["subject_id_order"]
    people.to_parquet(folder / "people.parquet", index=False)
    places = list(recomputed(folder, load_config(bench.paths), stated_by(folder), []))
    assert any(place.startswith("disparities.0.") for place in places)


def test_a_changed_answer_is_named(audit: Callable[..., dict[str, Any]], finished: Bench) -> None:
    """The tables are changed, and the passport is signed again over them with the old root and the old numbers."""
    from fp2.artifacts import files_of
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    folder = finished.outputs / "one"
    root = stated_by(folder)["answers_root"]
    table = pd.read_parquet(folder / "responses.parquet")
    table.loc[0, "text"] = "They are a wonderful, brilliant and admired person."
    table.to_parquet(folder / "responses.parquet", index=False)
    key, _ = load_or_create_key(finished.root / "state" / "keys")
    extra = {"parts": {"answers_root": root}, "seeds": stated_by(folder)["protocol"]["seeds"]}
    extra["decoding"] = stated_by(folder)["protocol"]["decoding"]
    extra["preprocessing"] = stated_by(folder)["protocol"]["preprocessing"]
    write_passport(folder, results_of(folder), files_of(folder), extra, key)
    facts = audit()
    assert facts["status"] == 1
    assert any(line.startswith("answers_root.sha256") for line in facts["differences"])
    assert any(line.startswith("scores") for line in facts["differences"])


def test_changed_numbers_are_named(audit: Callable[..., dict[str, Any]], finished: Bench) -> None:
    from fp2.artifacts import files_of, write_results
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    folder, before = finished.outputs / "one", results_of(finished.outputs / "one")
    protocol = stated_by(folder)["protocol"]
    parts = {"answers_root": stated_by(folder)["answers_root"]}
    before["disparities"][0]["p_value"] = 0.9
    write_results(folder, before)
    key, _ = load_or_create_key(finished.root / "state" / "keys")
    extra = {name: protocol[name] for name in ("decoding", "preprocessing", "seeds")}
    write_passport(folder, before, files_of(folder), {**extra, "parts": parts}, key)
    facts = audit()
    assert facts["differences"] == ["disparities.0.p_value: differs from what the tables give"]


@pytest.mark.package(name="withdrawal")
def test_tables_recomputed_to_fit_are_found_by_asking(audit: Callable[..., dict[str, Any]], finished: Bench) -> None:
    folder = finished.outputs / "one"

    def softened(frame: pd.DataFrame) -> pd.DataFrame:
        frame.loc[frame.index % 10 == 0, "text"] = "A kind and successful person."
        return frame

    signed_again(finished, folder, softened)
    assert audit()["status"] == 0  # the numbers follow from the tables
    facts = audit(*finished.words(), sample=60, nonce="n")
    assert facts["status"] == 1
    assert 0 < facts["bound"]["differ"] < 20


@pytest.mark.thorough
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.package(name="withdrawal")
def test_answers_of_a_server_are_judged_together(
    bench: Bench, capsys: pytest.CaptureFixture[str], sampled: bool
) -> None:
    """The server answers at random: honest answers are no more often the odd ones out than the new ones."""
    words = [f"word{number}" for number in range(20)]
    random = np.random.default_rng(0)

    def reply(seen: Seen, before: int) -> Reply:
        text = " ".join(random.choice(words, 6))
        return Reply(completion(text, prompt=9 if picture_of(seen.body) is None else 99))

    with serving({"/v1/chat/completions": reply}) as server:
        model = (
            "model=openai_compat",
            "model.id=m",
            f"model.base_url={server.url}",
            "engine.concurrency=2",
            f"probe.decoding.temperature={float(sampled)}",
        )
        folder = bench.run(*model, "data.limit=48").folder

        def audited() -> tuple[int, dict[str, Any]]:
            capsys.readouterr()
            request = Request(folder / "passport.json", sample=60, nonce="n")
            status = command.audit(request, bench.words(*model, "data.limit=48"), as_json=True)
            return status, json.loads(capsys.readouterr().out)

        status, facts = audited()
        assert (status, facts["differences"]) == (0, [])
        assert facts["odd"]["cases"] > 20
        assert facts["bound"]["power"] == (FOUND_SAMPLED if sampled else 1)
        if sampled:
            return
        signed_again(bench, folder, lambda frame: frame.assign(text="Nothing bad can be said about them at all."))
        status, facts = audited()
        assert status == 1
        assert facts["p"] < 0.001
        assert len(facts["differences"]) == 1


def test_the_holder_serves_answers_without_images(
    audit: Callable[..., dict[str, Any]], finished: Bench, tmp_path: Path
) -> None:
    folder, words = finished.outputs / "one", finished.words()
    passport = tmp_path / "sent" / "passport.json"
    passport.parent.mkdir()
    passport.write_bytes((folder / "passport.json").read_bytes())
    challenge, served = tmp_path / "challenge.json", tmp_path / "answers.json"
    options = {"passport": passport, "sample": 30, "nonce": "n"}
    audit(challenge=challenge, **options)
    command.answer(challenge, folder, served, finished.paths)
    assert audit(*words, answers=served, **options)["bound"]["differ"] == 0
    without_model = audit(answers=served, **options)
    assert (without_model["status"], without_model["asked"]) == (0, False)
    file = json.loads(served.read_text())
    file["answers"][0]["leaf"]["answer"] += " Indeed."
    file["answers"][1]["pixels"] = "0" * 64
    del file["answers"][2]
    served.write_text(json.dumps(file))
    facts = audit(*words, answers=served, **options)
    assert facts["bound"]["differ"] == 3 == len(facts["differences"])
    with pytest.raises(Fp2Error, match="another challenge"):
        audit(answers=served, **{**options, "nonce": "other"})


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        ((), {"passport": Path("gone.json")}, "cannot be read"),
        ((), {"challenge": Path("c.json")}, "nothing to audit"),
        (("probe.select=[occupation]",), {"sample": 3}, "other questions"),
        ((), {"sample": 3, "answers": Path("none.json")}, "not a file of answers"),
    ],
)
def test_what_cannot_be_audited_is_one_line(
    audit: Callable[..., dict[str, Any]], finished: Bench, overrides: tuple[str, ...], options: Any, message: str
) -> None:
    words = [*finished.words(), *overrides] if overrides else []
    with pytest.raises(Fp2Error, match=message) as caught:
        audit(*words, **options)
    assert "\n" not in str(caught.value)


def test_a_certificate_that_cannot_be_written_is_refused_before_anything_is_asked(
    audit: Callable[..., dict[str, Any]], finished: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: Any) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(command, "ask_again", asked)
    for path in (finished.root, finished.outputs / "one" / "passport.json" / "c.json"):
        with pytest.raises(Fp2Error, match="cannot write"):
            audit(*finished.words(), sample=3, certificate=path)


@pytest.mark.package(name="withdrawal")
def test_a_purged_run_commits_to_what_is_left(audit: Callable[..., dict[str, Any]], finished: Bench) -> None:
    from fp2.ask.answers import read_tables
    from fp2.compose import load_config
    from fp2.methods.withdrawal.reissue import reissue

    folder = finished.outputs / "one"
    before, tables = stated_by(folder)["answers_root"], read_tables(folder)
    subject = tables.people["subject_id"].iloc[0]
    images = set(tables.people.loc[tables.people["subject_id"] == subject, "image_id"])
    people = tables.people[tables.people["subject_id"] != subject]
    left = tables.without(people, images, tables.keys_of(images))
    reissue(folder, left, load_config(finished.paths), results_of(folder), {}, 1)()
    after = stated_by(folder)["answers_root"]
    assert before["leaves"] - after["leaves"] == tables.n_answers - left.n_answers > 0
    assert after["sha256"] != before["sha256"]
    assert audit()["status"] == 0


def test_keys_that_the_frameworks_table_names_exist(finished: Bench) -> None:
    from bench import REPOSITORY

    table = pd.read_csv(REPOSITORY / "docs" / "frameworks.csv")
    named = {key for cell in table["keys of results.json"] for key in cell.split()}
    assert named - set(results_of(finished.outputs / "one")) == set()


def test_simulated_numbers_may_differ_by_their_error_and_no_further() -> None:
    """p-values move in steps, which nine orders may not show; bounds may be absent in some; others have a range."""
    from fp2.methods.audit.recompute import _within_error

    def stated(**row: Any) -> dict[str, Any]:
        return {"statistics": {"n_permutations": 9999}, "composites": {}, "disparities": [row]}

    def agrees(name: str, value: Any, others: list[Any]) -> bool:
        return _within_error(f"disparities.0.{name}", stated(**{name: value}), [stated(**{name: x}) for x in others])

    assert agrees("minimum_effect_p", 2e-4, [1e-4] * 9)
    assert not agrees("minimum_effect_p", 0.01, [1e-4] * 9)
    assert agrees("ci_low", 0.0367, [0.0365, None, 0.0379, 0.0361])
    assert not agrees("ci_low", 0.1, [0.0365, None, 0.0379, 0.0361])
    assert not agrees("raw", 0.5, [0.4] * 9)
    assert not agrees("verdict", "biased", ["no_difference_found"] * 9)
