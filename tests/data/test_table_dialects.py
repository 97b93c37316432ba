"""Tables of the user's, as other programs write them: semicolons, decimal commas, UTF-16, a byte order mark."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fp2.data.readers.table import number_column, read_table
from fp2.errors import Fp2Error

VECTORS = np.array([[0.5, -1.25], [2.0, 1e-3], [-3.0, 0.75]])
PAIRS = (
    "sent_more,sent_less,stereo_antistereo,bias_type\n"
    "They are lazy workers.,They are busy workers.,stereo,socioeconomic\n"
    '"Old, frail people.","Old, strong people.",stereo,age\n'
)


def as_semicolons(text: str) -> bytes:
    return text.replace(",", ";").replace(".", ",").encode("utf-8")


DIALECTS: dict[str, Callable[[str], bytes]] = {
    "comma": str.encode,
    "byte order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "semicolons and decimal commas": as_semicolons,
    "tabs": lambda text: text.replace(",", "\t").encode(),
    "UTF-16": lambda text: text.replace(",", ";").encode("utf-16"),
}


@pytest.mark.package(name="dataset_report")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_embeddings_are_read_in_every_dialect(dialect: str, tmp_path: Path) -> None:
    from fp2.methods.dataset_report.vendi import from_file

    rows = [f"i{n},{','.join(map(str, row))}" for n, row in enumerate(VECTORS.tolist())]
    (tmp_path / "e.csv").write_bytes(DIALECTS[dialect]("\n".join(["image_id,d0,d1", *rows]) + "\n"))
    people = pd.DataFrame({"image_id": ["i2", "i0", "i9"]})
    found, kept = from_file(tmp_path / "e.csv", people)
    assert kept["image_id"].tolist() == ["i2", "i0"]
    assert found.tolist() == VECTORS[[2, 0]].tolist()


@pytest.mark.package(name="gras")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_inference_files_are_read_in_every_dialect(dialect: str, tmp_path: Path) -> None:
    from fp2.methods.gras.inference_files import find_inference_files, read_probabilities

    text = "img,yes_prob_0,yes_prob_1\na/b,0.25,0.5\nc,,1.0\n"
    (tmp_path / "llava_kind.csv").write_bytes(DIALECTS[dialect](text))
    files = find_inference_files(tmp_path, ["kind"], "task.files.answers")
    found, _ = read_probabilities(files, ["a/b", "c"], ["kind"], lambda: None)
    assert np.allclose(found[:, 0], [[0.25, 0.5], [np.nan, 1.0]], equal_nan=True)


@pytest.mark.package(name="page_code")
def test_stereotype_pairs_are_read_with_semicolons_and_a_byte_order_mark(tmp_path: Path) -> None:
    from fp2.methods.page_code.published_terms import published_lexicon

    (tmp_path / "plain.csv").write_text(PAIRS, encoding="utf-8")
    with_mark = PAIRS.replace('"', "").replace("Old, ", "Old ").replace(",", ";")
    (tmp_path / "other.csv").write_bytes(codecs.BOM_UTF8 + with_mark.encode())
    plain, other = (published_lexicon(str(tmp_path / name)) for name in ("plain.csv", "other.csv"))
    assert plain.lists["terms"].entries == other.lists["terms"].entries == (("frail",), ("lazy",))


@pytest.mark.package(name="dataset_report")
def test_what_is_no_number_and_latin_1_are_one_line(tmp_path: Path) -> None:
    from fp2.methods.dataset_report.vendi import from_file

    (tmp_path / "a.csv").write_text("image_id,d0\ni0,1,5\n", encoding="utf-8")
    people = pd.DataFrame({"image_id": ["i0"]})
    with pytest.raises(Fp2Error, match="row 1 has 3 cells"):
        from_file(tmp_path / "a.csv", people)
    (tmp_path / "b.csv").write_text('image_id,d0\ni0,"1,5"\n', encoding="utf-8")  # a comma may separate thousands
    with pytest.raises(Fp2Error, match="row 1: d0 is 1,5, not a number"):
        from_file(tmp_path / "b.csv", people)
    (tmp_path / "c.csv").write_bytes("image_id;d0\nGrün;1\n".encode("latin-1"))
    with pytest.raises(Fp2Error, match="not UTF-8 text") as caught:
        from_file(tmp_path / "c.csv", people)
    assert "iconv" in str(caught.value.fix)


def test_empty_cells_are_missing_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;y\n1,5;\n-2e3;nan\n", encoding="utf-8")
    table = read_table(tmp_path / "a.csv")
    assert number_column(table, "x").tolist() == [1.5, -2000.0]
    assert np.isnan(number_column(table, "y")).all()
