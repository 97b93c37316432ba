"""What is loaded before a run, and in which order it is refused."""

from __future__ import annotations

import pandas as pd
import pytest
from bench import Bench, every_byte

from fp2.errors import Fp2Error


def test_a_question_that_the_engine_cannot_ask_is_refused_before_data_are_loaded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fp2.data.base.load_configured", lambda *args: pytest.fail("the data were loaded"))
    with pytest.raises(Fp2Error, match="cannot score a question of kind 'choice'"):
        bench.run("probe=fhibe_clip")


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["probe=attention_plain", "scorer=attention", "model=peeps_vlm"], "no two-person image with a box for each"),
        (["data.limit=0"], "greater than or equal to 1"),
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
        patch.setattr("fp2.engines.planted.engine.PlantedEngine.answer", lambda *a: pytest.fail("the model was asked"))
        with pytest.raises(Fp2Error, match=r"none of the 36 subjects has a value \(cut nothing\)"):
            bench.run(columns, "cut.each=[gender,nothing]")
    assert bench.launch("analysis.min_subjects=19") == 0
    shown = capsys.readouterr()
    line = "fewer than two groups have 19 subjects (f 18, m 18): about 38 subjects"
    assert line in shown.err[: shown.err.index("Asking")]
    assert line in " ".join(shown.out.split())
