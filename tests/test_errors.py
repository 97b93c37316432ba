"""Errors in answers' rows name no file."""

from pathlib import Path

import pytest
from PIL import Image

from fp2.errors import without_path


def _error(path: Path) -> Exception:
    with pytest.raises(OSError) as caught, Image.open(path):
        pass
    return caught.value


@pytest.mark.parametrize("name", ["Ada Lovelace.jpg", "O'Brien.png", "Zoë\n.png", "a \"b\" 'c'.png", "12"])
@pytest.mark.parametrize("there", [True, False])
def test_what_the_decoder_says_of_a_file_names_it_no_more(tmp_path: Path, name: str, there: bool) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    path = tmp_path / "link" / name
    if there:
        path.write_bytes(b"no picture")
    said = without_path(_error(path), path)
    assert "the file" in said
    for word in ("Ada", "Brien", "Zo", '"b"', "link", "real", tmp_path.name):
        assert word not in said
    resolved = without_path(_error(path.resolve()), path)
    assert resolved == said


def test_the_bare_name_goes_too_but_no_part_of_a_word() -> None:
    error = ValueError("Ada.jpg: broken; NotAda.jpg is another, and 10 is a number")
    assert without_path(error, Path("/data/Ada.jpg")) == "the file: broken; NotAda.jpg is another, and 10 is a number"
    assert without_path(error, Path("/data/1")) == str(error)


def test_an_error_without_words_tells_its_kind() -> None:
    assert without_path(MemoryError(), Path("a.jpg")) == "MemoryError"
