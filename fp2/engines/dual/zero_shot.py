"""Classes named in words, and which of them pictures are nearest to: arithmetic on embeddings, with no model in it.

Each class has one or more wordings. `mean` averages their normalised embeddings and normalises again, which is the
prompt ensembling of the CLIP paper (Radford et al. 2021, section 3.1.4); `best` takes the wording that is nearest to
the picture, which is how FHIBE labels pictures (Xiang et al. 2025, "CLIP").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fp2.errors import Fp2Error, nearest

Combine = Literal["mean", "best"]
Link = Literal["softmax", "sigmoid"]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Scale:
    """How a model turns a cosine similarity into a logit, `factor * similarity + bias`, and that into a probability.

    `softmax` (CLIP) is over the classes and sums to 1; `sigmoid` (SigLIP) judges each class by itself.
    """

    factor: float
    bias: float
    link: Link

    def logits(self, similarity: Floats) -> NDArray[np.float64]:
        """Return logits, of the shape of `similarity`."""
        return np.asarray(similarity, np.float64) * self.factor + self.bias

    def probabilities(self, logits: Floats) -> NDArray[np.float64]:
        """Return probabilities of classes, which lie along the last axis."""
        x = np.asarray(logits, np.float64)
        if self.link == "sigmoid":
            return np.exp(-np.logaddexp(0.0, -x))
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class ZeroShot:
    """What pictures were taken for: n pictures, k classes.

    Attributes
    ----------
    labels : tuple of str
        The k classes.
    similarity, logits, probability : ndarray, (n, k)
        Cosine similarity to the class (mean of its wordings, or the best of them), and what `Scale` makes of it.
    label : tuple of str
        The likeliest class of each picture (the first of equals).
    wording : tuple of str
        The single wording that each picture is most similar to.
    """

    labels: tuple[str, ...]
    similarity: NDArray[np.float64]
    logits: NDArray[np.float64]
    probability: NDArray[np.float64]
    label: tuple[str, ...]
    wording: tuple[str, ...]


def normalised(vectors: Floats) -> Floats:
    """Return vectors along the last axis scaled to length 1 (one of zeros stays)."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(length == 0, 1, length), vectors.dtype)


def cosine(left: Floats, right: Floats) -> NDArray[np.float64]:
    """Return the cosine similarities (n, m) of vectors (n, d) and (m, d), computed in double precision."""
    return normalised(np.asarray(left, np.float64)) @ normalised(np.asarray(right, np.float64)).T


def check_classes(classes: Mapping[str, Sequence[str]], combine: str) -> None:
    """Refuse what cannot be told apart.

    Raises
    ------
    Fp2Error
        If there are fewer than two classes, one has no wording, two share one, or `combine` is not known.
    """
    if combine not in get_args(Combine):
        raise Fp2Error(f"unknown way to combine wordings {combine!r}", fix=nearest(combine, get_args(Combine)))
    if len(classes) < 2:
        raise Fp2Error(f"{len(classes)} class is no choice", where="classes", fix="Give two or more")
    owner: dict[str, str] = {}
    for label, wordings in classes.items():
        if isinstance(wordings, str) or not wordings:
            raise Fp2Error(f"the class {label!r} has no list of wordings", where="classes", fix="Give one or more")
        for wording in wordings:
            if owner.setdefault(wording, label) != label:
                raise Fp2Error(f"{wording!r} stands for both {owner[wording]!r} and {label!r}", where="classes")


def classify(
    pictures: Floats,
    texts: Mapping[str, Floats],
    classes: Mapping[str, Sequence[str]],
    scale: Scale,
    combine: Combine = "mean",
) -> ZeroShot:
    """Return the nearest class of each picture.

    Parameters
    ----------
    pictures : ndarray, (n, d)
        Embeddings; they are normalised here.
    texts : Mapping[str, ndarray (d,)]
        The embedding of every wording.
    classes : Mapping[str, sequence of str]
        The wordings of each class.
    scale : Scale
    combine : {"mean", "best"}

    Raises
    ------
    Fp2Error
        See `check_classes`.
    """
    check_classes(classes, combine)
    labels = tuple(classes)
    wordings = [(label, wording) for label in labels for wording in classes[label]]
    each = cosine(pictures, np.stack([texts[wording] for _, wording in wordings]))
    if combine == "mean":
        middle = [
            normalised(np.stack([texts[w] for w in classes[label]]).astype(np.float64)).mean(0) for label in labels
        ]
        similarity = cosine(pictures, np.stack(middle))
    else:
        owners = np.array([labels.index(label) for label, _ in wordings])
        similarity = np.stack([each[:, owners == place].max(axis=1) for place in range(len(labels))], axis=1)
    logits = scale.logits(similarity)
    return ZeroShot(
        labels,
        similarity,
        logits,
        scale.probabilities(logits),
        tuple(labels[place] for place in similarity.argmax(axis=1)),
        tuple(wordings[place][1] for place in each.argmax(axis=1)),
    )
