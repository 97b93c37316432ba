"""Text from outside reaches the terminal, MLflow, messages and spreadsheets as text."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pytest
from bench import Bench, fp2, results_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.table import Table

from fp2.errors import Fp2Error
from fp2.progress import Progress, Terminal
from fp2.text import LONGEST, in_number, printable, quoted, spreadsheet_cell, unquoted

HOSTILE = "a[/b]\x1b]0;owned\x07\x1b[31m\x00\u202etxt\ud800"


@given(st.text(st.characters()), st.integers(1, 40))
def test_printable_text_is_one_line_of_bounded_length(text: str, limit: int) -> None:
    shown = printable(text, limit)
    assert len(shown) <= 10 * limit  # an escape takes up to ten characters
    assert len(shown.splitlines()) <= 1
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    shown.encode("utf-8")
    json.dumps(shown)


def test_words_of_every_script_stay() -> None:
    for text in ("Zoë", "שלום", "معلّم", "🧑🏾‍🔬", "a  b", "x\u00a0y"):
        assert printable(text) == text
    assert printable("a\x1b[1m\nb") == "a\\x1b[1m b"
    assert len(printable("x" * 10_000)) == LONGEST


def test_an_error_is_one_line_without_escape_codes() -> None:
    said = str(Fp2Error("cannot be read\nsecond line", where=HOSTILE))
    assert "\x1b" not in said
    assert "\\x1b[31m" in said
    assert "[/b]" in said
    assert len(said.splitlines()) == 1


def test_the_terminal_reads_no_markup_and_writes_no_escape_codes(capsys: pytest.CaptureFixture[str]) -> None:
    console = Terminal(stderr=True)
    progress = Progress(console)
    progress.note(HOSTILE)
    table = Table(title=HOSTILE)
    table.add_column("[/x]")
    table.add_row(HOSTILE)
    console.print(table)
    console.print(HOSTILE)
    with progress.steps(HOSTILE, 1) as step, progress.answers(HOSTILE) as bar:
        step()
        bar.show(0, 2, "")
        bar.show(1, 2, "1 failed")
    err = capsys.readouterr().err
    assert err.count("[/b]") >= 5
    assert "[/x]" in err
    assert "\x1b" not in err
    assert "\x00" not in err


def test_images_with_hostile_names_are_unreadable_images(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    people = pd.read_csv(bench.table)
    names = ["a[/b].png", "a\x1b[31mred.png", "[bold]x[/bold].png"]
    people.loc[[0, 1, 2], "file"] = names
    hostile = bench.with_people(people)
    for name in names:
        (hostile.pictures / name).parent.mkdir(exist_ok=True)
        (hostile.pictures / name).write_bytes(b"no image")
    assert hostile.launch("answers.error_budget=1") == 0
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert "\x1b" not in captured.err + captured.out
    for name in names:
        assert name.replace("\x1b", "\\x1b") in "".join(captured.err.split("\n"))
    assert results_of(hostile.run_folders()[-1])["answers"]["failed"] == 6 * len(names)


def test_a_name_with_nul_is_one_unreadable_image(tmp_path: Path) -> None:
    import sqlite3

    from fp2.data.pixels import PixelIndex

    path = Path(f"{tmp_path}/a\x00.png")
    found = PixelIndex(sqlite3.connect(":memory:")).digest_many([path])[path]
    assert found.sha256 is None
    assert "cannot be read" in (found.error or "")


def test_a_spreadsheet_evaluates_nothing() -> None:
    for text in (
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1",
        " =1",
        "\ufeff\u00a0=1",
        "\x0b\u2028 @a",
    ):
        assert spreadsheet_cell(text).startswith("'")
    assert spreadsheet_cell(-1.5) == -1.5
    assert spreadsheet_cell("a\x1b[0m\nb") == "a\\x1b[0m b"


FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
UNSEEN = "\ufeff\u00a0\x0b\x0c\u2028\u2029\u1680\u2000\u2003\u200b\u202e\u202f\u205f\u3000\x85\x00\x1f\t\r\n "
"""What a spreadsheet may skip before it looks for a formula."""
TEXTS = st.lists(
    st.tuples(
        st.sampled_from(["", "'", "''", "'="]),
        st.text(UNSEEN, max_size=3),
        st.sampled_from(["", *FORMULAS]),
        st.text(st.characters(codec="utf-8")),
    ).map("".join),
    min_size=1,
    max_size=8,
)


@given(TEXTS)
def test_quoted_text_is_no_formula_and_is_read_as_it_was(texts: list[str]) -> None:
    for cell in (*map(quoted, texts), *map(spreadsheet_cell, texts)):
        assert not cell.startswith(FORMULAS)
        assert not cell.lstrip(UNSEEN).startswith(FORMULAS)
    assert [unquoted(quoted(text)) for text in texts] == texts


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, st.sampled_from([".csv", ".tsv"]), st.sampled_from(["object", "str"]))
@pytest.mark.package(name="recorded")
def test_exported_answers_are_read_as_they_were_and_none_is_a_formula(
    tmp_path: Path, texts: list[str], suffix: str, kind: str
) -> None:
    from fp2.methods.recorded.form import form_of

    path = tmp_path / f"answers{suffix}"
    form = form_of(path, exists=False)
    numbers = [-0.5] * len(texts)
    rows = pd.DataFrame({"image": [f"{text}.png" for text in texts], "text": texts, "logit_difference": numbers})
    form.write(path, rows.astype({"image": kind, "text": kind}), {})
    read = form.read(path)
    assert read["text"].tolist() == texts
    assert read["image"].tolist() == rows["image"].tolist()
    assert [float(cell) for cell in read["logit_difference"]] == numbers
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ","):
            assert not row["text"].startswith(FORMULAS)
            assert not row["image"].startswith(FORMULAS)


@pytest.mark.package(name="recorded")
def test_a_csv_file_of_others_is_read_as_it_is(tmp_path: Path) -> None:
    from fp2.methods.recorded.form import form_of

    path = tmp_path / "theirs.csv"
    path.write_text("image,text\na.png,'=1\n", encoding="utf-8")
    assert form_of(path).read(path)["text"].tolist() == ["'=1"]
    form_of(path).write(path, pd.DataFrame({"image": ["a.png"], "text": ["plain"]}, dtype=object), {})
    assert path.read_text(encoding="utf-8") == "image,text\na.png,plain\n", "unmarked where nothing is quoted"


@pytest.mark.package(name="maintenance")
def test_doctor_shows_what_a_store_says_as_text(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bench.root / "a[/b]"
    folder.mkdir(parents=True)
    (folder / "x.db").write_text("this is no database, and long enough to be taken for none")
    fp2("doctor", *bench.paths, f"tracking.uri='sqlite:///{folder}/x.db'")
    captured = capsys.readouterr()
    assert "a[/b]" in "".join(captured.out.split("\n"))
    assert "Traceback" not in captured.err


def test_words_take_the_number_of_what_they_count() -> None:
    assert in_number(1, "1 [image is|images are] [left|left] out") == "1 image is left out"
    assert in_number(0, "0 [image is|images are] left out") == "0 images are left out"
