"""Face verification: both protocols of the paper, on the embeddings of a data set.

(i) Within each group, genuine and impostor pairs are drawn, and the threshold is the group's own. (ii) Over the whole
set: all genuine pairs against all hard impostor pairs (two subjects who share a pronoun and differ by at most one of
the six skin tones), one threshold for all, and error rates by pronoun and by the two hairstyles of a pair (Extended
Data Fig. 8). Rates are at a false acceptance rate of 0.001.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fp2.extension import ATTRIBUTE_PREFIX, BoolArray, FloatArray, Fp2Error
from fp2.methods.fhibe.narrow import pairs
from fp2.methods.fhibe.narrow.faces import by_face
from fp2.methods.fhibe.narrow.pairs import Pairs
from fp2.methods.fhibe.narrow.predictions import Prediction
from fp2.methods.fhibe.narrow.tasks import NO_FACE_BOX, NarrowTask, TaskScores
from fp2.methods.fhibe.narrow.truth import Person
from fp2.methods.fhibe.narrow.validation_rate import validation_rate

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut

TONES = ("I", "II", "III", "IV", "V", "VI")
FARS = (0.1, 0.03, 0.01, 0.003, 0.001)
"""False acceptance rates of the curves."""
_COLUMNS = {"pronoun": ("pronoun",), "tone": ("apparent_skin_tone", "skin_tone"), "hairstyle": ("hairstyle",)}
"""What is known of a face -> the attributes that it may be read from."""


@dataclass(frozen=True)
class Faces:
    """Faces, their embeddings (n, d), and whether the model detected a face there (a score above 0)."""

    people: list[Person]
    vectors: FloatArray
    detected: list[bool]


def embedded_faces(
    people: Sequence[Person], predictions: Sequence[Prediction], task: NarrowTask, *, boxed: bool = False
) -> tuple[Faces, TaskScores]:
    """Return the faces with an embedding, and the rows of those without one.

    Parameters
    ----------
    boxed : bool
        Whether the model was given the annotated face boxes, so that a face without a box is not judged.
    """
    scores = TaskScores()
    of_face = by_face(people, predictions, task, scores)
    embedded, vectors, detected = [], [], []
    for person in people:
        prediction = of_face.get(person.face_id)
        if prediction is not None and prediction.embedding is not None:
            embedded.append(person)
            vectors.append(prediction.embedding)
            detected.append(prediction.score > 0)
        elif boxed and person.geometry().face_box is None:
            scores.left_out[NO_FACE_BOX] += 1
        else:
            scores.add_missing(person)
    lengths = sorted({len(vector) for vector in vectors})
    if len(lengths) > 1:
        what = f"embeddings have different lengths: {lengths[0]} and {lengths[-1]} numbers"
        raise Fp2Error(what, where=f"task.files.{task.name}")
    ready = np.array(vectors, dtype=np.float64).reshape(len(embedded), lengths[0] if lengths else 0)
    return Faces(embedded, ready, detected), scores


def verify(
    faces: Faces,
    table: pd.DataFrame,
    cuts: Sequence[Cut],
    scores: TaskScores,
    *,
    similarity: str,
    seed: int,
    min_subjects: int,
    as_published: bool = False,
    curves: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Add a row for every face to `scores`, and return the block of both protocols.

    The score of a face is the share of its genuine pairs that are accepted at the threshold of protocol (ii), None if
    it is in no pair. The paper has no score per face; this is ours.

    Parameters
    ----------
    table : DataFrame
        The people table, for the attributes.
    similarity : {"cosine", "euclidean"}
    min_subjects : int
        A group, or pair of hairstyles, with fewer subjects in its pairs is listed without a rate.
    as_published : bool
        Whether the groups have the validation rate of FHIBE's evaluation code, too (by the cosine).
    curves : bool
        Whether true acceptance rates at several false acceptance rates are added (`FARS`).
    tick : callable
        Called after each cut.
    """
    people, ready = faces.people, pairs.prepare(faces.vectors, similarity)
    fars = FARS if curves else ()
    keys = list(zip(table["image_id"], table["subject_id"], strict=True))
    facts: dict[str, list[tuple[str, ...]]] = {}
    for name, attributes in _COLUMNS.items():
        column = next((c for a in attributes if (c := ATTRIBUTE_PREFIX + a) in table), None)
        if column is not None:
            values = dict(zip(keys, table[column], strict=True))
            facts[name] = [tuple(values[person.image_id, person.subject_id]) for person in people]
    whole, (genuine, accepted) = _whole(people, facts, ready, similarity, seed, min_subjects, fars)
    every = np.concatenate(genuine)
    hits = np.bincount(every, weights=np.concatenate([accepted, accepted]), minlength=len(faces.people))
    n_pairs = np.bincount(every, minlength=len(faces.people))
    for person, detected, hit, n in zip(faces.people, faces.detected, hits, n_pairs, strict=True):
        share = float(hit / n) if n else None
        scores.add(person, share, detected, accepted=share)
    groups = []
    theirs = pairs.prepare(faces.vectors, "cosine") if as_published else None
    for cut in cuts:
        groups += _groups(people, table, (ready, theirs), similarity, cut, seed, min_subjects, fars)
        tick()
    head = {"similarity": similarity, "far": pairs.FAR, "n_faces": len(people)}
    return {**head, "whole": whole, "groups": groups}


