"""The user's own images: the forms that a table may have, and an error for each mistake in it."""

import json
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from fp2.data.readers.table import load_table
from fp2.errors import Fp2Error
from fp2.tables import PEOPLE

COLUMNS = {"image": "file", "subject": "who", "gender": "sex", "age": "years"}
ROWS = [
    {"file": "a.png", "who": "p1", "sex": "woman", "years": "29"},
    {"file": "b.png", "who": "p1", "sex": "woman;nonbinary", "years": "30"},
    {"file": "sub/c.png", "who": "p2", "sex": "", "years": "elderly"},
]


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "sub").mkdir()
    for name in ("a.png", "b.png", "sub/c.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    return tmp_path


def write(folder: Path, rows, name="people.csv") -> Path:
    path, frame = folder / name, pd.DataFrame(rows)
    if name.endswith(".parquet"):
        frame.to_parquet(path)
    elif name.endswith(".jsonl"):
        path.write_text("\n\n".join(json.dumps(row) for row in rows) + "\n")
    else:
        frame.to_csv(path, index=False, sep="\t" if name.endswith(".tsv") else ",")
    return path


@pytest.mark.parametrize("name", ["people.csv", "people.tsv", "people.parquet", "people.jsonl", "PEOPLE.CSV"])
def test_every_kind_of_table_says_the_same(folder, name):
    dataset = load_table(write(folder, ROWS, name), COLUMNS)
    people = dataset.people
    assert list(people.columns) == [*PEOPLE.names, "attr_gender", "attr_age"]
    assert people["image_id"].tolist() == ["a.png", "b.png", "sub/c.png"]
    assert people["image_path"].tolist() == [str(folder / name) for name in ("a.png", "b.png", "sub/c.png")]
    assert people["subject_id"].tolist() == ["p1", "p1", "p2"]
    assert people["n_people"].tolist() == [1, 1, 1]
    assert people["attr_gender"].tolist() == [["woman"], ["woman", "nonbinary"], []]
    assert people["attr_age"].tolist() == [["18-29"], ["30-39"], ["elderly"]]
    assert (dataset.release, dataset.notes) == (None, ())


def test_typed_cells_of_parquet(folder):
    frame = pd.DataFrame(
        {
            "file": ["a.png", "b.png", "sub/c.png"],
            "who": [1, 2, 3],
            "sex": [["a", "b", "a"], [], None],
            "years": [18.0, float("nan"), 61.0],
        }
    )
    frame.to_parquet(folder / "t.parquet")
    people = load_table(folder / "t.parquet", COLUMNS).people
    assert people["subject_id"].tolist() == ["1", "2", "3"]
    assert people["attr_gender"].tolist() == [["a", "b"], [], []]
    assert people["attr_age"].tolist() == [["18-29"], [], ["60+"]]


def test_words_that_look_like_missing_values_stay_words(folder):
    rows = [{**ROWS[0], "sex": "NA"}, {**ROWS[1], "sex": "None"}, {**ROWS[2], "sex": " null ; "}]
    people = load_table(write(folder, rows), COLUMNS).people
    assert people["attr_gender"].tolist() == [["NA"], ["None"], ["null"]]


def test_keys_absent_from_a_json_line_are_no_value(folder):
    rows = [dict(ROWS[0]), {key: value for key, value in ROWS[1].items() if key != "sex"}]
    assert load_table(write(folder, rows, "t.jsonl"), COLUMNS).people["attr_gender"].tolist() == [["woman"], []]


def test_without_a_subject_each_image_is_a_subject_and_a_note_says_so(folder):
    dataset = load_table(write(folder, ROWS), {"image": "file", "gender": "sex"})
    assert dataset.people["subject_id"].tolist() == dataset.people["image_id"].tolist()
    assert any("a subject of its own" in note for note in dataset.notes)


def test_the_other_name_for_a_subject(folder):
    dataset = load_table(write(folder, ROWS), {"image": "file", "subject_id": "who"})
    assert dataset.people["subject_id"].tolist() == ["p1", "p1", "p2"]
    with pytest.raises(Fp2Error, match="given twice"):
        load_table(folder / "people.csv", {"image": "file", "subject_id": "who", "subject": "who"})


def test_two_people_in_one_image_are_counted(folder):
    rows = [ROWS[0], {**ROWS[0], "who": "p9"}, ROWS[1]]
    assert load_table(write(folder, rows), COLUMNS).people["n_people"].tolist() == [2, 2, 1]


def test_an_image_root_and_ids_that_do_not_depend_on_it(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("tables")
    path = write(elsewhere, [{**row, "file": f"./{row['file']}"} for row in ROWS])
    people = load_table(path, COLUMNS, folder).people
    assert people["image_id"].tolist() == ["a.png", "b.png", "sub/c.png"]
    absolute = write(elsewhere, [{**row, "file": str(folder / row["file"])} for row in ROWS], "abs.csv")
    assert load_table(absolute, COLUMNS, folder).people["image_id"].tolist() == people["image_id"].tolist()
    outside = load_table(absolute, COLUMNS)
    assert outside.people["image_id"].tolist() == [str(folder / row["file"]) for row in ROWS]
    assert any("lie outside" in note for note in outside.notes)


def test_one_missing_image_is_a_row_all_missing_is_an_error(folder):
    rows = [ROWS[0], {**ROWS[1], "file": "gone.png"}]
    assert len(load_table(write(folder, rows), COLUMNS).people) == 2
    with pytest.raises(Fp2Error, match="none of the 1 images was found"):
        load_table(write(folder, rows[1:]), COLUMNS)


def test_a_missing_column_is_named_with_the_nearest(folder):
    with pytest.raises(Fp2Error, match=r"no column 'gendr' \(for gender\).*Did you mean 'gender'") as caught:
        load_table(write(folder, [{"file": "a.png", "gender": "x"}]), {"image": "file", "gender": "gendr"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "columns", [{"gender": "sex"}, {"image": "file", "n_people": "sex"}, {"image": "file", "a b": "sex"}]
)
def test_a_mapping_that_cannot_be_followed(folder, columns):
    with pytest.raises(Fp2Error, match=r"data\.columns"):
        load_table(write(folder, ROWS), columns)


def test_the_first_repeated_pair_is_named(folder):
    with pytest.raises(Fp2Error, match=r"rows 1 and 3 have one image and subject: 'a\.png', 'p1'"):
        load_table(write(folder, [ROWS[0], ROWS[1], ROWS[0], ROWS[1]]), COLUMNS)
    with pytest.raises(Fp2Error, match="have one image"):
        load_table(write(folder, [ROWS[0], {**ROWS[0], "who": "p2"}]), {"image": "file"})


@pytest.mark.parametrize(("column", "said"), [("file", "row 2"), ("who", "'who' is empty in row 2")])
def test_an_empty_image_or_subject_is_named(folder, column, said):
    with pytest.raises(Fp2Error, match=said):
        load_table(write(folder, [ROWS[0], {**ROWS[1], column: " "}]), COLUMNS)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "is empty"),
        ("t.csv", b"file,who,sex,years\n", "has no rows"),
        ("t.csv", b"file,who,sex,years\na.png,p1\n", "row 1 has 2 cells, the header has 4"),
        ("t.csv", b"file,who,sex,years\na.png,p1,x,3,4\n", "row 1 has 5 cells"),
        ("t.csv", b"file,who,file,years\n", "has file twice"),
        ("t.csv", b"file,\xe9\n", "cannot be read"),
        ("t.jsonl", b'{"file": "a.png"}\n{oops\n', "line 2 is not JSON"),
        ("t.jsonl", b"[1]\n", "line 1 is not a JSON object"),
        ("t.parquet", b"not parquet", "cannot be read"),
        ("t.xlsx", b"", "cannot have the suffix '.xlsx'"),
    ],
)
def test_broken_tables_are_one_line(folder, name, content, said):
    (folder / name).write_bytes(content)
    with pytest.raises(Fp2Error, match=said) as caught:
        load_table(folder / name, COLUMNS)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["none.csv", "none.jsonl", "none.parquet"])
