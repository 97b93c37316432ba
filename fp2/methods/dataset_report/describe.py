"""What a data set has: counts of people and images, and the boxes, masks and keypoints of the people.

Xiang et al. 2025 (FHIBE), Tables 1 to 3 and Fig. 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    MUST_NOT_LEAVE,
    PLACE_AND_TIME,
    Cut,
    FloatArray,
    Fp2Error,
    attribute_columns,
    in_number,
    memberships,
)
from fp2.methods.fhibe.scores.features import geometry_of, table_box
from fp2.methods.fhibe_release import vocab
from fp2.methods.fhibe_release.geometry import Geometry

if TYPE_CHECKING:
    import pandas as pd

PLACES = "location_un_region"


def intersections(people: pd.DataFrame, attributes: Sequence[str], min_subjects: int) -> list[dict[str, Any]]:
    """Return Table 1: for each attribute and intersection the number of groups, and of their images.

    `median_images, largest, smallest` are over groups with at least one subject; `comparable` is the number of groups
    with at least `min_subjects`. An image counts in each of its groups.
    """
    out = []
    for size in range(1, len(attributes) + 1):
        for by in combinations(attributes, size):
            groups = memberships(people, Cut("_".join(by), by)).groupby("group")
            counts = [int(n) for n in groups["image_id"].nunique()]
            if counts:
                out.append(
                    {
                        "by": list(by),
                        "groups": len(counts),
                        "median_images": float(median(counts)),
                        "largest": max(counts),
                        "smallest": min(counts),
                        "comparable": int((groups["subject_id"].nunique() >= min_subjects).sum()),
                    }
                )
    return out


def totals(people: pd.DataFrame) -> dict[str, int]:
    """Return Table 2: images, subjects, attributes with a value, and distinct values of all attributes."""
    names = attribute_columns(people)
    values = {name: {v for cell in people[ATTRIBUTE_PREFIX + name] for v in cell} for name in names}
    used = {name: found for name, found in values.items() if found}
    return {
        "images": int(people["image_id"].nunique()),
        "subjects": int(people["subject_id"].nunique()),
        "attributes": len(used),
        "attribute_values": sum(map(len, used.values())),
    }


def shares(people: pd.DataFrame, attribute: str, min_subjects: int) -> list[dict[str, Any]]:
    """Return the groups of one attribute with their subjects and images, and the share of the images (Table 3).

    Groups of fewer than `min_subjects` subjects are pooled.
    """
    if attribute not in attribute_columns(people):
        return []
    entries = memberships(people, Cut(attribute, (attribute,)))
    n_subjects = entries.groupby("group")["subject_id"].nunique()
    whole = max(1, entries["image_id"].nunique())
    small = set(n_subjects.index[n_subjects < min_subjects])
    rows = [
        _share(str(name), entries[entries["group"] == name], whole) for name in n_subjects.index if name not in small
    ]
    rows.sort(key=lambda row: -row["n_images"])
    if small:
        rows.append(_share(f"({len(small)} smaller groups)", entries[entries["group"].isin(small)], whole))
    return rows


INCOME = "income_level"
_COUNTRY = "location_country"


def income_shares(people: pd.DataFrame, path: Path, min_subjects: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the share of the images by the income group of the country (Table 3, second half), and notes.

    Parameters
    ----------
    people : DataFrame
        With the attribute `location_country`.
    path : Path
        A table with the columns `country` and `group`; countries in any usual spelling.
    min_subjects : int
        Groups with fewer subjects are pooled.
    """
    from fp2.extension import read_table
    from fp2.methods.fhibe_release.attributes import find_country

    where, fix = "task.files.income", "Give a table with the columns country and group"
    if _COUNTRY not in attribute_columns(people):
        raise Fp2Error(f"the data set has no attribute {_COUNTRY!r}", where=where)
    table = read_table(path)
    if missing := [name for name in ("country", "group") if name not in table]:
        raise Fp2Error(f"{path.name} has no column {missing[0]!r}", where=where, fix=fix)
    groups: dict[str, str] = {}
    for name, group in zip(table["country"].astype(str), table["group"].astype(str).str.strip(), strict=True):
        found = find_country(name)
        country = found.name if found else name
        if group and groups.setdefault(country, group) != group:
            raise Fp2Error(f"{path.name} gives {name!r} two groups", where=where, fix="Keep one row per country")
    values = people[ATTRIBUTE_PREFIX + _COUNTRY]
    placed = people.copy()
    placed[ATTRIBUTE_PREFIX + INCOME] = [[groups[name] for name in cell if name in groups] for cell in values]
    shown = shares(placed, INCOME, min_subjects)
    if not shown:
        raise Fp2Error(f"{path.name} has no country of the images", where=where, fix=fix)
    without = [bool(cell) and not groups.keys() & set(cell) for cell in values]
    n = int(people.loc[without, "image_id"].nunique())
    left_out = f"{n:,} [image|images] of countries without an income group [was|were] left out of its shares"
    return shown, [in_number(n, left_out)] if n else []