def _whole(
    people: Sequence[Person],
    facts: Mapping[str, list[tuple[str, ...]]],
    ready: FloatArray,
    similarity: str,
    seed: int,
    min_subjects: int,
    fars: Sequence[float],
) -> tuple[dict[str, Any], tuple[Pairs, BoolArray]]:
    """Return protocol (ii), and the genuine pairs with whether each is accepted."""
    subjects = [person.subject_id for person in people]
    pronouns = [frozenset(own) for own in facts.get("pronoun", [("",)] * len(people))]
    tones = (
        [(TONES.index(own[0]) if len(own) == 1 and own[0] in TONES else None) for own in facts["tone"]]
        if "tone" in facts
        else [0] * len(people)
    )
    genuine = pairs.genuine_pairs(subjects)
    blocks = [*pairs.hard_impostor_pairs(subjects, pronouns, tones), (genuine[0][:0], genuine[1][:0])]
    impostor = (np.concatenate([a for a, _ in blocks]), np.concatenate([b for _, b in blocks]))
    same, different = (pairs.compare(ready, kind, similarity) for kind in (genuine, impostor))
    owners = np.array([subjects[index] for index in genuine[0]], dtype=object)
    rates = pairs.rates(same, different, owners, seed=seed)
    shared = [name for name in ("pronoun", "tone") if name in facts]
    block: dict[str, Any] = {**asdict(rates), "negatives_share": shared, "hairstyles": [], "by_hairstyle": []}
    if rates.threshold is None:
        return block, ((genuine[0][:0], genuine[1][:0]), np.zeros(0, dtype=bool))
    accepted, false = same >= rates.threshold, different >= rates.threshold
    block |= pairs.curve(same, different, fars)
    if "hairstyle" in facts and any(facts.get("pronoun", ())):
        judged = (genuine, ~accepted), (impostor, false)
        block |= _hairstyle_errors(*judged, subjects, facts, min_subjects)
    return block, (genuine, accepted)


def _judged(
    pairs_of_faces: Pairs,
    wrong: BoolArray,
    subjects: Sequence[str],
    pronouns: Sequence[frozenset[str]],
    styles: npt.NDArray[np.int64],
) -> pd.DataFrame:
    """Return a row per pronoun and pair of faces that both have it, and a hairstyle each (-1: none)."""
    import pandas as pd

    names, parts = np.array(subjects, dtype=object), []
    for word in sorted({word for own in pronouns for word in own}):
        shown = np.array([word in own for own in pronouns], dtype=bool) & (styles >= 0)
        both = shown[pairs_of_faces[0]] & shown[pairs_of_faces[1]]
        a, b = (side[both] for side in pairs_of_faces)
        first, second = np.minimum(styles[a], styles[b]), np.maximum(styles[a], styles[b])
        columns = {"first": first, "second": second, "a": names[a], "b": names[b], "wrong": wrong[both]}
        parts.append(pd.DataFrame({"pronoun": word, **columns}))
    return pd.concat(parts)


