"""The answers that are analysed: P(Yes) and related numbers for every image, trait and template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import YES_NO_NUMBERS

if TYPE_CHECKING:
    from fp2.methods.dense.answers import DenseAnswers
    from fp2.methods.dense.traits import Trait


@dataclass(frozen=True)
class GrasAnswers:
    """The answers of one run.

    Attributes
    ----------
    image_ids, subject_ids : arrays, shape (n_images,)
        The images, each once, and the subject of each.
    traits : tuple of Trait
    templates : tuple of str
    columns : mapping
        Name (of `fp2.tables.YES_NO_NUMBERS`; at least the outcome that is analysed) -> float32 array of shape
        (n_images, n_traits, n_templates), NaN = missing.

    Raises
    ------
    ValueError
        If shapes differ, an image, trait or template is repeated, or a column is unknown.
    """

    image_ids: NDArray[Any]
    subject_ids: NDArray[Any]
    traits: tuple[Trait, ...]
    templates: tuple[str, ...]
    columns: Mapping[str, NDArray[np.float32]]

    @classmethod
    def of(cls, answers: DenseAnswers) -> GrasAnswers:
        """Return the answers of a run as they are analysed."""
        return cls(answers.image_ids, answers.subject_ids, answers.traits, answers.templates, answers.columns)

    def __post_init__(self) -> None:
        """Check the shapes and that names are unique."""
        shape = (len(self.image_ids), len(self.traits), len(self.templates))
        for name, values in self.columns.items():
            if name not in YES_NO_NUMBERS:
                raise ValueError(f"unknown column {name!r}; choose from {', '.join(YES_NO_NUMBERS)}")
            if values.shape != shape:
                raise ValueError(f"column {name!r} has shape {values.shape}, not {shape}")
        if len(self.subject_ids) != len(self.image_ids):
            raise ValueError(f"{len(self.subject_ids)} subjects for {len(self.image_ids)} images")
        words = [trait.word for trait in self.traits]
        names = {"image": list(self.image_ids), "trait": words, "template": list(self.templates)}
        for what, found in names.items():
            if len(set(found)) < len(found):
                raise ValueError(f"a repeated {what}")