def test_a_table_that_does_not_exist(folder, name):
    with pytest.raises(Fp2Error, match="does not exist"):
        load_table(folder / name, COLUMNS)


def test_excels_byte_order_mark_is_no_part_of_the_first_name(folder):
    (folder / "t.csv").write_bytes(b"\xef\xbb\xbffile,sex\r\na.png,x\r\n")
    assert load_table(folder / "t.csv", {"image": "file", "gender": "sex"}).people["attr_gender"].tolist() == [["x"]]


def test_a_counterfactual_set_loads_with_its_sets(folder):
    rows = [{**row, "set": name} for row, name in zip(ROWS, ("s1", "s1", ""), strict=True)]
    people = load_table(write(folder, rows), {**COLUMNS, "set_id": "set"}).people
    assert people["set_id"].tolist()[:2] == ["s1", "s1"]
    assert people["set_id"].isna().tolist() == [False, False, True]


def test_spellings_of_a_missing_value_are_no_group(tmp_path: Path) -> None:
    """`nan` is what programs write for nothing; `NA` is Namibia, and `none` an answer."""
    cells = ["f", "nan", "NaN", "<NA>", "#N/A", "N/A", "", "NA", "none", "f;nan"]
    for number in range(len(cells)):
        (tmp_path / f"{number}.png").write_bytes(b"")
    table = tmp_path / "people.csv"
    table.write_text("image,g\n" + "".join(f"{i}.png,{cell}\n" for i, cell in enumerate(cells)), encoding="utf-8")
    people = load_table(table, {"image": "image", "g": "g"}).people
    assert [list(cell) for cell in people["attr_g"]] == [["f"], *[[]] * 6, ["NA"], ["none"], ["f"]]


