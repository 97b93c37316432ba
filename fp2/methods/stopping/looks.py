"""The looks of a run that stops: repeated p-values over all looks so far, and what follows from them for each row.

At each look the p-values of a row's three hypotheses are those of the data, repeated (`sequential`); a row's
p-value is the smallest so far. It is valid wherever the run stops, so that the smallest ones can be corrected over the
family (Maurer and Bretz 2013), and what was rejected once stays rejected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np

from fp2.extension import (
    UNINFORMATIVE,
    ComparisonSettings,
    DisparityRow,
    GapTest,
    RowKey,
    Verdict,
)
from fp2.methods.stopping.declared import P_VALUES, Looks
from fp2.methods.stopping.estimates import median_unbiased, predictive_power, two_sided_z, with_spread
from fp2.methods.stopping.sequential import nominal_levels

OPEN, FUTILE, UNTESTABLE = "open", "futile", "untestable"
BIASED, EQUIVALENT = Verdict.BIASED.value, Verdict.EQUIVALENT.value
SPENDING: Final = "pocock"
_RESOLUTION = 2
"""Permutations at the smallest nominal level of a look."""


@dataclass(frozen=True)
class Decision:
    """What the looks so far say of a row (or composite, which has no more than its first p-value).

    Attributes
    ----------
    look : int
        At which it was decided, or else the last.
    decided : str
    p_values : mapping
        Repeated, the smallest over the looks, by the names of `P_VALUES`.
    raw, n_subjects
        Of the last look: they say which data the p-values are of.
    """

    look: int
    decided: str
    p_values: Mapping[str, float]
    raw: float | None = None
    n_subjects: int | None = None

    def is_of(self, row: DisparityRow) -> bool:
        """Whether the p-values are those of the data of a row."""
        if self.raw is None or row.raw is None:
            return self.raw is row.raw and self.n_subjects == row.n_subjects
        return math.isclose(self.raw, row.raw, rel_tol=1e-9, abs_tol=1e-12) and self.n_subjects == row.n_subjects


@dataclass(frozen=True, kw_only=True)
class StoppingLooks(Looks):
    """The looks so far.

    Attributes
    ----------
    alpha : float
    smallest_share : float
        Of alpha, of a row or composite.
    primary : str
        The scorer whose rows decide how far a probe is asked.
    groups : mapping
        Cut -> number of groups that are compared in the end.
    last : mapping
        Probe -> the last look at it, for those that are asked no further.
    rows, composites : mapping
        The decisions.
    running : bool
        Whether this look is a new one; else p-values of the same data are those of the decisions.
    asked : tuple of float
        Share of all answers up to each look, for futility: small groups are ahead of `at`, their least share. Not
        known of a logged run.
    """

    alpha: float
    smallest_share: float
    primary: str
    groups: Mapping[str, int]
    last: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[RowKey, Decision] = field(default_factory=dict)
    composites: Mapping[str, Decision] = field(default_factory=dict)
    running: bool = False
    asked: tuple[float, ...] = ()

    def settings(self, comparison: ComparisonSettings, fixed: int | None) -> ComparisonSettings:
        """Return the settings of the comparison at these looks; `fixed`: the number of permutations that is set."""
        smallest = min(nominal_levels(self.alpha * self.smallest_share, self.at, self.spending))
        needed = math.ceil(_RESOLUTION / smallest)
        n = fixed or max(comparison.n_permutations, needed)
        return replace(comparison, looks=self, n_permutations=n)

    @property
    def awaited(self) -> dict[RowKey, Decision]:
        """The rows that have to be decided: those of the primary scorer, and all of a probe where it has no value."""
        with_primary = {
            probe for (probe, scorer, _), d in self.rows.items() if scorer == self.primary and d.raw is not None
        }
        return {
            (probe, scorer, cut): decision
            for (probe, scorer, cut), decision in self.rows.items()
            if scorer == self.primary or probe not in with_primary
        }

    def at_probe(self, probe: str) -> Self:
        """Return the looks with the last one at the probe as `now`."""
        return replace(self, now=min(self.now, self.last.get(probe, self.now)))

    def repeated_p_values(self, key: RowKey, row: DisparityRow) -> dict[str, float | None]:
        """Return the smallest repeated p-values so far; 1 of a row that was not tested, which stays in the family.

        Groups that are too small at this look are not compared: nothing is equivalent or futile before all are.
        """
        before = self.rows.get(key)
        if before is not None and not self.running and before.is_of(row):
            return dict(before.p_values)
        at_probe = self.at_probe(key[0])
        p_values: dict[str, float | None] = {}
        for name in P_VALUES:
            p = getattr(row, name)
            if p is None or (name == "equivalence_p" and self._waits_for_groups(key, row)):
                p = 1.0
            repeated = at_probe.repeated(p) or 0.0
            p_values[name] = min(repeated, before.p_values[name]) if before is not None and self.running else repeated
        return p_values

    def _waits_for_groups(self, key: RowKey, row: DisparityRow) -> bool:
        """Whether groups that are too small at this look may be compared at a later one."""
        compared = sum(group.eligible for group in row.groups)
        return self.at_probe(key[0]).now < len(self.at) and compared < self.groups[key[2]]

    def composite_p(self, cut: str, p: float | None) -> float | None:
        """Return the smallest repeated p-value so far of a composite."""
        before = self.composites.get(cut)
        if before is not None and not self.running:
            return before.p_values["p_value"]
        repeated = 1.0 if p is None else self.repeated(p) or 0.0
        return repeated if before is None else min(repeated, before.p_values["p_value"])

    def columns(self, key: RowKey, row: DisparityRow, unadjusted: DisparityRow) -> dict[str, float | None]:
        """Return the repeated p-values and interval of a row and its corrected estimate; at a new look, its powers."""
        columns: dict[str, float | None] = dict(super().columns(key, row, unadjusted))
        if self.running:
            powers = (
                (1.0, 1.0)
                if self._waits_for_groups(key, row)
                else self.powers(replace(unadjusted, family_level=row.family_level))
            )
            return columns | dict(zip(("power_biased", "power_equivalent"), powers, strict=True))
        columns |= dict.fromkeys(("repeated_ci_low", "repeated_ci_high", "corrected_gap"))
        if row.test is not None and row.raw is not None:
            level = self.at_probe(key[0]).level(self.alpha)
            columns["repeated_ci_low"] = min(with_spread(row.test).low(level), row.raw)
            columns["repeated_ci_high"] = max(row.test.high(level), row.raw)
            columns["corrected_gap"] = self.corrected_gap(key, row)
        return columns

    def powers(self, row: DisparityRow) -> tuple[float, float]:
        """Return the conditional powers of `biased` and `equivalent`; those of a row without any spread are small."""
        z_large = z_small = 0.0
        if row.test is not None and row.status != UNINFORMATIVE:
            z_large, z_small = statistics(row, row.test)
        level = self.level_at_end(row.family_level or self.alpha * self.smallest_share)
        return self.power_at_end(z_large, level / 2), self.power_at_end(z_small, level)

    def power_at_end(self, z: float, level: float) -> float:
        """Return the conditional power of the last look, which is one-sided at `level`, given the statistic so far."""
        from scipy.special import ndtri

        return float(predictive_power(z, -float(ndtri(level)), (self.asked or self.at)[self.now - 1]))

    def level_at_end(self, share: float) -> float:
        """Return the nominal level of the last look for a share of alpha."""
        return nominal_levels(share, self.at, self.spending)[-1]

    def corrected_gap(self, key: RowKey, row: DisparityRow) -> float | None:
        """Return the difference of the clearest pair, corrected for stopping where the row was decided as biased.

        The bounds of the looks before are those at which it would have been.
        """
        decision, test = self.rows.get(key), row.test
        if test is None or row.pair_gap is None:
            return row.pair_gap
        now = self.at_probe(key[0]).now
        if decision is None or decision.decided != BIASED or decision.look != now:
            return row.pair_gap
        with np.errstate(divide="ignore", invalid="ignore"):
            pair = int(np.nanargmax(np.where(test.error > 0, np.abs(test.gap) / test.error, -1.0)))
        error = float(test.own_error[pair])
        if error <= 0:
            return row.pair_gap
        fractions = self.at[:now]
        levels = nominal_levels(row.family_level or self.alpha * self.smallest_share, fractions, self.spending)
        errors = [error * math.sqrt(fractions[-1] / t) for t in fractions[:-1]]
        bounds = [
            min(test.critical(level), 9.0) + row.smallest_effect / se
            for level, se in zip(levels[:-1], errors, strict=True)
        ]
        return max(0.0, error * median_unbiased(abs(float(test.gap[pair])) / error, fractions, bounds))


def statistics(row: DisparityRow, test: GapTest) -> tuple[float, float]:
    """Return how clearly the gaps are above the smallest effect, and below it: normal statistics of the two p-values.

    On the other side of the bound they are negative: the largest gap less the bound, in standard errors.
    """
    from scipy.special import ndtri

    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = (np.abs(test.gap) - row.smallest_effect) / np.where(test.own_error > 0, test.own_error, np.inf)
    above = float(beyond.max())
    if above >= 0:
        return two_sided_z(1.0 if row.minimum_effect_p is None else row.minimum_effect_p), -above
    return above, -float(ndtri(0.5 if row.equivalence_p is None else row.equivalence_p))