def annotator_counts(paths: Sequence[Path], min_annotators: int) -> list[dict[str, Any]]:
    """Return how many annotators have each value of the tables' columns: `attribute, group, n`.

    Parameters
    ----------
    paths : sequence of Path
        Tables with a row per annotator, as `annotator_demographics.csv` of FHIBE: a cell is a value or the text of a
        list. Columns of ids are passed over, and ages in years become age groups.
    min_annotators : int
        Groups with fewer are pooled; if all of them are still fewer, `n` is None.
    """
    from fp2.extension import age_group, read_table

    rows = []
    for table in map(read_table, paths):
        for name in table.columns[~table.columns.str.lower().str.endswith("id")]:
            values = table[name].astype(str).map(vocab.parse_list).explode().dropna().map(vocab.label)
            if name.lower().endswith("age"):
                values = values.map(lambda text: age_group(int(text)) if text.isdigit() else text)
            counts = values.value_counts()
            small = counts[counts < min_annotators]
            named = [*counts.drop(small.index).items(), (f"({len(small)} smaller groups)", small.sum())]
            rows += [
                {"attribute": name, "group": str(group), "n": int(n) if n >= min_annotators else None}
                for group, n in named
                if n
            ]
    if not rows:
        fix = "Give tables with a row per annotator and a column per attribute"
        raise Fp2Error("the tables have no attribute of annotators", where="task.files.annotators", fix=fix)
    return rows


def _share(name: str, entries: pd.DataFrame, whole: int) -> dict[str, Any]:
    n = int(entries["image_id"].nunique())
    return {"group": name, "n_subjects": int(entries["subject_id"].nunique()), "n_images": n, "share": n / whole}


def shown_attributes(people: pd.DataFrame) -> list[str]:
    """Return the attributes whose groups are listed: of place and time only the UN's regions, no camera model."""
    hidden = (PLACE_AND_TIME | MUST_NOT_LEAVE) - {PLACES}
    return [name for name in attribute_columns(people) if name not in hidden]


SHAPES: dict[str, str] = {
    "box_area": "person box area / image area",
    "face_area": "face box area / image area",
    "box_ratio": "person box width / height",
    "off_centre": "distance of the person box's centre from the image's, both as shares of width and height",
    "centre_x": "person box's centre from the left, as a share of the width",
    "centre_y": "person box's centre from the top, as a share of the height",
    "mask_area": "mask area / image area",
    "mask_concavity": "1 - mask area / area of its convex hull",
    "keypoint_spread": "mean distance between pairs of visible keypoints, as shares of width and height",
}
"""Name -> definition. The paper's own text of the concavity is garbled in print; this is the usual definition."""
_GRID = 400  # cells along the longer side of the grid on which the parts of a mask are united


def measure_shapes(people: pd.DataFrame, tick: Callable[[], None] = lambda: None) -> tuple[pd.DataFrame, FloatArray]:
    """Return one column per entry of `SHAPES` on the index of `people`, and all visible keypoints (k, 2) as shares.

    What the data set does not have is NaN. `tick` is called after each row.
    """
    import pandas as pd

    rows: list[dict[str, float]] = []
    points: list[FloatArray] = []
    for row in people.itertuples():
        shape = geometry_of(Path(str(row.image_path)), str(row.subject_id))
        person, face = table_box(row, "box") or shape.person_box, table_box(row, "face") or shape.face_box
        found, visible = shape_numbers(shape, person, face, _size(shape, row))
        if "mask_area" not in found and (mask := _mask_file(row)) is not None:
            found |= mask_numbers(mask)
        rows.append(found)
        points.append(visible)
        tick()
    table = pd.DataFrame(rows, index=people.index, columns=list(SHAPES), dtype="float64")
    return table, np.concatenate(points) if points else np.empty((0, 2))


