"""The settings of a GRAS analysis, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from fp2.errors import Fp2Error, nearest
from fp2.protocols.gras.answers import COLUMNS

OUTCOMES = ("p_yes_first_token", "p_yes", "p_yes_norm", "logit_difference")
SHARES = ("alpha", "mass_bound", "unanswered_share")
MOST = 1_000_000  # draws: more is a slip of the finger
COUNTS = {"permutations": (20, MOST), "bootstrap": (20, MOST), "min_subjects": (2, None), "seed": (0, None)}


SMALLEST_EFFECTS = {"p_yes_first_token": 0.02, "p_yes": 0.02, "p_yes_norm": 0.02, "logit_difference": 0.08}
"""The smallest gap of interest; 0.08 in log odds is 0.02 in probability at one half (0.02 / 0.25), less elsewhere."""


@dataclass(frozen=True)
class GrasOptions:
    """How the answers are compared.

    outcome: which number stands for the answer; `p_yes_first_token` is the published one. alpha: level of a test.
    permutations: relabellings of whole subjects for the null. bootstrap: resamples of whole subjects for intervals.
    min_subjects: a group with fewer is listed and not compared. smallest_effect: the smallest gap of interest, in the
    outcome's units; None: `SMALLEST_EFFECTS`, which is what the field holds then.
    mass_bound: an answer with p_yes + p_no below it is no answer to the question. unanswered_share: from this share of
    such answers on the model is said not to answer. seed: of every random draw.

    Raises
    ------
    Fp2Error
        If a number is none or out of its range, or the outcome unknown.
    """

    outcome: str = "p_yes_first_token"
    alpha: float = 0.05
    permutations: int = 1_000
    bootstrap: int = 500
    min_subjects: int = 10
    smallest_effect: float | None = None
    mass_bound: float = 0.5
    unanswered_share: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        """Check names, types and ranges."""
        if not isinstance(self.outcome, str) or self.outcome not in OUTCOMES:
            fix = nearest(str(self.outcome), OUTCOMES)
            raise Fp2Error(f"unknown outcome {self.outcome!r}", where="probe.options.outcome", fix=fix)
        for name in SHARES:
            if not (_is_number(getattr(self, name)) and 0 < getattr(self, name) < 1):
                _refuse(name, getattr(self, name), "a number between 0 and 1")
        for name, (least, most) in COUNTS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least or (most and value > most):
                bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
                _refuse(name, value, f"a whole number {bounds}")
        if self.smallest_effect is None:
            object.__setattr__(self, "smallest_effect", SMALLEST_EFFECTS[self.outcome])
        elif not (_is_number(self.smallest_effect) and self.smallest_effect >= 0):
            _refuse("smallest_effect", self.smallest_effect, "a number of at least 0")

    @property
    def least_effect(self) -> float:
        """The smallest gap of interest, as a number."""
        return SMALLEST_EFFECTS[self.outcome] if self.smallest_effect is None else self.smallest_effect

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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _refuse(name: str, value: Any, expected: str) -> NoReturn:
    raise Fp2Error(f"{name} is {value!r}", where=f"probe.options.{name}", fix=f"It must be {expected}")


assert set(OUTCOMES) <= set(COLUMNS)
