"""Error patterns: which values of attributes come together with a low score, as association rules.

The paper mines rules with FP-growth and looks into the attributes that they name. Rules that are mined are always many
and partly luck, so here they are found on one half of the people and tested on the other:

1. an item is a value of an attribute or the low, middle or high third of a number; a score is low at or below the
   quantile `low` of the scores, and never the best score (where most scores are the best, low is all below it); of a
   yes/no outcome: where it failed;
2. FP-growth on the discovery half gives frequent item sets; a rule says "these items -> low score". Kept are the rules
   with enough support, confidence above the base rate, and a better lift than every shorter rule inside them;
3. each rule is tested on the held-out half by permuting whole people: those with the same number of pictures exchange
   all their scores. One permutation serves all rules; p-values are one-sided (more low scores where the rule holds) and
   corrected together by Benjamini-Hochberg. `held` is a rule with q <= alpha and a lift above 1 there.

Source: Han, Pei and Yin 2000 (FP-growth, from mlxtend); lift: Brin et al. 1997.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.protocols.fhibe.scores.design import IS, Design

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
_CHUNK = 200
_COMMON = 0.8  # what more pictures have is no news in a rule
_THIRDS = ("low", "middle", "high")


@dataclass(frozen=True)
class PatternOptions:
    """low: quantile of a low score; `longest` rule in items; `most` rules tested; `smallest_lift` to be looked at.

    `looked_into`: of how many features of the rules that held the disparities are worked out (None: of all).
    """

    low: float = 0.25
    support: float = 0.02
    smallest_lift: float = 1.2
    longest: int = 2
    most: int = 200
    permutations: int = 2000
    looked_into: int | None = None
    min_subjects: int = 10
    alpha: float = 0.05
    seed: int = 20260101


@dataclass(frozen=True)
class Items:
    """held (n, k): which row has which item; names (k,) as (feature, value)."""

    held: BoolArray
    names: tuple[tuple[str, str], ...]


def find_patterns(
    table: pd.DataFrame, design: Design, options: PatternOptions, *, yes_no: bool = False, higher_is_better: bool = True
) -> dict[str, Any]:
    """Return the rules found and how they did on the other half of the people.

    `table` has `subject_id, score` without missing scores, in the rows of `design`. The result is JSON-able: `status`
    (`ok`, `constant`, or `too_few`: people, features, or no low score in one of the halves), `threshold` (low is up to
    it), `low_share` (of all pictures), `base_rate`, `base_rate_held`, `n_rules`, `n_held` and `rules`, best first:
    `items` ([feature, value] each), `support, confidence, lift, n_subjects` on the discovery half, `held_support,
    held_confidence, held_lift, held_subjects, p, q, held` on the other, and `features`.
    """
    y = table["score"].to_numpy(dtype=np.float64) * (1.0 if higher_is_better else -1.0)
    people, subject = np.unique(table["subject_id"].to_numpy(dtype=object).astype(str), return_inverse=True)
    sizes = {"n_images": len(y), "n_subjects": len(people)}
    if len(people) < 4 * options.min_subjects or not design.columns:
        return {"status": "too_few", **sizes}
    if np.ptp(y) == 0:
        return {"status": "constant", **sizes}
    threshold = float(y.min()) if yes_no else float(np.quantile(y, options.low))
    if threshold >= y.max():  # most scores are the best one: what is below it is low, however little that is
        threshold = float(y[y < y.max()].max())
    low = y <= threshold
    half = _half(len(people), options.seed)[subject]
    if not low[half].any() or not low[~half].any():
        return {"status": "too_few", **sizes}
    items = make_items(design, ~half)
    rules = _mine(items, low, half, subject, options)
    tested = _test(rules, items, low, ~half, subject, options)
    return {
        "status": "ok",
        **sizes,
        "threshold": threshold * (1.0 if higher_is_better else -1.0),
        "low_share": float(low.mean()),
        "base_rate": float(low[half].mean()),
        "base_rate_held": float(low[~half].mean()),
        "n_rules": len(tested),
        "n_held": sum(rule["held"] for rule in tested),
        "rules": tested,
    }


def _half(n: int, seed: int) -> BoolArray:
    """Return which people are in the discovery half."""
    chosen = np.zeros(n, dtype=bool)
    chosen[np.random.default_rng([seed, 2]).permutation(n)[: n // 2]] = True
    return chosen


def make_items(design: Design, held_out: BoolArray) -> Items:
    """Return the items of every row: 0/1 columns that are 1, and thirds of numbers (cut on the discovery half)."""
    held: list[BoolArray] = []
    names: list[tuple[str, str]] = []
    for k, column in enumerate(design.columns):
        values = design.matrix[:, k]
        known = ~np.isnan(values)
        if not (known & ~held_out).any():
            continue  # nothing to find there
        if np.isin(values[known], (0.0, 1.0)).all():
            sides = [values == 1.0] if column.value is not None else [values == 0.0, values == 1.0]
            words = [column.value] if column.value is not None else ["no", "yes"]
        else:
            cuts = np.quantile(values[known & ~held_out], [1 / 3, 2 / 3])
            place = np.digitize(values, cuts, right=True)
            sides, words = [known & (place == third) for third in range(3)], list(_THIRDS)
        for side, word in zip(sides, words, strict=True):
            if 0 < side[~held_out].mean() <= _COMMON:
                held.append(side)
                names.append((column.feature, str(word)))
    return Items(np.column_stack(held) if held else np.empty((len(held_out), 0), dtype=bool), tuple(names))


Rule = dict[str, Any]


def _mine(items: Items, low: BoolArray, half: BoolArray, subject: NDArray[np.intp], options: PatternOptions) -> list[
    Rule
]:  # fmt: skip
    """Return the rules of the discovery half, best lift first."""
    import pandas as pd
    from mlxtend.frequent_patterns import fpgrowth

    inside, is_low = items.held[half], low[half]
    base = float(is_low.mean())
    # only rows with a low score are mined: support of (items and low) is all that is asked of them
    frame = pd.DataFrame(inside[is_low], columns=range(inside.shape[1]))
    least = min(1.0, options.support / base)
    frequent = fpgrowth(frame, min_support=least, use_colnames=True, max_len=options.longest)
    rules: list[Rule] = []
    for found in frequent["itemsets"]:
        places = sorted(int(place) for place in found)
        features = [items.names[place][0] for place in places]
        if len(set(features)) < len(features):
            continue
        where = inside[:, places].all(axis=1)
        n_people = len(np.unique(subject[half][where]))
        confidence = float(is_low[where].mean())
        if n_people >= options.min_subjects and confidence / base >= options.smallest_lift:
            rules.append(
                {"places": places, "support": float((where & is_low).mean()), "confidence": confidence,
                 "lift": confidence / base, "n_subjects": n_people}
            )  # fmt: skip
    return _without_passengers(sorted(rules, key=lambda r: (len(r["places"]), -r["lift"])))[: options.most]


def _without_passengers(rules: Sequence[Rule]) -> list[Rule]:
    """Drop a rule that is hardly better than a shorter one inside it: its further items only ride along.

    Better means by more than two standard errors of the shorter rule's confidence among as many people.
    """
    kept: list[Rule] = []
    for rule in rules:
        own = set(rule["places"])
        inside = max((other["confidence"] for other in kept if set(other["places"]) < own), default=None)
        if inside is None or rule["confidence"] > inside + 2 * math.sqrt(inside * (1 - inside) / rule["n_subjects"]):
            kept.append(rule)
    return sorted(kept, key=lambda rule: (-rule["lift"], rule["places"]))


def _test(
    rules: Sequence[Rule], items: Items, low: BoolArray, rows: BoolArray, subject: NDArray[np.intp],
    options: PatternOptions,
) -> list[Rule]:  # fmt: skip
    """Return the rules with what the held-out half says of them."""
    from fp2.stats.adjustment import adjust_p_values

    if not rules:
        return []
    where = np.column_stack([items.held[rows][:, rule["places"]].all(axis=1) for rule in rules])
    is_low, people = low[rows], subject[rows]
    base, sizes = float(is_low.mean()), where.sum(axis=0)
    enough = np.array([len(np.unique(people[where[:, k]])) for k in range(len(rules))])
    p_values = permutation_p(where, is_low, people, options.permutations, options.seed)
    tested = [bool(n >= options.min_subjects) for n in enough]
    adjusted = adjust_p_values([p if t else None for p, t in zip(p_values, tested, strict=True)], "bh")
    out = []
    for k, rule in enumerate(rules):
        confidence = float(is_low[where[:, k]].mean()) if sizes[k] else None
        names = [items.names[place] for place in rule["places"]]
        lift = confidence / base if confidence is not None and base > 0 else None
        q = adjusted[k]
        out.append(
            {
                "items": [list(name) for name in names],
                "text": " and ".join(IS.join(name) for name in names),
                "features": [feature for feature, _ in names],
                **{key: rule[key] for key in ("support", "confidence", "lift", "n_subjects")},
                "held_support": float((where[:, k] & is_low).mean()),
                "held_confidence": confidence,
                "held_lift": lift,
                "held_subjects": int(enough[k]),
                "p": float(p_values[k]) if tested[k] else None,
                "q": q,
                "held": bool(q is not None and q <= options.alpha and lift is not None and lift > 1),
            }
        )
    return sorted(
        out, key=lambda rule: (not rule["held"], -rule["held_lift" if rule["held"] else "lift"], rule["text"])
    )


def permutation_p(
    where: BoolArray, low: BoolArray, subject: NDArray[np.intp], n_permutations: int, seed: int
) -> FloatArray:
    """Return one-sided p-values of "more low scores where the rule holds", whole people permuted.

    where (n, k), low (n,), subject (n,). People with the same number of rows exchange all their scores. The statistic
    is the number of low scores under the rule: the rule's rows and the base rate are the same in every permutation.
    """
    order = np.argsort(subject, kind="stable")
    placed, outcome = where[order].astype(np.float32), low[order].astype(np.float32)
    counts = np.bincount(np.unique(subject, return_inverse=True)[1])
    starts = np.r_[0, np.cumsum(counts)[:-1]]
    observed = outcome @ placed
    rng = np.random.default_rng([seed, 3])
    reached = np.zeros(where.shape[1])
    blocks = [starts[counts == size][:, None] + np.arange(size) for size in np.unique(counts)]
    for start in range(0, n_permutations, _CHUNK):
        n = min(_CHUNK, n_permutations - start)
        moved = np.empty((n, len(outcome)), dtype=np.float32)
        for block in blocks:  # (people, rows each)
            own = outcome[block]
            people = rng.permuted(np.broadcast_to(np.arange(len(block)), (n, len(block))), axis=1)
            moved[:, block.ravel()] = own[people].reshape(n, -1)
        reached += (moved @ placed >= observed - 1e-3).sum(axis=0)
    found: FloatArray = (1.0 + reached) / (1.0 + n_permutations)
    return found