@pytest.mark.parametrize(("mark", "encoding"), [(";", "utf-8"), ("\t", "utf-8"), (",", "utf-16"), (";", "utf-16")])
def test_the_tables_of_other_programs_are_read(folder: Path, mark: str, encoding: str) -> None:
    rows = [["file", "who", "sex"], ["a.png", "Zoë", "woman"], ["b.png", "p2", "man"]]
    table = folder / "people.csv"
    table.write_bytes("\r\n".join(mark.join(row) for row in rows).encode(encoding))
    people = load_table(table, {"image": "file", "subject": "who", "gender": "sex"}).people
    assert people["subject_id"].tolist() == ["Zoë", "p2"]
    assert people["attr_gender"].tolist() == [["woman"], ["man"]]


def test_a_latin_1_table_is_one_line_with_the_remedy(folder: Path) -> None:
    table = folder / "people.csv"
    table.write_bytes("file,who\na.png,Zoë\n".encode("latin-1"))
    with pytest.raises(Fp2Error, match=r"Save it as UTF-8.*iconv") as caught:
        load_table(table, {"image": "file", "subject": "who"})
    assert "\n" not in str(caught.value)


def test_two_spellings_of_a_subject_are_one(folder):
    rows = [
        {"file": f, "who": w} for f, w in (("a.png", "Zo\u00eb"), ("b.png", "Zoe\u0308"), ("sub/c.png", "Zoe\u0308 "))
    ]
    people = load_table(write(folder, rows, "people.jsonl"), {"image": "file", "subject": "who"}).people
    assert people["subject_id"].tolist() == ["Zo\u00eb"] * 3


def test_two_spellings_of_a_subject_are_one_in_one_image(folder):
    rows = [{"file": "a.png", "who": who} for who in ("Zo\u00eb", "Zoe\u0308 ")]
    with pytest.raises(Fp2Error, match="rows 1 and 2 have one image and subject"):
        load_table(write(folder, rows, "people.jsonl"), {"image": "file", "subject": "who"})


def test_two_images_whose_names_are_spellings_of_one_are_refused(folder):
    for name in ("\u00e9.png", "e\u0301.png"):
        Image.new("RGB", (4, 4)).save(folder / name)
    rows = [{"file": "\u00e9.png"}, {"file": "e\u0301.png"}]
    with pytest.raises(Fp2Error, match=r"two images have one id, '\\xe9\.png'.*Rename one"):
        load_table(write(folder, rows, "people.jsonl"), {"image": "file"})
    alone = load_table(write(folder, rows[1:], "people.jsonl"), {"image": "file"}).people
    assert alone["image_id"].tolist() == ["\u00e9.png"]
    assert Path(alone["image_path"].iloc[0]).is_file()
