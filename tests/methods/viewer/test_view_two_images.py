"""`fp2 view` of questions about two images: both are beside the answer."""

from __future__ import annotations

from pathlib import Path

from bench import Bench, execute
from probes.test_two_images import pairs, planted

from fp2.compose import load_config
from fp2.methods.viewer.command import load_viewed
from fp2.methods.viewer.pages import OF_SECOND, PER_PAGE, read_query, render
from fp2.progress import Progress


def test_both_images_are_shown(bench: Bench, tmp_path: Path) -> None:
    execute(planted(bench, tmp_path), bench.outputs / "one")
    viewed = load_viewed([str(bench.outputs / "one")], load_config(bench.paths), tmp_path, Progress(quiet=True))
    page = render(viewed, read_query(""))
    assert (page.count("First image"), page.count("Second image")) == (PER_PAGE - 1, PER_PAGE - 1)  # one has one
    second = next(key for key in viewed.images if key.endswith(OF_SECOND))
    assert f'src="image/{second}"' in page
    assert viewed.images[second] in {bench.pictures / name for name in pairs(bench)["file_b"]}
