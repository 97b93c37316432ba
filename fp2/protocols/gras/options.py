"""The settings of a GRAS analysis, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fp2.errors import Fp2Error, nearest
from fp2.protocols.gras.answers import COLUMNS

OUTCOMES = ("p_yes_first_token", "p_yes", "p_yes_norm", "logit_difference")


@dataclass(frozen=True)
class GrasOptions:
    """How the answers are compared.

    outcome: which number stands for the answer; `p_yes_first_token` is the published one. alpha: level of a test.
    permutations: relabellings of whole subjects for the null. bootstrap: resamples of whole subjects for intervals.
    min_subjects: a group with fewer is listed and not compared. smallest_effect: the smallest gap of interest.
    mass_bound: an answer with p_yes + p_no below it is no answer to the question. unanswered_share: from this share of
    such answers on the model is said not to answer. seed: of every random draw.

    Raises
    ------
    Fp2Error
        If a number is out of its range or the outcome unknown.
    """

    outcome: str = "p_yes_first_token"
    alpha: float = 0.05
    permutations: int = 1_000
    bootstrap: int = 500
    min_subjects: int = 10
    smallest_effect: float = 0.02
    mass_bound: float = 0.5
    unanswered_share: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Check names and ranges."""
        if self.outcome not in OUTCOMES:
            raise Fp2Error(
                f"unknown outcome {self.outcome!r}", where="probe.options.outcome", fix=nearest(self.outcome, OUTCOMES)
            )
        for name in ("alpha", "mass_bound", "unanswered_share"):
            if not 0 < getattr(self, name) < 1:
                raise Fp2Error(f"{name} must lie between 0 and 1", where=f"probe.options.{name}")
        for name, least in (("permutations", 20), ("bootstrap", 20), ("min_subjects", 2), ("smallest_effect", 0)):
            if getattr(self, name) < least:
                raise Fp2Error(f"{name} must be at least {least}", where=f"probe.options.{name}")

    @classmethod
    def read(cls, options: Mapping[str, Any], **others: Any) -> GrasOptions:
        """Return the options of a config node (`probe.options`), with `others` (alpha, seed ...) where it is silent.

        Raises
        ------
        Fp2Error
            For a key that there is not.
        """
        known = [field.name for field in fields(cls)]
        for key in options:
            if key not in known:
                raise Fp2Error(f"unknown option {key!r}", where="probe.options", fix=nearest(str(key), known))
        return cls(**{**others, **options})


assert set(OUTCOMES) <= set(COLUMNS)
