"""What is decided at a look, and which probes are asked no further."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fp2.extension import RowKey
from fp2.methods.stopping.declared import P_VALUES
from fp2.methods.stopping.estimates import stopping_probabilities, two_sided_z
from fp2.methods.stopping.looks import BIASED, EQUIVALENT, FUTILE, OPEN, SPENDING, UNTESTABLE, Decision, StoppingLooks
from fp2.methods.stopping.order import Waves
from fp2.methods.stopping.sequential import nominal_levels

POWER = 0.8
"""Of the minimum detectable effect."""
FUTILITY = 0.2
"""A row is futile if the conditional power of `biased` and that of `equivalent` are both below this."""


def take_look(
    looks: StoppingLooks,
    rows: Sequence[Mapping[str, Any]],
    composites: Mapping[str, Mapping[str, Any]],
    probes: Iterable[str],
) -> StoppingLooks:
    """Return the looks after the decisions of the look `now`.

    A probe is asked no further once its rows of the primary scorer are decided (all rows where it has no value), and
    the composites, which need all probes.

    Parameters
    ----------
    rows, composites
        The comparison at this look, with `running` looks.
    probes : iterable of str
        All that are asked.
    """
    keyed = {(row["probe"], row["scorer"], row["cut"]): row for row in rows}
    decisions = {key: _of_row(looks, key, row) for key, row in keyed.items()}
    level = max((row["family_level"] for row in rows if row["family_level"]), default=looks.alpha)
    of_cuts = {cut: _of_composite(looks, cut, composite, level) for cut, composite in composites.items()}
    compared = {probe for probe, *_ in decisions}
    decided = replace(looks, rows=decisions, composites=of_cuts)
    waiting = {probe for (probe, *_), decision in decided.awaited.items() if decision.decided == OPEN}
    if any(decision.decided == OPEN for decision in of_cuts.values()):
        waiting |= compared
    ends = looks.now == len(looks.at)
    stopped = [probe for probe in probes if ends or (probe in compared and probe not in waiting)]
    last = {**dict.fromkeys(stopped, looks.now), **looks.last}
    return replace(decided, last=last)


def _of_row(looks: StoppingLooks, key: RowKey, row: Mapping[str, Any]) -> Decision:
    before = looks.rows.get(key)
    if before is not None and key[0] in looks.last:
        return before
    state = OPEN
    if looks.groups[key[2]] < 2:
        state = UNTESTABLE
    elif row["adjusted_minimum_effect_p"] is not None and row["adjusted_minimum_effect_p"] <= looks.alpha:
        state = BIASED
    elif row["adjusted_equivalence_p"] is not None and row["adjusted_equivalence_p"] <= looks.alpha:
        state = EQUIVALENT
    elif (before is not None and before.decided == FUTILE) or (
        looks.now < len(looks.at) and max(row["power_biased"], row["power_equivalent"]) < FUTILITY
    ):
        state = FUTILE
    p_values = {name: row[column] for name, column in P_VALUES.items()}
    look = before.look if before is not None and before.decided == state != OPEN else looks.now
    return Decision(look, state, p_values, row["raw"], row["n_subjects"])


def _of_composite(looks: StoppingLooks, cut: str, composite: Mapping[str, Any], level: float) -> Decision:
    """`level` is the share of alpha of a composite, which is that of a row of the primary scorer."""
    before, p_values = looks.composites.get(cut), {"p_value": composite["repeated_p"]}
    if before is not None and before.decided != OPEN:
        return Decision(before.look, before.decided, p_values)
    if composite["adjusted_p"] is not None and composite["adjusted_p"] <= looks.alpha:
        return Decision(looks.now, BIASED, p_values)
    if looks.now < len(looks.at):
        z = two_sided_z(1.0 if composite["p_value"] is None else composite["p_value"])
        if looks.power_at_end(z, looks.level_at_end(level) / 2) < FUTILITY:
            return Decision(looks.now, FUTILE, p_values)
    return Decision(looks.now, OPEN, p_values)


def expected_share(ratio: float, waves: Waves, level: float) -> float:
    """Return the expected share of the answers until one row is biased or futile.

    Parameters
    ----------
    ratio : float
        The gap beyond the smallest effect of interest, in minimum detectable effects of a run that asks everything.
    waves : Waves
    level : float
        The row's share of alpha.
    """
    from scipy.special import ndtri

    theta = ratio * (two_sided_z(level) + float(ndtri(POWER)))
    upper = [two_sided_z(p) for p in nominal_levels(level, waves.at, SPENDING)]
    asked = waves.asked
    lower = [upper[-1] * math.sqrt(t) + float(ndtri(FUTILITY)) * math.sqrt(1 - t) for t in asked]
    share, left = 0.0, 1.0
    for t, (above, below) in zip(asked[:-1], stopping_probabilities(theta, waves.at, upper, lower), strict=False):
        share += t * (above + below)
        left -= above + below
    return share + asked[-1] * max(left, 0.0)
