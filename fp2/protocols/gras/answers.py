"""What a model answered: P(Yes) and its companions for every picture, trait and template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fp2.probes.traits import Trait

COLUMNS = (
    "p_yes",
    "p_no",
    "p_yes_first_token",
    "p_no_first_token",
    "p_yes_norm",
    "mass",
    "logit_difference",
)
"""The numbers of a yes/no answer, as `fp2.engines.base.Answer` defines them."""


@dataclass(frozen=True)
class GrasAnswers:
    """The answers of one run.

    image_ids, subject_ids (n_images,): who is in each picture; no picture twice. traits, templates: in the order of the
    axes. columns: by name (`COLUMNS`; at least the outcome that is analysed), each (n_images, n_traits, n_templates)
    float32, NaN = missing.

    Raises
    ------
    ValueError
        If shapes differ, a picture, trait or template comes twice, or a column is unknown.
    """

    image_ids: NDArray[Any]
    subject_ids: NDArray[Any]
    traits: tuple[Trait, ...]
    templates: tuple[str, ...]
    columns: Mapping[str, NDArray[np.float32]]

    def __post_init__(self) -> None:
        """Check the shapes and that names are unique."""
        shape = (len(self.image_ids), len(self.traits), len(self.templates))
        for name, values in self.columns.items():
            if name not in COLUMNS:
                raise ValueError(f"unknown column {name!r}; choose from {', '.join(COLUMNS)}")
            if values.shape != shape:
                raise ValueError(f"column {name!r} has shape {values.shape}, not {shape}")
        if len(self.subject_ids) != len(self.image_ids):
            raise ValueError(f"{len(self.subject_ids)} subjects for {len(self.image_ids)} pictures")
        names = {"picture": list(self.image_ids), "trait": self.words, "template": list(self.templates)}
        for what, found in names.items():
            if len(set(found)) < len(found):
                raise ValueError(f"a {what} comes twice")

    @property
    def words(self) -> list[str]:
        """The trait words, in order."""
        return [trait.word for trait in self.traits]
