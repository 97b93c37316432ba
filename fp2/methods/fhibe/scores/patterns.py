"""Error patterns: values of attributes that come with a low score, as association rules.

Xiang et al. 2025, Methods, "Error patterns": rules are mined with FP-growth, and the disparities by the attributes that
they name are followed up. Mined rules are many, and partly due to chance, so that they are mined on one half of the
subjects and tested on the other:

1. an item is a value of an attribute, or the low, middle or high third of a number. A score is low at or below the
   quantile `low` of the scores; if that is the best score, below it; a binary outcome is low where it failed;
2. FP-growth on the discovery half gives frequent item sets; a rule is "these items -> low score". Rules are kept with
   enough support, enough lift, and a better confidence than every shorter rule inside them;
3. each rule is tested on the held-out half by a permutation test: subjects with the same number of images exchange
   their scores. The same permutations serve all rules; p-values are one-sided and adjusted together by
   Benjamini-Hochberg. A rule is replicated (`held`) with an adjusted p-value of at most alpha and a lift above 1 there.

Sources: FP-growth: Han, Pei and Yin 2000 (mlxtend); lift: Brin et al. 1997.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import ATTRIBUTE_PREFIX, JOIN, BoolArray, Cut, FloatArray, Range, attribute_columns
from fp2.methods.fhibe.scores.benchmark import BenchmarkOptions, benchmark
from fp2.methods.fhibe.scores.design import IS, FeatureMatrix

if TYPE_CHECKING:
    import pandas as pd

Rule = dict[str, Any]
_CHUNK = 200  # permutations at once
_COMMON = 0.8  # an item of more images than this says little
_THIRDS = ("low", "middle", "high")


@dataclass(frozen=True)
class PatternOptions:
    """`task.options.patterns`; level, seed and smallest group are those of the analysis unless they are given.

    Attributes
    ----------
    low : float
        Quantile up to which a score is low.
    support, smallest_lift : float
        Least support and lift of a rule on the discovery half.
    longest, most : int
        Items of a rule, and rules that are tested, at most.
    permutations : int
    looked_into : int, optional
        Features of replicated rules whose disparities are followed up; None: all.
    """

    low: Annotated[float, Range(1e-6, 1 - 1e-6)] = 0.25
    support: Annotated[float, Range(1e-6, 1)] = 0.02
    smallest_lift: Annotated[float, Range(0)] = 1.2
    longest: Annotated[int, Range(1)] = 2
    most: Annotated[int, Range(1)] = 200
    permutations: Annotated[int, Range(1)] = 2000
    looked_into: Annotated[int, Range(0)] | None = None
    min_subjects: Annotated[int, Range(2)] = 10
    alpha: Annotated[float, Range(1e-6, 0.5)] = 0.05
    seed: Annotated[int, Range(0)] = 20260101


@dataclass(frozen=True)
class Items:
    """Which row has which item: held (n, k), names (k,) as (feature, value)."""

    held: BoolArray
    names: tuple[tuple[str, str], ...]


def find_patterns(
    table: pd.DataFrame,
    design: FeatureMatrix,
    options: PatternOptions,
    *,
    yes_no: bool = False,
    higher_is_better: bool = True,
) -> dict[str, Any]:
    """Return the rules of the discovery half, and what the held-out half says of them.

    Parameters
    ----------
    table : DataFrame
        `subject_id, score`, without missing scores, in the rows of `design`.

    Returns
    -------
    dict
        JSON values. `status` (`ok`, `constant`, or `too_few`: subjects, features, or no low score in one of the
        halves), `threshold`, `low_share` (of all images), `base_rate`, `base_rate_held`, `n_rules`, `n_held` and
        `rules`, best first: `items` ([feature, value] each), `support, confidence, lift, n_subjects` on the discovery
        half, `held_support, held_confidence, held_lift, held_subjects, p, q, held` on the other, and `features`.
    """
    y = table["score"].to_numpy(dtype=np.float64) * (1.0 if higher_is_better else -1.0)
    names, subject = np.unique(table["subject_id"].to_numpy(dtype=object).astype(str), return_inverse=True)
    sizes = {"n_images": len(y), "n_subjects": len(names)}
    if len(names) < 4 * options.min_subjects or not design.columns:
        return {"status": "too_few", **sizes}
    if np.ptp(y) == 0:
        return {"status": "constant", **sizes}
    threshold = float(y.min()) if yes_no else float(np.quantile(y, options.low))
    if threshold >= y.max():
        threshold = float(y[y < y.max()].max())
    low = y <= threshold
    in_discovery = np.zeros(len(names), dtype=bool)
    in_discovery[np.random.default_rng([options.seed, 2]).permutation(len(names))[: len(names) // 2]] = True
    half = in_discovery[subject]
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


def make_items(design: FeatureMatrix, held_out: BoolArray) -> Items:
    """Return the items of every row: 0/1 columns that are 1, and thirds of numbers (cut on the discovery half)."""
    held: list[BoolArray] = []
    names: list[tuple[str, str]] = []
    for k, column in enumerate(design.columns):
        values = design.matrix[:, k]
        present = ~np.isnan(values)
        if not (present & ~held_out).any():
            continue
        if np.isin(values[present], (0.0, 1.0)).all():
            sides = [values == 1.0] if column.value is not None else [values == 0.0, values == 1.0]
            words = [column.value] if column.value is not None else ["no", "yes"]
        else:
            bounds = np.quantile(values[present & ~held_out], [1 / 3, 2 / 3])
            place = np.digitize(values, bounds, right=True)
            sides, words = [present & (place == third) for third in range(3)], list(_THIRDS)
        for side, word in zip(sides, words, strict=True):
            if 0 < side[~held_out].mean() <= _COMMON:
                held.append(side)
                names.append((column.feature, str(word)))
    return Items(np.column_stack(held) if held else np.empty((len(held_out), 0), dtype=bool), tuple(names))


def _mine(
    items: Items, low: BoolArray, half: BoolArray, subject: NDArray[np.intp], options: PatternOptions
) -> list[Rule]:
    """Return the rules of the discovery half, highest lift first."""
    import pandas as pd
    from mlxtend.frequent_patterns import fpgrowth

    inside, is_low = items.held[half], low[half]
    base = float(is_low.mean())
    # rows with a low score are enough: of item sets only the support together with a low score is needed
    frame = pd.DataFrame(inside[is_low], columns=range(inside.shape[1]))
    least = min(1.0, options.support / base)
    frequent = fpgrowth(frame, min_support=least, use_colnames=True, max_len=options.longest)
    rules: list[Rule] = []
    for itemset in frequent["itemsets"]:
        places = sorted(int(item) for item in itemset)
        features = [items.names[item][0] for item in places]
        if len(set(features)) < len(features):
            continue
        where = inside[:, places].all(axis=1)
        n_subjects = len(np.unique(subject[half][where]))
        confidence = float(is_low[where].mean())
        if n_subjects >= options.min_subjects and confidence / base >= options.smallest_lift:
            rules.append(
                {
                    "places": places,
                    "support": float((where & is_low).mean()),
                    "confidence": confidence,
                    "lift": confidence / base,
                    "n_subjects": n_subjects,
                }
            )
    return _without_redundant(sorted(rules, key=lambda r: (len(r["places"]), -r["lift"])))[: options.most]


def _without_redundant(rules: Sequence[Rule]) -> list[Rule]:
    """Drop rules whose confidence does not exceed that of a shorter rule inside them by two standard errors.

    The standard error is that of the shorter rule's confidence among as many subjects.
    """
    distinct: list[Rule] = []
    for rule in rules:
        items = set(rule["places"])
        inside = max((other["confidence"] for other in distinct if set(other["places"]) < items), default=None)
        if inside is None or rule["confidence"] > inside + 2 * math.sqrt(inside * (1 - inside) / rule["n_subjects"]):
            distinct.append(rule)
    return sorted(distinct, key=lambda rule: (-rule["lift"], rule["places"]))


def _test(
    rules: Sequence[Rule],
    items: Items,
    low: BoolArray,
    rows: BoolArray,
    subject: NDArray[np.intp],
    options: PatternOptions,
) -> list[Rule]:
    """Return the rules with their numbers on the held-out half (`rows`); replicated ones first."""
    from fp2.extension import adjust_p_values

    if not rules:
        return []
    where = np.column_stack([items.held[rows][:, rule["places"]].all(axis=1) for rule in rules])
    is_low, subjects = low[rows], subject[rows]
    base, sizes = float(is_low.mean()), where.sum(axis=0)
    n_subjects = np.array([len(np.unique(subjects[where[:, k]])) for k in range(len(rules))])
    p_values = permutation_p(where, is_low, subjects, options.permutations, options.seed)
    tested = [bool(n >= options.min_subjects) for n in n_subjects]
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
                "held_subjects": int(n_subjects[k]),
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
    """Return one-sided p-values of "more low scores under the rule", permuting scores across subjects.

    where (n, k), low (n,), subject (n,). Subjects with the same number of rows exchange all their scores. The statistic
    is the number of low scores under the rule; its rows and the base rate are the same in every permutation.
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
        for block in blocks:  # (subjects, rows of each)
            of_block = outcome[block]
            drawn = rng.permuted(np.broadcast_to(np.arange(len(block)), (n, len(block))), axis=1)
            moved[:, block.ravel()] = of_block[drawn].reshape(n, -1)
        reached += (moved @ placed >= observed - 1e-3).sum(axis=0)
    p_values: FloatArray = (1.0 + reached) / (1.0 + n_permutations)
    return p_values


