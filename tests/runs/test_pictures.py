"""Pictures on pages: of drawings, by the salted keys of their images, and of no data set that shows people."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from bench import Bench, fp2, results_of
from PIL import Image

from fp2.data.base import load_configured
from fp2.progress import Progress
from fp2.runs.pictures import paths_by_key, shown_picture

DRAWN = ("data=peeps", "data.n_subjects=40", "data.images_per_subject=1", "data.n_pairs=0", "cut=region")
SEEN = "model.truth={seed: 1, effects: {lifestyle: {region: {Asia: -6}}}}"


def test_a_drawing_is_copied_small_and_an_image_of_people_never(bench: Bench) -> None:
    config = bench.config(*DRAWN)
    people = load_configured(config, Progress(quiet=True)).people
    (key, path), *_ = paths_by_key(people, Path(config.paths.state)).items()
    kind, _, data = shown_picture(config)(key).partition(",")
    assert kind == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(data))) as copy, Image.open(path) as drawing:
        assert max(copy.size) == 144 < max(drawing.size)
    assert shown_picture(config)("unknown key") == ""
    squares = bench.config()
    people = load_configured(squares, Progress(quiet=True)).people
    assert not any(map(shown_picture(squares), paths_by_key(people, Path(squares.paths.state))))


@pytest.mark.package(name="withdrawal")
def test_a_page_has_the_drawings_of_its_quotes_until_a_person_is_purged(bench: Bench) -> None:
    run = bench.run(
        *DRAWN, SEEN, "report=default", "report.figures=false", "analysis.min_subjects=4", "report.suppress_below=3"
    )
    assert any(row["significant"] for row in results_of(run.folder)["disparities"])
    config = bench.config(*DRAWN)
    people = load_configured(config, Progress(quiet=True)).people
    picture = shown_picture(config)
    of_image = dict(zip(people["image_id"], map(picture, paths_by_key(people, Path(config.paths.state))), strict=True))
    page = run.folder / "dashboard.html"
    quoted = {image for image, copy in of_image.items() if copy in page.read_text(encoding="utf-8")}
    assert len(quoted) == 2
    subject = people.loc[people["image_id"].isin(quoted), "subject_id"].iloc[0]
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0
    gone = set(people.loc[people["subject_id"] == subject, "image_id"])
    assert not any(of_image[image] in page.read_text(encoding="utf-8") for image in gone)