def _hairstyle_errors(
    genuine: tuple[Pairs, BoolArray],
    impostor: tuple[Pairs, BoolArray],
    subjects: Sequence[str],
    facts: Mapping[str, list[tuple[str, ...]]],
    min_subjects: int,
) -> dict[str, list[dict[str, Any]]]:
    """Return error rates by pronoun and by the two hairstyles of a pair (Extended Data Fig. 8).

    genuine, impostor : pairs of faces, and which are errors.
    """
    pronouns = [frozenset(own) for own in facts["pronoun"]]
    names = sorted({own[0] for own in facts["hairstyle"] if own})
    styles = np.array([names.index(own[0]) if own else -1 for own in facts["hairstyle"]], dtype=np.int64)
    same, different = (_judged(*judged, subjects, pronouns, styles) for judged in (genuine, impostor))
    keys = ["pronoun", "first", "second"]
    of_two = dict(list(different.groupby(keys)))
    by_pair, by_equality = [], []
    for key, of_pair in same.groupby(keys):
        others = of_two.get(key, different[:0])
        word, first, second = of_pair[keys].iloc[0]
        enough = len(others) and len({*others["a"], *others["b"]}) >= min_subjects
        row = _missed(of_pair, min_subjects)
        share = row["n_subjects"] / same.loc[same["pronoun"] == word, "a"].nunique()
        rates = {"n_different": len(others), "confused": float(others["wrong"].mean()) if enough else None}
        by_pair.append(
            {
                "pronoun": word,
                "first": names[first],
                "second": names[second],
                "share_of_subjects": share,
                **row,
                **rates,
            }
        )
    for (word, unequal), of_pair in same.groupby(["pronoun", same["first"] != same["second"]]):
        kind = "different" if unequal else "same"
        by_equality.append({"pronoun": word, "hairstyles": kind, **_missed(of_pair, min_subjects)})
    return {"hairstyles": by_pair, "by_hairstyle": by_equality}


def _missed(genuine: pd.DataFrame, min_subjects: int) -> dict[str, Any]:
    """Return the false rejection rate of genuine pairs; None if they are of too few subjects."""
    n_subjects, rate = int(genuine["a"].nunique()), float(genuine["wrong"].mean())
    return {"n_subjects": n_subjects, "n_same": len(genuine), "missed": rate if n_subjects >= min_subjects else None}


def _groups(
    people: Sequence[Person],
    table: pd.DataFrame,
    vectors: tuple[FloatArray, FloatArray | None],
    similarity: str,
    cut: Cut,
    seed: int,
    min_subjects: int,
    fars: Sequence[float],
) -> list[dict[str, Any]]:
    """Return protocol (i) for one cut: each group with its own pairs and threshold; images of two are left out.

    vectors : the embeddings as they are compared, and of length 1 for the validation rate (None: it is not computed).
    """
    from fp2.extension import memberships, with_present_values

    ready, theirs = vectors

    index_of = {(p.image_id, p.subject_id): n for n, p in enumerate(people) if p.n_people == 1}
    rows = []
    for group, members in memberships(table, with_present_values(table, cut)).groupby("group", sort=True):
        keys = zip(members["image_id"], members["subject_id"], strict=True)
        faces = np.array([index_of[key] for key in keys if key in index_of], dtype=np.int64)
        subjects = [people[index].subject_id for index in faces]
        (a, b), (c, d) = pairs.drawn_pairs(subjects, seed)
        owners = np.array([subjects[index] for index in a], dtype=object)
        n_subjects = len(set(owners.tolist()))  # a subject with one face is in no pair
        rates = pairs.Rates(len(a), len(c), n_subjects, None, None, None)
        more: dict[str, Any] = {}
        if n_subjects >= min_subjects:
            same, different = (
                pairs.compare(ready, kind, similarity) for kind in ((faces[a], faces[b]), (faces[c], faces[d]))
            )
            rates = pairs.rates(same, different, owners, seed=seed)
            more |= pairs.curve(same, different, fars)
        if theirs is not None:
            # the evaluation code orders faces by the paths of their crops
            rate = validation_rate(theirs[faces], subjects, [people[index].crop_path.as_posix() for index in faces])
            more["validation"] = None if rate is None else asdict(rate)
        sizes = {"n_faces": len(faces), "n_group": len(set(subjects))}
        rows.append({"cut": cut.name, "group": str(group), **sizes, **asdict(rates), **more})
    return rows
