"""Body part detection: whether a model says which parts of a person's body, clothes and accessories are to be seen.

A prediction is a probability for each part that the model knows. The truth is FHIBE's annotation: a segment class is
there if it has a polygon; a face always is; hands and legs follow from visible keypoints, gloves and shoes.
"""

from __future__ import annotations

from collections.abc import Sequence

from fp2.methods.fhibe.narrow import published
from fp2.methods.fhibe.narrow.predictions import Prediction
from fp2.methods.fhibe.narrow.tasks import NO_ANNOTATION, NO_SUBJECT, SECOND, UNKNOWN_SUBJECT, TaskScores
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe_release.geometry import Geometry

_HAND = ("pinky knuckle", "index knuckle", "thumb knuckle")
_LEG = ("knee", "ankle", "heel", "foot index")
_FOOT = ("heel", "foot index")
"""What shows a leg in the evaluation code, where a missing comma joins the names of knee and ankle."""
AT = 0.5
"""The probability from which on a part counts as predicted."""
THRESHOLDS = tuple(0.5 + 0.05 * n for n in range(10))


def visible_parts(geometry: Geometry, *, as_published: bool = False) -> set[str]:
    """Return the parts of `BODY_PARTS` that an annotation shows.

    as_published : knees and ankles do not show a leg, as in FHIBE's evaluation code.
    """
    seen = {name for name, point in geometry.keypoints.items() if point.visible}
    parts = {"Face", *geometry.polygons}
    leg = _FOOT if as_published else _LEG
    for side in ("Left", "Right"):
        if any(f"{side} {name}" in seen for name in _HAND):
            parts.add(f"{side} hand")
        if f"{side} shoe" in parts or any(f"{side} {name}" in seen for name in leg):
            parts.add(f"{side} leg")
    if parts & {"Left hand", "Right hand", "Glove"}:
        parts.add("Hand")
    if parts & {"Left leg", "Right leg"}:
        parts.add("Leg")
    return parts


def score_parts(group: list[Person], predictions: Sequence[Prediction], scores: TaskScores) -> None:
    """Add the rows of one image: `group` are the people in it, `found` the predictions about them.

    A prediction without a subject is about the only person of the image.
    """
    named: dict[str, Prediction] = {}
    here = {person.subject_id for person in group}
    for prediction in sorted(predictions, key=lambda one: one.score):
        subject = prediction.subject_id or (group[0].subject_id if group[0].n_people == 1 else None)
        if subject is None or subject not in here:
            scores.ignored[NO_SUBJECT if subject is None else UNKNOWN_SUBJECT] += 1
            continue
        scores.ignored[SECOND] += subject in named
        named[subject] = prediction
    for person in group:
        geometry, said = person.geometry(), named.get(person.subject_id)
        if not geometry.keypoints and not geometry.polygons:
            scores.left_out[NO_ANNOTATION] += 1
        elif said is None or not said.parts:
            scores.add_missing(person)
        else:
            there = visible_parts(geometry)
            right = {part: float((p >= AT) == (part in there)) for part, p in said.parts.items()}
            reached = [sum(p >= t - 1e-12 for t in THRESHOLDS) / 10 for part, p in said.parts.items() if part in there]
            accuracy = sum(right.values()) / len(right)
            more = {f"accuracy_{_slug(part)}": value for part, value in right.items()}
            if scores.curves:
                present = [p for part, p in said.parts.items() if part in there]
                more |= {
                    f"at_{t:.2f}": sum(p >= t - 1e-12 for p in present) / len(present) for t in THRESHOLDS if present
                }
            if scores.published:
                theirs = visible_parts(geometry, as_published=True)
                for part, p in said.parts.items():
                    more[f"published_acc_det_{_slug(part)}"] = float((p >= AT) == (part in theirs))
                    if part in theirs:
                        more[f"published_ar_det_{_slug(part)}"] = published.share_reached(p)
            recall = sum(reached) / len(reached) if reached else None
            scores.add(person, accuracy, True, accuracy=accuracy, recall=recall, **more)


def _slug(part: str) -> str:
    return part.lower().replace(" ", "_")
