"""Polygons of masks: tracing, simplification, clipping to the image."""

from __future__ import annotations

from typing import Any

import contourpy
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Ring = npt.NDArray[np.float64]  # (n, 2) x, y; closed without repeating the first point


def signed_area(ring: Ring) -> float:
    """Return the shoelace area of a ring; its sign is the direction."""
    x, y = ring[:, 0], ring[:, 1]
    return float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y) / 2)


def simplify(ring: Ring, tolerance: float) -> Ring:
    """Return the ring without points that lie within `tolerance` of the outline kept (Douglas and Peucker, 1973)."""
    if len(ring) < 4:
        return ring
    far = int(np.argmax(np.hypot(*(ring - ring[0]).T)))
    closed = np.vstack([ring, ring[:1]])
    keep = np.zeros(len(closed), dtype=bool)
    keep[[0, far, len(ring)]] = True
    spans = [(0, far), (far, len(ring))]
    while spans:
        first, last = spans.pop()
        if last - first < 2:
            continue
        start, chord = closed[first], closed[last] - closed[first]
        offset = closed[first + 1 : last] - start
        length = float(np.hypot(*chord))
        if length == 0:
            distance = np.hypot(offset[:, 0], offset[:, 1])
        else:
            distance = np.abs(chord[0] * offset[:, 1] - chord[1] * offset[:, 0]) / length
        worst = int(np.argmax(distance))
        if distance[worst] > tolerance:
            middle = first + 1 + worst
            keep[middle] = True
            spans += [(first, middle), (middle, last)]
    return closed[:-1][keep[:-1]]


def _bridge(outer: Ring, hole: Ring) -> Ring:
    """Return `outer` and `hole` as one ring, joined by a bridge of zero width; the hole has the opposite direction."""
    gaps: npt.NDArray[Any] = np.hypot(outer[:, None, 0] - hole[None, :, 0], outer[:, None, 1] - hole[None, :, 1])
    at, on = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
    loop = np.roll(hole, -int(on), axis=0)
    if signed_area(loop) * signed_area(outer) > 0:
        loop = np.roll(loop[::-1], 1, axis=0)
    return np.vstack([outer[: at + 1], loop, loop[:1], outer[at:]])


def _inside(point: npt.NDArray[np.float64], ring: Ring) -> bool:
    """Return whether a point lies inside a ring (ray casting)."""
    x, y = ring[:, 0], ring[:, 1]
    next_x, next_y = np.roll(x, -1), np.roll(y, -1)
    crosses = (y > point[1]) != (next_y > point[1])
    rise = np.where(crosses, next_y - y, 1.0)
    return bool(np.count_nonzero(crosses & (point[0] < x + (point[1] - y) / rise * (next_x - x))) % 2)


def trace(mask: Mask, *, tolerance: float, smallest: float) -> list[Ring]:
    """Return the outlines of a mask as rings in pixel units (pixel centres at .5), largest first.

    Holes of at least `smallest` pixels are joined to the outline around them; smaller ones are closed, and smaller
    islands dropped.
    """
    padded = np.pad(mask.astype(np.float64), 1)
    lines = contourpy.contour_generator(z=padded).lines(0.5)
    rings = [np.asarray(line, dtype=np.float64)[:-1] - 0.5 for line in lines if len(line) > 3]
    rings = [ring for ring in rings if abs(signed_area(ring)) >= smallest]
    rings.sort(key=lambda ring: -abs(signed_area(ring)))
    if not rings:
        return []
    # contourpy gives holes the opposite direction; the largest ring is always an outline.
    direction = np.sign(signed_area(rings[0]))
    outlines = [simplify(ring, tolerance) for ring in rings if np.sign(signed_area(ring)) == direction]
    for hole in (ring for ring in rings if np.sign(signed_area(ring)) != direction):
        around = [n for n, ring in enumerate(outlines) if _inside(hole[0], ring)]
        if around:
            outlines[around[-1]] = _bridge(outlines[around[-1]], simplify(hole, tolerance))
    return outlines


def clip(ring: Ring, width: float, height: float) -> Ring:
    """Return the part of a ring inside the image (Sutherland and Hodgman, 1974); it may have no points."""
    points = ring
    for axis, limit, sign in ((0, 0.0, 1.0), (0, width, -1.0), (1, 0.0, 1.0), (1, height, -1.0)):
        if not len(points):
            break
        inside = sign * (points[:, axis] - limit) >= 0
        if inside.all():
            continue
        kept: list[npt.NDArray[np.float64]] = []
        for index in range(len(points)):
            before, here = points[index - 1], points[index]
            if inside[index] != inside[index - 1]:
                share = (limit - before[axis]) / (here[axis] - before[axis])
                kept.append(before + share * (here - before))
            if inside[index]:
                kept.append(here)
        points = np.array(kept).reshape(-1, 2)
    return points
