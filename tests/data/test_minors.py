"""Images of minors are left out of every data set, whichever way it says how old people are."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from fp2.compose import load_config
from fp2.data.base import Dataset, load_configured, people_table, without_minors
from fp2.data.minors import is_minor, may_be_minor, states_age, states_birth
from fp2.errors import Fp2Error
from fp2.progress import Progress

NOTE = "{} of people who are, or may be, below 18 {} left out"


@pytest.mark.parametrize(
    "label",
    [
        "0",
        "17",
        "17.9",
        "0-2",
        "3-9",
        "10-19",
        "10 – 19",
        "3 to 9",
        "(10, 19]",
        "10s",
        "15+",
        "6 months",
        "24 months",
        "16 years",
        "17 years old",
        "0-17",
        "under 18",
        "<18",
        "Child",
        "teenager",
        "kids",
        "Teens",
        "babies",
        "<=17",
        "≤17",
        "under-18s",
        "up to 17",
        "child (0-12)",
        "minor [<18]",
        "15yo",
        "6 mo",
        "20 weeks",
    ],
)
def test_an_age_of_a_minor(label: str) -> None:
    assert is_minor(label)


@pytest.mark.parametrize(
    "label",
    [
        "18",
        "18-29",
        "20-29",
        "more than 70",
        "70+",
        "20s",
        "60",
        "18 to 25",
        "[18, 25)",
        "elderly",
        "young",
        "adult",
        "under 30",
        "over 18",
        "middle",
        "1st",
        "19 years",
        "unknown",
        "",
        "MST 05",
        "2 children",
        "5 or more",
        "adult (18+)",
        "adults",
        "up to 30",
        "s",
    ],
)
def test_no_age_of_a_minor(label: str) -> None:
    assert not is_minor(label)


def test_which_columns_have_ages() -> None:
    assert all(map(states_age, ["age", "Age", "apparent_age", "age_group", "Age (years)", "AgeGroup", "ages"]))
    assert not any(map(states_age, ["language", "image", "agent", "stage", "gender", "age_confidence", "Age score"]))


def test_which_columns_have_births() -> None:
    assert all(map(states_birth, ["birth_year", "year_of_birth", "date_of_birth", "DOB", "born", "BirthDate"]))
    assert not any(map(states_birth, ["place_of_birth", "birth_weight", "stubborn", "year", "name_at_birth"]))


@pytest.mark.parametrize(
    ("birth", "taken", "minor"),
    [
        ("1980", "", False),
        ("{now}", "", True),
        ("{18 years ago}", "", True),
        ("{19 years ago}", "", False),
        ("1990", "2001", True),
        ("1990", "2009-05-01", False),
        ("1999-12-31", "", False),
        ("19991231", "2010", True),
        ("1990.0", "", False),
        ("1990s", "2015", True),
        ("05/07/99", "", True),
        ("unknown", "", False),
        ("", "", False),
    ],
)
def test_a_year_of_birth_is_an_age_in_doubt_a_minors(birth: str, taken: str, minor: bool) -> None:
    now = datetime.now(UTC).year
    ages = {"{now}": now, "{18 years ago}": now - 18, "{19 years ago}": now - 19}
    assert may_be_minor([str(ages.get(birth, birth))], [taken]) is minor


def dataset(ages: list[list[str]], images: list[str] | None = None) -> Dataset:
    images = images or [f"{n}.png" for n in range(len(ages))]
    columns: dict[str, list[Any]] = {
        "image_id": images,
        "subject_id": [f"p{n}" for n in range(len(ages))],
        "image_path": [f"/{i}" for i in images],
        "is_primary": [True] * len(ages),
        "n_people": [images.count(i) for i in images],
        "attr_age": ages,
    }
    return Dataset("d", None, people_table(columns), ("first",))


def test_an_image_that_shows_a_minor_is_left_out_with_all_who_are_in_it() -> None:
    kept = without_minors(dataset([["30-39"], ["17"], ["40"], []], ["a", "a", "b", "c"]))
    assert kept.people["image_id"].tolist() == ["b", "c"]
    assert kept.notes == ("first", NOTE.format("1 image", "was"))
    adults = dataset([["18"], []])
    assert without_minors(adults) is adults


def test_where_nobody_is_left_it_says_why() -> None:
    with pytest.raises(Fp2Error, match=r"all 2 images show people who are, or may be, below 18.*codes"):
        without_minors(dataset([["0"], ["1"]]))


@pytest.fixture
def fairface(tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    """Five pictures with FairFace's bands."""
    ages = ["0-2", "10-19", "20-29", "more than 70", "3-9"]
    for n in range(len(ages)):
        Image.new("RGB", (4, 4), (n, 0, 0)).save(tmp_path / f"{n}.png")
    files = [f"{n}.png" for n in range(len(ages))]
    return tmp_path, pd.DataFrame({"file": files, "age": ages, "gender": ["Female", "Male"] * 2 + ["Male"]})


@pytest.mark.parametrize("mapped", [", age: age", ", how_old: age", ""], ids=["age", "another name", "not read"])
@pytest.mark.parametrize("kind", ["table", pytest.param("hf", marks=pytest.mark.package(name="public_sets"))])
def test_tables_and_local_data_sets_have_no_minors(
    fairface: Any, kind: str, mapped: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, frame = fairface
    columns = f"data.columns={{image: file, gender: gender{mapped}}}"
    if kind == "hf":
        (folder / "data").mkdir()
        frame.assign(file=[str(folder / name) for name in frame["file"]]).to_parquet(folder / "data/train.parquet")
        given = [f"data.root={folder / 'data'}", columns]
    else:
        frame.to_csv(folder / "people.csv", index=False)
        given = [f"data.path={folder / 'people.csv'}", columns]
    config = load_config(["model=planted", f"data={kind}", *given, f"paths.root={folder}"])
    loaded = load_configured(config, Progress())
    assert [Path(name).name for name in loaded.people["image_path"]] == ["2.png", "3.png"]
    assert NOTE.format("3 images", "were") in loaded.notes
    assert NOTE.format("3 images", "were") in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("photo", ["2015", ""])
def test_a_table_with_years_of_birth_has_no_minors(fairface: Any, photo: str) -> None:
    folder, frame = fairface
    births = ["2014", "1998", "1980", "1950", "1997"]
    table = frame.drop(columns="age").assign(year_of_birth=births, photo_year=photo)
    table.to_csv(folder / "people.csv", index=False)
    words = [f"data.path={folder / 'people.csv'}", "data.columns={image: file, gender: gender}"]
    config = load_config(["model=planted", "data=table", *words, f"paths.root={folder}"])
    loaded = load_configured(config, Progress(quiet=True))
    left = ["2.png", "3.png"] if photo else ["1.png", "2.png", "3.png", "4.png"]
    assert [Path(name).name for name in loaded.people["image_path"]] == left
