"""Pixel digests: equal for equal pixels, remembered until the file changes, errors as words."""

import hashlib
import os
import sqlite3

import numpy as np
import pytest
from PIL import Image

from fp2.data import pixels
from fp2.data.base import people_table
from fp2.data.pixels import PixelIndex, dataset_digest, digest_image, open_rgb
from fp2.errors import Fp2Error

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (9, 7, 3), dtype=np.uint8)


@pytest.fixture
def index():
    return PixelIndex(sqlite3.connect(":memory:"))


def save(path, pixels=PIXELS, **options):
    Image.fromarray(pixels).save(path, **options)
    return path


def test_the_digest_is_of_the_size_and_the_rgb_bytes(tmp_path, index):
    path = save(tmp_path / "a.png")
    digest = index.digest_many([path])[path]
    assert digest.sha256 == hashlib.sha256(b"RGB 7 9\n" + PIXELS.tobytes()).hexdigest()
    assert (digest.width, digest.height, digest.error) == (7, 9, None)


def test_file_format_and_mode_do_not_matter_pixels_and_shape_do(tmp_path):
    image = Image.fromarray(PIXELS)
    png, bmp, rgba = tmp_path / "a.png", tmp_path / "a.bmp", tmp_path / "b.png"
    image.save(png, compress_level=9)
    image.save(bmp)
    image.convert("RGBA").save(rgba)
    assert digest_image(png) == digest_image(bmp) == digest_image(rgba)
    changed = PIXELS.copy()
    changed[0, 0, 0] ^= 1
    assert digest_image(save(tmp_path / "c.png", changed)).sha256 != digest_image(png).sha256
    assert digest_image(save(tmp_path / "d.png", PIXELS.reshape(7, 9, 3))).sha256 != digest_image(png).sha256


def test_exif_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side: shown turned by 90 degrees clockwise
    path = save(tmp_path / "a.png", np.rot90(PIXELS).copy(), exif=exif)
    assert digest_image(path) == digest_image(save(tmp_path / "b.png"))


def test_transparency_is_laid_on_white(tmp_path):
    image = Image.new("RGBA", (2, 1), (10, 20, 30, 0))
    image.putpixel((1, 0), (10, 20, 30, 255))
    image.save(tmp_path / "a.png")
    assert [open_rgb(tmp_path / "a.png").getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (10, 20, 30)]
    palette = Image.new("P", (1, 1), 0)
    palette.putpalette([1, 2, 3])
    palette.save(tmp_path / "p.png", transparency=0)
    assert open_rgb(tmp_path / "p.png").getpixel((0, 0)) == (255, 255, 255)


def test_broken_images_are_errors_in_words_beside_good_ones(tmp_path, index):
    good = save(tmp_path / "good.png")
    half = tmp_path / "half.png"
    half.write_bytes(
        save(tmp_path / "big.png", RNG.integers(0, 256, (200, 200, 3), dtype=np.uint8)).read_bytes()[:40_000]
    )
    text, empty, gone = tmp_path / "text.png", tmp_path / "empty.png", tmp_path / "gone.png"
    text.write_text("not a picture")
    empty.touch()
    deep = tmp_path / "deep.png"
    Image.fromarray(np.full((2, 2), 40_000, dtype=np.uint16)).save(deep)
    digests = index.digest_many([good, half, text, empty, gone, deep, tmp_path])
    assert digests[good].error is None
    assert digests[gone].error == "the image file is missing"
    for path in (half, text, empty, deep, tmp_path):
        assert digests[path].sha256 is None
        assert "cannot be read" in digests[path].error
    assert "8 bits" in digests[deep].error


def test_an_image_of_unreasonable_size_is_an_error(tmp_path, monkeypatch):
    path = save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert "DecompressionBomb" in digest_image(path).error


def test_a_second_time_decodes_nothing_and_a_changed_file_again(tmp_path):
    store, paths = tmp_path / "s.db", [save(tmp_path / f"{n}.png", PIXELS + np.uint8(n)) for n in range(150)]
    with sqlite3.connect(store) as connection:
        first = PixelIndex(connection)
        before = first.digest_many(paths)
        assert first.decoded == 150
    second = PixelIndex(sqlite3.connect(store))
    assert second.digest_many(paths) == before
    assert second.decoded == 0
    save(paths[3], PIXELS + np.uint8(200))
    os.utime(paths[4], ns=(1, 1))
    after = second.digest_many(paths)
    assert second.decoded == 2
    assert {path for path in paths if after[path] != before[path]} == {paths[3]}


def test_verify_decodes_everything_and_sees_what_the_stamp_hides(tmp_path, index, monkeypatch):
    """As on a file system that keeps no times."""
    monkeypatch.setattr(pixels, "file_stamp", lambda path, *values: (path.stat().st_size, 1))
    path = tmp_path / "a.bmp"
    save(path)
    before = index.digest_many([path])[path]
    save(path, PIXELS[::-1].copy())
    assert index.digest_many([path])[path] == before
    assert index.digest_many([path], verify=True)[path] != before
    assert index.digest_many([path])[path] != before