def follow_up(
    patterns: dict[str, Any],
    scores: pd.DataFrame,
    people: pd.DataFrame,
    sensitive: Sequence[str],
    how: BenchmarkOptions,
    most: int | None,
    tick: Callable[[], None],
) -> list[dict[str, Any]]:
    """Return the disparities by each feature of the replicated rules, alone and with every sensitive attribute.

    most : features that are followed up; None: all. `tick` is called after each cut.
    """
    rules = (rule for rule in patterns.get("rules", ()) if rule["held"])
    names = list(dict.fromkeys(name for rule in rules for name in rule["features"]))
    followed = []
    for name in names[:most]:
        table, attribute = as_attribute(people, name)
        crossed = [(attribute, other) for other in sensitive if other != attribute]
        cuts = [Cut(attribute, (attribute,)), *(Cut(JOIN.join(by), by) for by in crossed)]
        block = benchmark(scores, table, cuts, replace(how, n_bootstrap=0), tick)
        rows = [
            {
                "cut": row["cut"],
                "groups": [
                    {k: g[k] for k in ("group", "n_subjects", "n_images", "mean")} for g in row["ours"]["groups"]
                ],
                "gap": row["ours"]["raw"],
                "chance": row["ours"]["null_mean"],
                "p": row["ours"]["adjusted_p"],
                "verdict": row["ours"]["verdict"],
                "worst": row["ours"]["worst_group"],
                "best": row["ours"]["best_group"],
                "disparity": (row["published"] or {}).get("disparity"),
            }
            for row in block["rows"]
        ]
        followed.append({"feature": name, "attribute": attribute, "rows": rows})
    return followed


def as_attribute(people: pd.DataFrame, feature: str) -> tuple[pd.DataFrame, str]:
    """Return people with a feature as an attribute: 0/1 becomes no and yes, another number its thirds."""
    import pandas as pd

    if feature in attribute_columns(people):
        return people, feature
    values = people[feature].to_numpy(dtype=np.float64)
    present = values[~np.isnan(values)]
    name, words, bounds = feature, ["no", "yes"], np.array([0.5])
    if not np.isin(present, (0.0, 1.0)).all():
        bounds = np.quantile(present, [1 / 3, 2 / 3])
        name, words = f"third_of_{feature}", [f"low (to {bounds[0]:.3g})", "middle", f"high (above {bounds[1]:.3g})"]
    cells = [[] if np.isnan(v) else [words[int(np.digitize(v, bounds, right=True))]] for v in values]
    return people.assign(**{ATTRIBUTE_PREFIX + name: pd.Series(cells, index=people.index, dtype="object")}), name