def shape_numbers(
    shape: Geometry,
    box: Sequence[float] | None,
    face: Sequence[float] | None,
    size: tuple[int, int] | None,
) -> tuple[dict[str, float], FloatArray]:
    """Return the numbers of a person in an image of `size` (width, height), and the visible keypoints as shares."""
    nothing = np.empty((0, 2))
    if size is None or min(size) <= 0:
        return {}, nothing
    width, height = size
    found: dict[str, float] = {}
    if box is not None and box[2] > 0 and box[3] > 0:
        x, y = (box[0] + box[2] / 2) / width, (box[1] + box[3] / 2) / height
        found |= {
            "box_area": box[2] * box[3] / (width * height),
            "box_ratio": box[2] / box[3],
            "centre_x": x,
            "centre_y": y,
            "off_centre": math.hypot(x - 0.5, y - 0.5),
        }
    if face is not None:
        found["face_area"] = face[2] * face[3] / (width * height)
    found |= _polygon_numbers(shape, size)
    visible = np.array([[p.x / width, p.y / height] for p in shape.keypoints.values() if p.visible])
    if len(visible) >= 2:
        from scipy.spatial.distance import pdist

        found["keypoint_spread"] = float(pdist(visible).mean())
    return found, visible if len(visible) else nothing


def _polygon_numbers(shape: Geometry, size: tuple[int, int]) -> dict[str, float]:
    """Return area and concavity of the union of all segments, drawn on a grid."""
    from PIL import Image, ImageDraw

    polygons = [polygon for parts in shape.polygons.values() for polygon in parts if len(polygon) >= 3]
    if not polygons:
        return {}
    scale = _GRID / max(size)
    grid = Image.new("1", (max(1, round(size[0] * scale)), max(1, round(size[1] * scale))))
    draw = ImageDraw.Draw(grid)
    for polygon in polygons:
        draw.polygon([(float(x) * scale, float(y) * scale) for x, y in polygon], fill=1)
    return mask_numbers(np.asarray(grid))


def mask_numbers(mask: NDArray[np.bool_]) -> dict[str, float]:
    """Return area and concavity of a mask (height, width); nothing of an empty one."""
    from scipy.spatial import ConvexHull

    area = float(mask.sum())
    if not area:
        return {}
    ys, xs = np.nonzero(mask)
    corners = np.concatenate([np.stack([xs + dx, ys + dy], axis=1) for dx in (0, 1) for dy in (0, 1)])
    return {
        "mask_area": area / mask.size,
        "mask_concavity": max(0.0, 1 - area / max(area, float(ConvexHull(corners).volume))),
    }


def _mask_file(row: Any) -> NDArray[np.bool_] | None:
    """Return the mask file of the people table, scaled down; None if there is none or it cannot be read."""
    from PIL import Image

    from fp2.extension import open_rgb

    path = getattr(row, "mask_path", None)
    if not isinstance(path, str) or not path:
        return None
    try:
        mask = open_rgb(Path(path)).convert("L")
    except Exception:  # decoders raise many kinds; the image then has no mask numbers
        return None
    mask.thumbnail((_GRID, _GRID), Image.Resampling.NEAREST)
    return np.asarray(mask) > 0


def summary(numbers: pd.DataFrame) -> list[dict[str, Any]]:
    """Return for each number the images that have it, its mean, and its 5, 25, 50, 75 and 95 % quantiles."""
    out = []
    for name, meaning in SHAPES.items():
        known = numbers[name].dropna()
        if len(known):
            quantiles = [float(x) for x in np.quantile(known, (0.05, 0.25, 0.5, 0.75, 0.95))]
            out.append(
                {"name": name, "meaning": meaning, "n": len(known), "mean": float(known.mean()), "quantiles": quantiles}
            )
    return out


def heat_map(points: FloatArray) -> list[list[float]] | None:
    """Return the shares of points (k, 2) in the cells of a square grid, rows from the top; None without points."""
    inside = points[((points >= 0) & (points <= 1)).all(axis=1)] if len(points) else points
    if not len(inside):
        return None
    counts, _, _ = np.histogram2d(inside[:, 1], inside[:, 0], bins=24, range=((0, 1), (0, 1)))
    return [[float(x) for x in row] for row in counts / counts.sum()]


def _size(shape: Geometry, row: Any) -> tuple[int, int] | None:
    """Return the image's size from its annotation, or from its header."""
    if shape.size:
        return shape.size
    from fp2.extension import image_file

    try:
        with image_file(row.image_path) as image:
            return image.size
    except (OSError, ValueError):
        return None