def test_errors_are_tried_again(tmp_path, index):
    path = tmp_path / "a.png"
    assert index.digest_many([path])[path].error
    save(path)
    assert index.digest_many([path])[path].error is None


def test_a_file_that_changes_while_it_is_read_is_not_remembered(tmp_path, index, monkeypatch):
    path = save(tmp_path / "a.png")

    def overtaken(path):
        digest = digest_image(path)
        save(path, RNG.integers(0, 256, (30, 30, 3), dtype=np.uint8))
        return digest

    with monkeypatch.context() as patch:
        patch.setattr("fp2.data.pixels.digest_image", overtaken)
        index.digest_many([path])
    assert index.digest_many([path])[path] == digest_image(path)
    assert index.decoded == 2


def test_an_interrupted_call_keeps_the_batches_before(tmp_path):
    paths = [save(tmp_path / f"{n}.png", PIXELS + np.uint8(n)) for n in range(150)]
    connection = sqlite3.connect(":memory:")
    done = 0

    def stop(more):
        nonlocal done
        done += more
        if done >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PixelIndex(connection).digest_many(paths, stop)
    again = PixelIndex(connection)
    again.digest_many(paths)
    assert again.decoded == 150 - 64


def test_a_database_that_cannot_be_written_is_one_line(tmp_path):
    path = save(tmp_path / "a.png")
    PixelIndex(sqlite3.connect(tmp_path / "s.db"))
    index = PixelIndex(connection := sqlite3.connect(tmp_path / "s.db"))
    connection.execute("PRAGMA query_only = ON")
    with pytest.raises(Fp2Error, match="cannot be read or stored"):
        index.digest_many([path])
    new = sqlite3.connect(tmp_path / "new.db")
    new.execute("PRAGMA query_only = ON")
    with pytest.raises(Fp2Error, match="cannot be read or stored"):
        PixelIndex(new)


SHA = {"i1": "a" * 64, "i2": "b" * 64, "i3": None}


def people(root="/one"):
    columns = {"image_id": ["i1", "i2", "i3"], "subject_id": ["s1", "s1", "s2"]}
    paths = {"image_path": [f"{root}/{n}.png" for n in range(3)]}
    flags = {"is_primary": [True] * 3, "n_people": [1] * 3}
    attributes = {"attr_region": [["Asia", "Europe"], ["Asia"], []], "attr_age": [["18-29"], [], []]}
    return people_table({**columns, **paths, **flags, **attributes})


def test_rows_paths_and_order_of_values_do_not_matter():
    digest = dataset_digest(people(), SHA)
    turned = people("/two").iloc[::-1]
    turned["attr_region"] = [cell[::-1] for cell in turned["attr_region"]]
    assert dataset_digest(turned[turned.columns[::-1]], dict(reversed(SHA.items()))) == digest
    assert len(digest) == 64


@pytest.mark.parametrize(("column", "value"), [("image_id", "i3"), ("subject_id", "s9"), ("attr_region", ["Africa"])])
def test_everything_else_matters(column, value):
    changed = people()
    changed.at[0, column] = value
    assert dataset_digest(changed, SHA) != dataset_digest(people(), SHA)


def test_pixels_matter_and_an_image_without_an_entry_is_refused():
    assert dataset_digest(people(), {**SHA, "i1": "c" * 64}) != dataset_digest(people(), SHA)
    with pytest.raises(KeyError):
        dataset_digest(people(), {"i1": None})


def test_a_file_changed_within_its_size_and_time_is_decoded_again(tmp_path, index):
    """Whoever sets the modification time back still changes the file's change time."""
    first, second = tmp_path / "a.bmp", tmp_path / "b.bmp"
    save(first)
    save(second, 255 - PIXELS)
    before, stamp = index.digest_many([first])[first], first.stat()
    first.write_bytes(second.read_bytes())
    os.utime(first, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert (first.stat().st_size, first.stat().st_mtime_ns) == (stamp.st_size, stamp.st_mtime_ns)
    found = index.digest_many([first])[first]
    assert found != before
    assert found == digest_image(second)
    os.utime(second, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    save(second, PIXELS)
    os.replace(second, first)  # another inode
    assert index.digest_many([first])[first] == before


@pytest.mark.parametrize("change", ["sha256 = replace(sha256, substr(sha256, 1, 1), 'x')", "width = width + 1"])
def test_a_cached_digest_that_was_changed_in_the_store_is_not_believed(tmp_path, change):
    connection = sqlite3.connect(":memory:")
    path = save(tmp_path / "a.png")
    right = PixelIndex(connection).digest_many([path])[path]
    connection.execute(f"UPDATE pixel_digests SET {change}")
    again = PixelIndex(connection)
    assert again.digest_many([path])[path] == right
    assert again.decoded == 1
    assert PixelIndex(connection).digest_many([path])[path] == right
