"""The interface of a data set: options from the config, what enters the config hash, data sets of third parties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import load_config
from rooted import ROOTED
from thorough import thorough_but

from fp2.compose import identity_of
from fp2.config import choices
from fp2.data.base import LoadContext, configured_source, data_source, identity, load_configured, people_table
from fp2.errors import Fp2Error
from fp2.progress import Progress
from fp2.tables import PEOPLE, row_model

GIVEN = {
    **{name: ["data.root=/data"] for name in ROOTED},
    "hf": ["data.root=/data", "data.columns={image: image}"],
    "table": ["data.path=/data/p.csv", "data.columns={image: file}"],
    "counterfactual": ["data.path=/data/p.csv"],
    "vl_gender": ["data.root=/data", "data.checkout=/code"],
    "pairs": ["data.root=/data", "data.questions=/code.py"],
}
CHOICES = list(choices("data"))
COMMON = ["data.seed=5", "data.limit=10", "data.offset=3", "data.stratify=[region]", "data.ids=[a,7]"]
OWN = {
    "peeps": ["data.n_subjects=50", "data.n_sets=3"],
    "peeps_twins": ["data.n_pairs=4", "data.images_per_subject=2"],
    "fhibe": ["data.form=fullres", "data.expand_regions=true", "data.path=/x.csv", "data.accept_terms=true"],
    "table": ["data.columns={image: file, age: 3}", "data.image_root=/images"],
    "folder": ["data.attribute=job"],
    "hf": ["data.split=test"],
}


DRAWN = {"n_subjects": 400, "images_per_subject": 3, "n_pairs": 60, "n_sets": 40}
HASHED: dict[str, dict[str, Any]] = {
    "peeps": DRAWN,
    "peeps_twins": DRAWN,
    "fhibe": {"form": "auto", "expand_regions": False},
    "fhibe_faces": {"kind": "fhibe", "form": "face_aligned", "expand_regions": False},
    "table": {"columns": {"image": "file"}},
    "counterfactual": {"kind": "table", "columns": {"image": "image", "subject": "set_id", "set_id": "set_id"}},
    "folder": {"attribute": "group"},
    "hf": {"columns": {"image": "image"}, "split": None},
    "fairface_hub": {
        "kind": "hf", "columns": {name: name for name in ("image", "gender", "race", "age", "service_test")},
        "split": None,
    },
    "genderbias_vl": {"part": "VLbias"},
    "vl_gender": {"task": "skills", "per_gender": 500, "prompt_seed": 42},
}  # fmt: skip


@pytest.mark.parametrize("name", thorough_but(CHOICES, "peeps", "folder"))
def test_what_enters_the_config_hash(name: str) -> None:
    options = configured_source(load_config([f"data={name}", *GIVEN.get(name, [])])).options
    every = {"columns": None, "seed": 20260101, "limit": None, "offset": 0, "stratify": None}
    assert identity(options) == {"name": name, "kind": name, **every, **HASHED.get(name, {})}


@pytest.mark.parametrize("name", thorough_but(CHOICES, "peeps", "folder"))
def test_the_config_hash_holds_what_it_held(name: str, tmp_path: Path) -> None:
    base = [f"data={name}", *GIVEN.get(name, [])]
    (tmp_path / "ids.txt").write_text("a\nb\n")
    for more in (OWN.get(name, []), [*COMMON, f"data.ids={tmp_path / 'ids.txt'}"]):
        config = load_config([*base, *more])
        assert identity(configured_source(config).options) == identity_of(config)["data"], more


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["data=folder", "data.root=/d", "data.columns={image: x}"],
            r"data=folder has no option 'columns' \(data\.columns\)\. .*Choose from",
        ),
        (["data=peeps", "data.attribute=job"], r"data=peeps has no option 'attribute' \(data\.attribute\)"),
        (
            ["data=table", "data.path=/p.csv"],
            r"data=table needs the columns to read \(data\.columns\)\. Add data\.columns",
        ),
    ],
)
def test_options_that_a_data_set_lacks_or_needs_are_one_line(words: list[str], says: str) -> None:
    with pytest.raises(Fp2Error, match=says) as caught:
        load_configured(load_config(words), Progress(quiet=True))
    assert "\n" not in str(caught.value)


MODULE = """
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fp2.data.base import Content, DataOptions, Dataset, DataSource, Local, OmitDefault, Required, people_table

@dataclass(frozen=True, kw_only=True)
class Options(DataOptions):
    root: Annotated[Path, Local(), Required("the folder of the faces")]
    labels: Annotated[str | None, Content()] = None
    zoom: Annotated[int, OmitDefault()] = 1

class Faces(DataSource):
    Options = Options

    def load(self, context):
        row = {"image_id": ["a"], "subject_id": ["s"], "image_path": [str(self.options.root / "a.png")],
               "is_primary": [True], "n_people": [1], "attr_gender": [["x"]]}
        context.progress.note(str(context.remote))
        return Dataset(self.options.name, "1", people_table(row), schema_lines=("odd",))

