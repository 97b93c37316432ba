"""The options of a GRAS analysis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, get_args

from annotated_types import Ge, Gt, Le, Lt

from fp2.extension import Strict

Outcome = Literal["p_yes_first_token", "p_yes", "p_yes_norm", "logit_difference"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
SMALLEST_EFFECTS = {"p_yes_first_token": 0.02, "p_yes": 0.02, "p_yes_norm": 0.02, "logit_difference": 0.08}
"""The smallest gap of interest; 0.08 in log odds is 0.02 in probability at one half (0.02 / 0.25), less elsewhere."""
WIDTHS = {"p_yes_first_token": 1.0, "p_yes": 1.0, "p_yes_norm": 1.0, "logit_difference": 4.0}
"""The largest difference of two probabilities, and in log odds what it would be at the slope at one half."""

Share = Annotated[float, Strict(), Gt(0), Lt(1)]
Draws = Annotated[int, Strict(), Ge(20), Le(1_000_000)]
"""A number of random draws; a larger one is a typing error."""


@dataclass(frozen=True)
class GrasOptions:
    """How the answers are compared.

    Attributes
    ----------
    outcome : str
        Which number stands for the answer; `p_yes_first_token` is the published one.
    alpha : float
        Level of a test.
    permutations, bootstrap : int
        Permutations of the group labels across subjects, and bootstrap resamples of the subjects.
    min_subjects : int
        A group with fewer subjects is listed and not compared.
    smallest_effect : float
        The smallest gap of interest, in the outcome's units; of `SMALLEST_EFFECTS` if None is given.
    mass_bound : float
        An answer with p_yes + p_no below it does not answer the question.
    unanswered_share : float
        The share of such answers from which on the model is reported not to answer.
    seed : int
        Of every random draw.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    outcome: Outcome = "p_yes_first_token"
    alpha: Share = 0.05
    permutations: Draws = 1_000
    bootstrap: Draws = 500
    min_subjects: Annotated[int, Strict(), Ge(2)] = 10
    smallest_effect: Annotated[float, Strict(), Ge(0)] | None = None
    mass_bound: Share = 0.5
    unanswered_share: Share = 0.1
    seed: Annotated[int, Strict(), Ge(0)] = 0

    def __post_init__(self) -> None:
        """Set the smallest effect of the outcome where none is given."""
        if self.smallest_effect is None:
            object.__setattr__(self, "smallest_effect", SMALLEST_EFFECTS[self.outcome])

    @property
    def least_effect(self) -> float:
        """`smallest_effect`, never None."""
        assert self.smallest_effect is not None
        return self.smallest_effect
