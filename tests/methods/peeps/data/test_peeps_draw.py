"""Drawings and their geometry, held against the pixels: polygons must cover what is drawn, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import ndimage

from fp2.methods.fhibe_release.masks import mask_array, region_mask
from fp2.methods.peeps.data.draw import (
    render,
    render_backdrop,
    render_image,
    render_pair,
    skin_colour,
)
from fp2.methods.peeps.data.figure import EXPRESSIONS, HEADS, Cues, sample_image_cues, sample_person
from fp2.methods.peeps.data.style import CLOTHING, HAIR

SIZE = 384
BASE = Cues(2, 0, 0, 1, "medium3", clothing=1)


def fill(polygons, size=SIZE):
    return mask_array(region_mask((size, size), polygons))


def near(image, colour, tolerance=6):
    if isinstance(colour, str):
        colour = tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return np.abs(np.asarray(image).astype(int) - colour).max(axis=2) <= tolerance


def iou(first, second):
    return (first & second).sum() / (first | second).sum()


def drawn_pixels(image, region, phase, size=SIZE):
    """Pixels that differ from the backdrop with nobody in front of it, without specks (one style path has one)."""
    empty = np.asarray(render_backdrop(region, phase, size)).astype(int)
    changed, _ = ndimage.label(np.abs(np.asarray(image).astype(int) - empty).max(axis=2) > 0)
    sizes = np.bincount(changed.ravel())
    sizes[0] = 0
    return sizes[changed] > 20


@pytest.fixture(scope="module")
def sample():
    """One random image per head."""
    rng = np.random.default_rng(77)
    cues = [replace(sample_image_cues(sample_person(rng), rng), head=head) for head in HEADS]
    return [(each, render(each, SIZE)) for each in cues]


def test_the_union_of_the_polygons_is_the_person(sample):
    for cues, drawing in sample:
        drawn = drawn_pixels(drawing.image, cues.region, cues.phase)
        assert iou(fill(drawing.geometry.polygons), drawn) > 0.975, cues


def test_the_person_box_is_tight_around_the_drawn_pixels(sample):
    for cues, drawing in sample:
        rows, columns = np.nonzero(drawn_pixels(drawing.image, cues.region, cues.phase))
        x, y, width, height = drawing.geometry.person_box
        found = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert np.allclose((x, y, x + width, y + height), found, atol=2.5), cues


def test_skin_polygons_cover_the_pixels_of_the_skin_colour(sample):
    for cues, drawing in sample:
        if cues.beard:
            continue  # facial hair is part of the face and has another colour
        skin = near(drawing.image, skin_colour(cues), 2)
        polygons = fill(drawing.geometry.of("Face skin") + drawing.geometry.of("Upper body skin"))
        features = [
            s.polygon for s in drawing.geometry.segments if s.class_name not in ("Face skin", "Upper body skin")
        ]
        dark = near(drawing.image, HAIR[cues.age], 15) | near(drawing.image, "#000000", 60)
        assert iou(polygons & ~dark & ~fill(features), skin & ~dark & ~fill(features)) > 0.93, cues


def test_hair_and_clothes_polygons_cover_the_pixels_of_their_colour():
    for head in HEADS:
        cues = replace(BASE, head=head, age=3, clothing=3, expression=EXPRESSIONS.index("smile"))
        drawing = render(cues, SIZE)
        clothes = near(drawing.image, CLOTHING[3]) & (np.arange(SIZE)[:, None] > 0.6 * SIZE)
        assert fill(drawing.geometry.of("Upper body clothes"))[clothes].mean() > 0.97, head
        if head == "noHair1":
            assert not drawing.geometry.of("Head hair")
            continue
        tone = near(drawing.image, HAIR[3])
        hair, face = fill(drawing.geometry.of("Head hair")), fill(drawing.geometry.of("Face skin"))
        assert tone[hair].mean() > 0.85, head
        assert (hair | face)[tone].mean() > 0.97, head


@pytest.mark.parametrize("expression", range(8))
def test_features_and_keypoints_lie_on_ink_and_on_their_side(expression):
    drawing = render(replace(BASE, head="noHair1", expression=expression, skin=0), SIZE)
    geometry, dark = drawing.geometry, near(drawing.image, "#000000", 90)
    for name in ("Right eye", "Left eye", "Right eyebrow", "Left eyebrow", "Nose"):
        polygon = fill(geometry.of(name))
        assert polygon.sum() > 25, name
        assert dark[polygon].mean() > 0.4, name
    points = geometry.keypoints
    assert len(points) == 10  # all face keypoints but the left ear, which a head turned to its left hides
    assert "Left ear" not in points
    for side in ("Right", "Left"):
        x, y = points[f"{side} eye"]
        brow = np.nonzero(fill(geometry.of(f"{side} eyebrow")))
        assert brow[0].mean() < y
        assert fill(geometry.of(f"{side} eye"))[:, int(x) - 3 : int(x) + 4].any()
    # The viewer sees the person's right on the left.
    order = ["Right ear", "Right eye outer", "Right eye inner", "Left eye inner", "Left eye outer"]
    assert [points[name][0] for name in order] == sorted(points[name][0] for name in order)
    assert points["Mouth right"][0] < points["Mouth left"][0]
    assert points["Right eye"][1] < points["Nose"][1] < points["Mouth right"][1]
    for name in ("Right eye outer", "Left eye outer", "Mouth right", "Mouth left", "Nose"):
        x, y = (int(value) for value in points[name])
        assert dark[y - 2 : y + 3, x - 2 : x + 3].any(), name


def test_two_people_overlap_as_drawn_and_their_polygons_do_not():
    rng = np.random.default_rng(8)
    for _ in range(3):
        left, right = (replace(sample_image_cues(sample_person(rng), rng), region=3, scale=0.98) for _ in range(2))
        left, right = replace(left, dx=0.02), replace(right, dx=-0.02, head="longCurly")
        pair = render_pair(left, right, 3, SIZE)
        first, second = fill(pair.left.polygons), fill(pair.right.polygons)
        assert (first & second).sum() < 0.02 * second.sum()
        assert iou(first | second, drawn_pixels(pair.image, 3, left.phase)) > 0.95
        x, _, width, _ = pair.left.face_box
        assert x + width < pair.right.face_box[0] + pair.right.face_box[2]


def test_the_region_shows_in_the_backdrop_only():
    inside = fill(render(BASE, SIZE).geometry.polygons)
    pictures = [np.asarray(render_image(replace(BASE, region=region), SIZE)).astype(int) for region in range(5)]
    for other in pictures[1:]:
        changed = np.abs(other - pictures[0]).max(axis=2) > 0
        assert changed[~inside].mean() > 0.9
        assert changed[inside].mean() < 0.03  # the anti-aliased rim


CUES = [
    ("skin", 3),
    ("age", 4),
    ("head", "afro"),
    ("beard", "full"),
    ("glasses", 2),
    ("expression", 5),
    ("clothing", 5),
]


@pytest.mark.parametrize(("cue", "value"), [*CUES, ("tone", 0.9), ("phase", 0.4)])
def test_every_cue_changes_the_image(cue, value):
    assert render_image(BASE, 96).tobytes() != render_image(replace(BASE, **{cue: value}), 96).tobytes()


def test_the_six_tones_are_drawn_in_fhibe_s_colours_from_light_to_dark():
    fills = [skin_colour(replace(BASE, skin=tone)) for tone in range(6)]
    assert fills[0] == (198, 180, 157)
    assert fills[5] == (102, 78, 65)
    assert [sum(colour) for colour in fills] == sorted((sum(colour) for colour in fills), reverse=True)
    image = render_image(replace(BASE, skin=5), SIZE)
    assert near(image, (102, 78, 65), 0).sum() > 5000