class Unwritten(DataSource):
    Options = Options

class Other:
    Options = Options
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_faces.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_faces"


def test_a_data_set_of_a_third_party(module: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"name": "mine", "target": f"{module}:Faces", "root": "/r", "limit": 4}
    source = data_source(given)
    assert source.options.root == Path("/r")
    context = LoadContext(tmp_path, tmp_path, Progress(quiet=True))
    (file,) = source.load(context).image_files()
    assert (file.image_id, file.path, file.annotation, file.size) == ("a", Path("/r/a.png"), None, None)
    assert source.lists_everyone
    assert not source.has_withdrawals
    held = identity(source.options)
    assert held["target"] == f"{module}:Faces"
    assert not {"root", "zoom", "ids"} & set(held)
    assert identity(data_source({**given, "zoom": 2}).options) == {**held, "zoom": 2}
    assert identity(data_source({**given, "root": "/elsewhere"}).options) == held
    (tmp_path / "one.csv").write_text("a")
    (tmp_path / "two.csv").write_text("a")
    one, two = (identity(data_source({**given, "labels": str(tmp_path / f"{n}.csv")}).options) for n in ("one", "two"))
    assert one == two != held
    with pytest.raises(Fp2Error, match=r"cannot be read.*data\.labels"):
        identity(data_source({**given, "labels": str(tmp_path / "none.csv")}).options)


def test_a_data_set_named_by_its_path_in_the_config(
    module: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(["data=folder", "data.root=/r"])
    config = replace(config, data=replace(config.data, kind=f"{module}:Faces"))
    config.model.base_url = "http://far.example/v1"
    assert load_configured(config, Progress()).people["image_id"].tolist() == ["a"]
    assert capsys.readouterr().err.split("\n")[:2] == ["http://far.example/v1", "1: odd"]
    for here in ("http://localhost:8000", "http://127.0.0.3/v1", None):
        config.model.base_url = here
        load_configured(config, Progress())
        assert capsys.readouterr().err.startswith("None\n")


@pytest.mark.parametrize(
    ("target", "more", "says"),
    [
        ("Faces", {}, r"data=mine needs the folder of the faces \(data\.root\)\. Add data\.root=PATH"),
        ("Faces", {"root": "/r", "zom": 1}, "unknown key 'zom'.*Did you mean 'zoom'"),
        ("Faces", {"root": "/r", "limit": 0}, r"0 is not at least 1 \(data\.limit\)"),
        ("Faces", {"root": "/r", "ids": {"a": 1}}, r"neither a list nor the path of a file \(data\.ids\)"),
        ("Unwritten", {"root": "/r"}, r"is not a data set: it lacks load \(data\.target\)"),
        ("Other", {"root": "/r"}, "is not a data set: it lacks load, has_withdrawals, lists_everyone"),
        ("Face", {}, "has no 'Face'.*Did you mean 'Faces'"),
    ],
)
def test_mistakes_in_a_data_set_or_its_options_are_one_line(
    module: str, target: str, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(Fp2Error, match=says) as caught:
        data_source({"name": "mine", "target": f"{module}:{target}", **more})
    assert "\n" not in str(caught.value)


def test_an_unknown_data_set_is_named_with_the_nearest() -> None:
    with pytest.raises(Fp2Error, match=r"unknown data 'tabel'.*Did you mean 'table'"):
        data_source({"name": "x", "kind": "tabel"})


def test_a_people_table_has_the_schemas_columns_first_and_fills_what_may_be_absent() -> None:
    columns: dict[str, list[object]] = {
        "attr_x": [["a"]],
        "image_id": ["i"],
        "subject_id": ["s"],
        "image_path": ["/i"],
        "is_primary": [True],
        "n_people": [1],
    }
    table = people_table(columns)
    assert table.columns[0] == "image_id"
    assert table.columns[-1] == "attr_x"
    assert pd.isna(table["box_x"][0])
    assert pd.isna(table["set_id"][0])
    with pytest.raises(Fp2Error, match=r"lacks the column n_people"):
        people_table({name: value for name, value in columns.items() if name != "n_people"})
    with pytest.raises(Fp2Error, match=r"'two' is not a whole number \(people\.0\.n_people\)"):
        people_table({**columns, "n_people": ["two"]})


def test_the_rows_of_a_data_set_fit_the_pydantic_model_of_a_row(own_root: Path) -> None:
    people = load_configured(
        load_config(["data.n_subjects=5", "data.n_pairs=0", f"paths.root={own_root}"]), Progress(quiet=True)
    ).people
    for row in people.astype(object).where(people.notna(), None).to_dict("records"):
        boxes = {name: row[name] or float("nan") for name in ("box_x", "box_y", "box_w", "box_h")}
        assert row_model(PEOPLE).model_validate({**row, **boxes}).model_dump()["subject_id"] == row["subject_id"]
