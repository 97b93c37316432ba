"""Lists of trait words: our own, in a config, and the official form with all that spreadsheets do to it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fp2.errors import Fp2Error
from fp2.methods.dense.traits import OWN_FILE, Trait, given_traits, own_traits, read_traits, traits_path
from training.peeps.planted import load_planted

HEADER = "WORD_ENGLISH,VAL_MEAN,pos/neg"


def listed(folder: Path, *rows: str, header: str = HEADER, encoding: str = "utf-8", end: str = "\n") -> Path:
    path = folder / "selected_trait_words.csv"
    path.write_bytes((end.join((header, *rows)) + end).encode(encoding))
    return path


def test_our_own_list_is_the_one_that_the_bundled_model_was_trained_on() -> None:
    own, planted = own_traits(), load_planted().traits
    assert [(t.word, t.valence) for t in own.traits] == [(t.word, t.valence) for t in planted.values()]
    assert (own.count("positive"), own.count("negative"), own.notes) == (50, 50, ())
    assert all((t.valence > 0) == (t.polarity == "positive") for t in own.traits if t.valence is not None)


def test_our_own_list_has_the_official_columns() -> None:
    with OWN_FILE.open(encoding="utf-8", newline="") as handle:
        assert next(csv.reader(handle)) == HEADER.split(",")


def test_the_official_form_is_read(tmp_path: Path) -> None:
    found = read_traits(listed(tmp_path, "kind,2.61,positive", "cruel,-2.87,negative"))
    assert found.traits == (Trait("kind", "positive", 2.61), Trait("cruel", "negative", -2.87))
    assert found.source == "selected_trait_words.csv"
    assert len(found.sha256) == 64
    assert not found.notes


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends_do_not_matter(tmp_path: Path, encoding: str, end: str) -> None:
    path = listed(tmp_path, "naïve,0.5,positive", "cruel,-2.9,negative", encoding=encoding, end=end)
    assert [t.word for t in read_traits(path).traits] == ["naïve", "cruel"]


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("word_english, val_mean ,POS/NEG", " Kind , 2.5 , Positive "),
        ("WORD_ENGLISH;VAL_MEAN;pos/neg", "Kind;2,5;pos"),
        ("pos/neg\tWORD_ENGLISH\tVAL_MEAN", "positive\tKind\t2.5"),
        ("no,WORD_ENGLISH,VAL_MEAN,pos/neg,note", '7,Kind,"2,5",positive,a word'),
        ("word,valence", "Kind,2.5"),
    ],
)
def test_case_blanks_delimiters_and_further_columns_do_not_matter(tmp_path: Path, header: str, row: str) -> None:
    assert read_traits(listed(tmp_path, row, header=header)).traits == (Trait("Kind", "positive", 2.5),)


def test_what_is_odd_is_reported_and_does_not_end_the_run(tmp_path: Path) -> None:
    rows = [
        "kind,2.6,positive",
        "Kind,2.6,positive",
        "honest,,positive",
        "odd,-1.0,positive",
        "cruel,-2.9,negative",
        "",
    ]
    found = read_traits(listed(tmp_path, *rows))
    assert [t.word for t in found.traits] == ["kind", "honest", "odd", "cruel"]
    told = " | ".join(found.notes)
    for part in (
        "3 traits are positive and 1 negative",
        "asked once: Kind",
        "contradicts the polarity",
        "without a valence",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("rows", "part"),
    [
        (["kind,2.6,posative"], "neither positive nor negative"),
        (["kind,2.6,positive", "KIND,2.6,negative"], "as positive and as negative"),
        (["kind,much,positive"], "is not a number"),
        (["kind,,"], "neither a polarity nor a valence"),
        ([",1.0,positive"], "has no word"),
        (["kind,2.6"], "2 cells"),
        (["kind,2,6,positive"], "4 cells"),
        ([], "is empty"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, rows: list[str], part: str) -> None:
    with pytest.raises(Fp2Error, match=part):
        read_traits(listed(tmp_path, *rows))


def test_a_list_without_the_word_column_or_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Fp2Error, match="lacks WORD_ENGLISH"):
        read_traits(listed(tmp_path, "kind,positive", header="ADJECTIVE,pos/neg"))
    with pytest.raises(Fp2Error, match="cannot be read"):
        read_traits(tmp_path / "missing.csv")
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\x00\x00")
    with pytest.raises(Fp2Error, match="is not text"):
        read_traits(tmp_path / "picture.csv")


def test_traits_of_a_config() -> None:
    assert given_traits({"kind": 2.6, "cruel": "negative"}).traits == (
        Trait("kind", "positive", 2.6),
        Trait("cruel", "negative", None),
    )
    rows = [{"word": "kind", "polarity": "positive", "valence": 2.6}, {"word": "cruel", "valence": -2}]
    assert given_traits(rows).traits == (Trait("kind", "positive", 2.6), Trait("cruel", "negative", -2.0))
    for wrong in (["kind"], "kind", {"kind": True}, {}):
        with pytest.raises(Fp2Error):
            given_traits(wrong)
    assert given_traits({"kind": 2.6}).sha256 != given_traits({"kind": 2.5}).sha256


def test_the_official_list_is_found_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "release" / "lists").mkdir(parents=True)
    path = listed(tmp_path / "release" / "lists", "kind,2.6,positive")
    assert traits_path(tmp_path) == traits_path(path) == path
    path.unlink()
    with pytest.raises(Fp2Error, match="there is no selected_trait_words"):
        traits_path(tmp_path)
