"""Notes: sentences for the reader with records that code compares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.notes import TEXT, Note, NoteKind, Stage, as_notes, logged, read_notes, without

RELEASES = Path(__file__).parent / "releases"
values = st.integers() | st.text() | st.lists(st.text(), max_size=3)
notes = st.builds(
    Note, st.text(), st.text(), st.dictionaries(st.text(), values, max_size=3), st.none() | st.sampled_from(Stage)
)


@given(st.lists(notes))
def test_notes_are_read_back_from_results_as_they_were_written(stated: list[Note]) -> None:
    results = json.loads(json.dumps(logged(stated)))
    read = read_notes(results)
    assert read == stated
    assert [note.record() for note in read] == [note.record() for note in stated]
    assert all(type(line) is str for line in logged(stated)["limitations"])


def test_a_kind_makes_its_sentence_from_the_parameters() -> None:
    kind = NoteKind("several", Stage.DATA, "{name} goes with {others} ({share:.1f})")
    note = kind(name="age", others=["region", "pronoun"], share=0.25)
    assert note == "age goes with region, pronoun (0.2)"
    parameters = {"name": "age", "others": ["region", "pronoun"], "share": 0.25}
    assert note.record() == {"code": "several", "stage": "data", "parameters": parameters}
    assert NoteKind("function", Stage.RUN, lambda n: f"{n} left" if n else "none left")(n=0) == "none left"


def test_a_stage_that_is_repeated_replaces_its_notes_only() -> None:
    stated = [Note("a", stage="data"), Note("b", stage="tables"), Note("c"), Note("d", stage="analysis")]
    assert without(stated, Stage.TABLES, Stage.ANALYSIS) == ["a", "c"]


def test_sentences_of_plug_ins_become_notes_of_their_stage() -> None:
    own = NoteKind("own", Stage.RUN, "known")()
    plain, known = as_notes(["plain", own], Stage.SCORERS)
    assert (plain.code, plain.stage, known) == (TEXT, Stage.SCORERS, own)
    assert known.stage is Stage.RUN


@pytest.mark.parametrize("path", sorted(RELEASES.rglob("results.json")), ids=lambda path: path.parent.name)
def test_limitations_of_released_runs_are_read(path: Path) -> None:
    results = json.loads(path.read_text(encoding="utf-8"))
    read = read_notes(results)
    assert read == results["limitations"]
    named = {name for name in ("valence", "stereotype") if any(one["name"] == name for one in results["scorers"])}
    assert not named or any(note.stage is Stage.SCORERS for note in read)
