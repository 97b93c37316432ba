"""From embeddings to probabilities: cosine similarity, and the scale of a dual encoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Link = Literal["softmax", "sigmoid"]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Scale:
    """How a model turns a cosine similarity into a logit, `factor * similarity + bias`, and that into a probability.

    `softmax` (CLIP) is over the texts and sums to 1; `sigmoid` (SigLIP) is for each text by itself.
    """

    factor: float
    bias: float
    link: Link

    def logits(self, similarity: Floats) -> NDArray[np.float64]:
        """Return logits, of the shape of `similarity`."""
        return np.asarray(similarity, np.float64) * self.factor + self.bias

    def probabilities(self, logits: Floats) -> NDArray[np.float64]:
        """Return probabilities of texts, which are the last axis."""
        x = np.asarray(logits, np.float64)
        if self.link == "sigmoid":
            return np.exp(-np.logaddexp(0.0, -x))
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def normalised(vectors: Floats) -> Floats:
    """Return vectors along the last axis scaled to length 1; a zero vector is unchanged."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(length == 0, 1, length), vectors.dtype)


def cosine(left: Floats, right: Floats) -> NDArray[np.float64]:
    """Return the cosine similarities (n, m) of vectors (n, d) and (m, d), computed in double precision."""
    return normalised(np.asarray(left, np.float64)) @ normalised(np.asarray(right, np.float64)).T
