"""Image variants: exactly the region changes, and an empty region is never passed off as a variant."""

import numpy as np
import pytest
from matplotlib.path import Path as MplPath
from PIL import Image
from scipy.spatial import ConvexHull

from fp2.errors import Fp2Error
from fp2.methods.fhibe_release.masks import mask_array, region_mask
from fp2.methods.image_variants.images import (
    background_removed,
    blurred,
    box_mask,
    crop_corners,
    cropped,
    masked,
)

SQUARE = [(10.0, 20.0), (30.0, 20.0), (30.0, 50.0), (10.0, 50.0)]
INSIDE = (slice(20, 50), slice(10, 30))


@pytest.fixture
def image():
    pixels = np.random.default_rng(0).integers(1, 255, (60, 40, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_a_polygon_on_pixel_edges_fills_the_pixels_between_them():
    mask = mask_array(region_mask((40, 60), [SQUARE]))
    expected = np.zeros((60, 40), dtype=bool)
    expected[INSIDE] = True
    assert np.array_equal(mask, expected)


def test_filling_follows_the_centre_rule_for_any_polygon():
    rng = np.random.default_rng(1)
    rows, columns = np.mgrid[0:60, 0:40]
    centres = np.column_stack([columns.ravel() + 0.5, rows.ravel() + 0.5])
    for _ in range(60):
        points = rng.uniform(-20, 70, (int(rng.integers(3, 9)), 2))
        winding = MplPath(points, closed=False).contains_points(centres).reshape(60, 40)  # convex: all rules agree
        hull = points[ConvexHull(points).vertices]
        convex = MplPath(hull).contains_points(centres).reshape(60, 40)
        assert np.array_equal(mask_array(region_mask((40, 60), [hull])), convex)
        if len(points) == 3:
            assert np.array_equal(mask_array(region_mask((40, 60), [points])), winding)


def test_a_polygon_may_run_round_a_hole():
    ring = [(0, 0), (20, 0), (20, 20), (0, 20), (0, 0), (5, 5), (5, 15), (15, 15), (15, 5), (5, 5)]
    mask = mask_array(region_mask((20, 20), [ring]))
    assert mask.sum() == 400 - 100
    assert not mask[5:15, 5:15].any()


def test_masked_blackens_the_person_and_background_removed_the_rest(image):
    before, black, kept = (
        np.asarray(each) for each in (image, masked(image, [SQUARE]), background_removed(image, [SQUARE]))
    )
    region = mask_array(region_mask(image.size, [SQUARE]))
    assert not black[region].any()
    assert np.array_equal(black[~region], before[~region])
    assert np.array_equal(kept[region], before[region])
    assert not kept[~region].any()
    assert np.array_equal(black + kept, before)


def test_a_box_is_a_region_too(image):
    by_box = np.asarray(masked(image, box=(10, 20, 20, 30)))
    assert not by_box[INSIDE].any()
    assert np.count_nonzero(by_box.max(axis=2) == 0) == 600
    assert mask_array(box_mask((40, 60), (10.5, 20.5, 1.0, 1.0))).sum() == 4


def test_blurring_flattens_the_region_only(image):
    before, after = np.asarray(image).astype(float), np.asarray(blurred(image, [SQUARE])).astype(float)
    region = mask_array(region_mask(image.size, [SQUARE]))
    assert np.array_equal(before[~region], after[~region])
    assert after[region].std() < 0.15 * before[region].std()


def test_blurring_is_the_gaussian_of_the_stated_radius():
    step = np.zeros((9, 200, 3), dtype=np.uint8)
    step[:, 100:] = 200
    whole = [[(0, 0), (200, 0), (200, 9), (0, 9)]]
    row = np.asarray(blurred(Image.fromarray(step), whole, radius=10))[4, :, 0].astype(float)
    # A step blurred by a Gaussian of sigma 10 passes 84 % of its height one sigma behind the edge.
    assert row[110] / 200 == pytest.approx(0.84, abs=0.03)
    assert row[89] / 200 == pytest.approx(0.16, abs=0.03)


def test_other_image_modes_come_back_as_rgb():
    grey = Image.new("LA", (40, 60), (90, 255))
    assert masked(grey, [SQUARE]).mode == "RGB"


@pytest.mark.parametrize("polygons", [[], [[(1, 1), (2, 2)]], [[(500, 500), (600, 500), (600, 600)]]])
def test_an_empty_region_is_an_error(image, polygons):
    for change in (masked, blurred, background_removed):
        with pytest.raises(Fp2Error, match="empty"):
            change(image, polygons)


def test_a_region_must_be_given_once(image):
    for twice_or_never in ({}, {"polygons": [SQUARE], "box": (0, 0, 5, 5)}, {"box": (0, 0, 5, 5), "mask": image}):
        with pytest.raises(Fp2Error, match="exactly one"):
            masked(image, **twice_or_never)
    with pytest.raises(Fp2Error, match="radius"):
        blurred(image, [SQUARE], radius=0)


def test_a_mask_is_a_region_too(image):
    drawn = region_mask(image.size, [SQUARE])
    faint = drawn.point(lambda level: level // 128)  # 1 inside: any mark counts as inside
    for change in (masked, blurred, background_removed):
        expected = np.asarray(change(image, [SQUARE]))
        assert np.array_equal(np.asarray(change(image, mask=drawn)), expected)
        assert np.array_equal(np.asarray(change(image, mask=faint)), expected)
        with pytest.raises(Fp2Error, match="empty"):
            change(image, mask=Image.new("L", image.size))
        with pytest.raises(Fp2Error, match="the mask has"):
            change(image, mask=drawn.resize((20, 30)))


@pytest.mark.parametrize(
    ("box", "margin", "corners"),
    [
        ((10, 20, 20, 30), 0, (10, 20, 30, 50)),
        ((10, 20, 20, 30), 0.1, (8, 17, 32, 53)),
        ((10.2, 20.2, 20, 30), 0, (10, 20, 31, 51)),  # every pixel that the box touches
        ((10, 20, 20, 30), 3, (0, 0, 40, 60)),  # kept inside the picture
        ((-5, 55, 10, 10), 0, (0, 55, 5, 60)),
    ],
)
def test_a_crop_is_the_box_and_its_margin(image, box, margin, corners):
    assert crop_corners(image.size, box, margin) == corners
    part = np.asarray(cropped(image, corners))
    left, top, right, bottom = corners
    assert np.array_equal(part, np.asarray(image)[top:bottom, left:right])


@pytest.mark.parametrize("box", [(0, 0, 0, 5), (40, 0, 5, 5), (-9, 0, 5, 5), (0, 60, 5, 5), (float("nan"), 0, 5, 5)])
def test_a_crop_of_nothing_is_an_error(image, box):
    with pytest.raises(Fp2Error, match="empty"):
        crop_corners(image.size, box, 0.5)


def test_a_negative_margin_is_an_error(image):
    with pytest.raises(Fp2Error, match="margin"):
        crop_corners(image.size, (0, 0, 5, 5), -0.1)
