"""Zero-shot classification: arithmetic on embeddings of images and of class prompts, without a model.

Each class has one or more prompts. `mean` averages their normalised embeddings and normalises again: the prompt
ensembling of the CLIP paper (Radford et al. 2021, section 3.1.4). `best` takes the prompt that is most similar to the
image, as FHIBE labels images (Xiang et al. 2025, "CLIP").
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

    `softmax` (CLIP) is over the classes and sums to 1; `sigmoid` (SigLIP) is for each class by itself.
    """

    factor: float
    bias: float
    link: Link

    def logits(self, similarity: Floats) -> NDArray[np.float64]:
        """Return logits, of the shape of `similarity`."""
        return np.asarray(similarity, np.float64) * self.factor + self.bias

    def probabilities(self, logits: Floats) -> NDArray[np.float64]:
        """Return probabilities of classes, which are the last axis."""
        x = np.asarray(logits, np.float64)
        if self.link == "sigmoid":
            return np.exp(-np.logaddexp(0.0, -x))
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class ZeroShot:
    """The classes of n images, of k classes.

    Attributes
    ----------
    labels : tuple of str
        The k classes.
    similarity, logits, probability : ndarray, (n, k)
        Cosine similarity to the class (to the mean of its prompts, or to the best of them), and `Scale` of it.
    label : tuple of str
        The most likely class of each image (of equals, the first).
    prompt : tuple of str
        The single prompt that each image is most similar to.
    """

    labels: tuple[str, ...]
    similarity: NDArray[np.float64]
    logits: NDArray[np.float64]
    probability: NDArray[np.float64]
    label: tuple[str, ...]
    prompt: tuple[str, ...]


def normalised(vectors: Floats) -> Floats:
    """Return vectors along the last axis scaled to length 1; a zero vector is unchanged."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(length == 0, 1, length), vectors.dtype)


def cosine(left: Floats, right: Floats) -> NDArray[np.float64]:
    """Return the cosine similarities (n, m) of vectors (n, d) and (m, d), computed in double precision."""
    return normalised(np.asarray(left, np.float64)) @ normalised(np.asarray(right, np.float64)).T


def check_classes(classes: Mapping[str, Sequence[str]], combine: str) -> None:
    """Raise unless classes can be told apart.

    Raises
    ------
    Fp2Error
        If there are fewer than two classes, one has no prompt, two share one, or `combine` is unknown.
    """
    if combine not in get_args(Combine):
        raise Fp2Error(f"unknown way to combine prompts {combine!r}", fix=nearest(combine, get_args(Combine)))
    if len(classes) < 2:
        raise Fp2Error(f"there is {len(classes)} class", where="classes", fix="Give two or more")
    owner: dict[str, str] = {}
    for label, prompts in classes.items():
        if isinstance(prompts, str) or not prompts:
            raise Fp2Error(f"the class {label!r} has no list of prompts", where="classes", fix="Give one or more")
        for prompt in prompts:
            if owner.setdefault(prompt, label) != label:
                raise Fp2Error(f"{prompt!r} belongs to both {owner[prompt]!r} and {label!r}", where="classes")


def classify(
    images: Floats,
    texts: Mapping[str, Floats],
    classes: Mapping[str, Sequence[str]],
    scale: Scale,
    combine: Combine = "mean",
) -> ZeroShot:
    """Return the most similar class of each image.

    Parameters
    ----------
    images : ndarray, (n, d)
        Embeddings; they are normalised here.
    texts : Mapping[str, ndarray (d,)]
        The embedding of every prompt.
    classes : Mapping[str, sequence of str]
        The prompts of each class.
    scale : Scale
    combine : {"mean", "best"}

    Raises
    ------
    Fp2Error
        See `check_classes`.
    """
    check_classes(classes, combine)
    labels = tuple(classes)
    prompts = [(label, prompt) for label in labels for prompt in classes[label]]
    each = cosine(images, np.stack([texts[prompt] for _, prompt in prompts]))
    if combine == "mean":
        means = [
            normalised(np.stack([texts[prompt] for prompt in classes[label]]).astype(np.float64)).mean(0)
            for label in labels
        ]
        similarity = cosine(images, np.stack(means))
    else:
        owners = np.array([labels.index(label) for label, _ in prompts])
        similarity = np.stack([each[:, owners == place].max(axis=1) for place in range(len(labels))], axis=1)
    logits = scale.logits(similarity)
    return ZeroShot(
        labels,
        similarity,
        logits,
        scale.probabilities(logits),
        tuple(labels[place] for place in similarity.argmax(axis=1)),
        tuple(prompts[place][1] for place in each.argmax(axis=1)),
    )
