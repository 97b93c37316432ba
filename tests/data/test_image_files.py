"""Image files of others: formats, kinds of files and sizes that are not opened."""

from __future__ import annotations

import os
import struct
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import EpsImagePlugin, Image

from fp2.data import pixels
from fp2.data.pixels import BYTES_PER_PIXEL, decoding, digest_image, image_file, open_rgb


def png_of(width: int, height: int) -> bytes:
    """Return a PNG with the header of a large image and hardly any pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_postscript_named_png_never_reaches_an_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *args, **kwargs: ran.append(args))
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 4)).save(path, format="EPS")
    assert "cannot identify image file" in str(digest_image(path).error)
    assert ran == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_fifo_or_a_folder_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    (tmp_path / "b.png").mkdir()
    found: list[str | None] = []
    thread = threading.Thread(
        target=lambda: found.extend(digest_image(tmp_path / name).error for name in ("a.png", "b.png")), daemon=True
    )
    thread.start()
    thread.join(timeout=10)
    assert len(found) == 2
    assert all("not a regular file" in str(error) for error in found)


def test_an_image_of_more_pixels_than_memory_holds_is_refused_from_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png_of(13_000, 13_000))
    assert "169 megapixels, more than" in str(digest_image(path).error)
    monkeypatch.setattr(pixels, "budget", lambda: 30 * BYTES_PER_PIXEL)
    Image.new("RGB", (5, 6)).save(tmp_path / "b.png")
    Image.new("RGB", (5, 7)).save(tmp_path / "c.png")
    assert digest_image(tmp_path / "b.png").error is None
    assert "megapixels" in str(digest_image(tmp_path / "c.png").error)


def test_threads_share_one_budget_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "budget", lambda: 250 * BYTES_PER_PIXEL)
    now, most, lock = [0], [0], threading.Lock()
    all_started = threading.Barrier(8)

    def decode(_: int) -> None:
        all_started.wait(timeout=10)
        for _ in range(20):
            with decoding(Image.new("RGB", (10, 10))):
                with lock:
                    now[0] += 1
                    most[0] = max(most[0], now[0])
                threading.Event().wait(0.001)
                with lock:
                    now[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(decode, range(8)))
    assert most[0] == 2  # of 100 pixels each, in room for 250


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_usual_formats_are_read_whatever_the_suffix(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.img"
    Image.new("RGB", (3, 2), (250, 10, 20)).save(path, format=kind)
    assert open_rgb(path).size == (3, 2)
    with image_file(path) as image:
        assert image.size == (3, 2)
