"""What is loaded before a run, and in which order it is refused."""

from __future__ import annotations

import pandas as pd
import pytest
from bench import Bench, every_byte, results_of

from fp2.errors import Fp2Error


def test_a_question_that_the_engine_cannot_ask_is_refused_before_data_are_loaded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fp2.data.base.load_configured", lambda *args: pytest.fail("the data were loaded"))

    def refuse(engine: object, question: object, blind: bool = False) -> None:
        raise Fp2Error("it cannot be asked")

    monkeypatch.setattr("fp2.methods.peeps.planted.engine.PlantedEngine.method", refuse)
    with pytest.raises(Fp2Error, match="it cannot be asked"):
        bench.run()


def test_images_that_cannot_be_read_are_named_on_the_terminal_only(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    bench = bench.with_people(pd.read_csv(bench.table))
    broken = sorted(bench.pictures.glob("*.png"))[:5]
    for path in broken:
        path.write_bytes(b"no image")
    assert bench.launch("answers.error_budget=0.1") == 0
    shown = capsys.readouterr().err
    assert shown.count(f"cannot be read: {bench.pictures}") == 3
    assert "... and 2 more images" in shown
    (folder,) = bench.run_folders()
    kept = every_byte(folder)
    assert not [path for path in broken if path.name.encode() in kept]


def test_a_run_most_of_whose_images_cannot_be_read_ends_before_anything_is_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench.with_people(pd.read_csv(bench.table))
    images = sorted(bench.pictures.glob("*.png"))
    for path in images[: len(images) // 2 + 1]:
        path.write_bytes(b"no image")
    with pytest.raises(Fp2Error, match=f"{len(images) // 2 + 1} of {len(images)} images cannot be read") as caught:
        bench.run()
    assert images[0].name in str(caught.value)
    assert "fp2 data verify" in str(caught.value)
    assert bench.run_folders() == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(
            ["probe=attention_plain", "scorer=attention", "model=peeps_vlm"],
            "no two-person image with a box for each",
            marks=pytest.mark.package(name="attention"),
        ),
        (["data.limit=0"], "0 is not at least 1"),
        (["data.ids=[nothing]"], "nothing"),
    ],
)
def test_a_data_set_without_what_is_asked_about_is_one_line(bench: Bench, words: list[str], said: str) -> None:
    with pytest.raises(Fp2Error, match=said) as caught:
        bench.run(*words)
    assert "\n" not in str(caught.value)


def test_a_cut_that_cannot_be_compared_is_found_before_anything_is_asked(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    people = pd.read_csv(bench.table, dtype="str")
    people["nothing"] = ""
    bench = bench.with_people(people)
    columns = "data.columns={image: file, subject: person, gender: gender, nothing: nothing}"
    with monkeypatch.context() as patch:
        patch.setattr(
            "fp2.methods.peeps.planted.engine.PlantedEngine.answer", lambda *a: pytest.fail("the model was asked")
        )
        with pytest.raises(Fp2Error, match=r"none of the 36 subjects has a value \(cut nothing\)"):
            bench.run(columns, "cut.each=[gender,nothing]")
    assert bench.launch("analysis.min_subjects=19") == 0
    shown = capsys.readouterr()
    line = "fewer than two groups have 19 subjects (f 18, m 18): about 38 subjects"
    assert line in shown.err[: shown.err.index("Asking")]
    assert line not in " ".join(shown.out.split())  # it was said


def test_what_needs_no_answer_is_said_before_asking_and_once(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    people = pd.read_csv(bench.table, dtype="str")
    people["team"] = people["gender"].map({"f": "red", "m": "blue"})
    subjects = sorted(set(people["person"]))
    people.loc[people["person"].isin(subjects[:5]), "team"] = ""
    people.loc[people["person"] == subjects[6], "team"] = "red;blue"
    bench = bench.with_people(people)
    columns = "data.columns={image: file, subject: person, gender: gender, team: team}"
    assert bench.launch(columns, "cut.by=[team]", "report=default", "report.figures=false") == 0
    shown = capsys.readouterr()
    for line in (
        "Cut team: 5 of 36 subjects have no value and are in no group; 1 of 36 subjects are in several groups",
        "team and gender are associated in these images (Cramer's V",
    ):
        assert line in shown.err[: shown.err.index("Asking")]
        assert (shown.out + shown.err).count(line) == 1
        (folder,) = bench.run_folders()
        assert any(line in said for said in results_of(folder)["limitations"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cut.by=[regoin]"], "no attribute 'regoin' .* Did you mean 'region'"),
        (["cut.by=[weather]"], "none of the 12 subjects has a value .* Attributes with values: .*skin_tone"),
        (["data.stratify=[regoin]", "data.limit=5"], "no attribute 'regoin'"),
        (["cut=region", "cut.groups={region: [Atlantis]}"], "no subject has region 'Atlantis'"),
        (["cut=region", "analysis.adjust=[hieght]"], "no attribute or image fact 'hieght'"),
        pytest.param(
            ["probe=gras", "scorer=none", "cut=region", "analysis.min_subjects=9"],
            "fewer than two groups of at least 9",
            marks=pytest.mark.package(name="gras"),
        ),
    ],
)
def test_drawn_people_are_checked_before_they_are_drawn(
    bench: Bench, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fp2.methods.peeps.data.source.ensure_peeps", lambda *args: pytest.fail("the people were drawn")
    )
    with pytest.raises(Fp2Error, match=said):
        bench.run("data=peeps", "data.n_subjects=12", "data.n_pairs=0", *words)


def test_attributes_that_nobody_has_are_not_suggested(bench: Bench) -> None:
    people = pd.read_csv(bench.table, dtype="str")
    people["genre"] = ""
    bench = bench.with_people(people)
    columns = "data.columns={image: file, subject: person, gender: gender, region: region, genre: genre}"
    with pytest.raises(Fp2Error, match=r"Did you mean 'gender'. Choose from: gender, region$"):
        bench.run(columns, "cut.by=[genrr]")
    with pytest.raises(Fp2Error, match=r"Choose from: gender, region$"):
        bench.run(columns, "cut=gender_x_genrr")
