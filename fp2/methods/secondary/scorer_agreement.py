"""Agreement between scorers of one dimension, and which verdicts depend on the scorer.

Scorers that name the same dimension (`measures: valence`) are compared in pairs, over the answers of which both have a
value: how many there are, Spearman's rho, and where values have a sign or a class, how often it is the same, with
Cohen's kappa. A scorer that errs more often about one group makes a disparity. So two outcomes of each pair and probe
are tested by group, as one family: `same_class`, the share of answers with the same sign or class, and `difference`,
the first value minus the second as shares of their scales. The latter is whether the gap between groups depends on the
scorer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

from fp2.extension import REFUSAL, SCORE_KEYS, STEP_DOWN, ComparedRun, Outcome, Supplement, dimensions, outcome_columns
from fp2.methods.secondary.family import group_means, n_permutations, rate, tested

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Scorer

RESAMPLES = 400
"""The standard deviation over so many resamples has an error of 4 %."""
SMALLEST = 0.05
"""Smallest effect of interest: a difference of two shares of answers with the same class."""
SAME, DIFFERENCE = "same_class", "difference"


@dataclass(frozen=True)
class _Pair:
    """Two scorers of a dimension, and the answers that either scored, with their values: columns `first`, `second`.

    `kind`: what their classes are (columns `first_class`, `second_class`): `class` of two yes/no scorers, `sign` of two
    scales around 0, else None. `named`: the dimension and the names of the scorers.
    """

    named: Mapping[str, str]
    first: Scorer
    second: Scorer
    kind: str | None
    values: pd.DataFrame


class ScorerAgreement(Supplement):
    """Pairs of scorers of one dimension, tests of their agreement by group, and the verdicts of each scorer."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `scorer_agreement`; without pairs where every scorer measures something of its own."""
        if not run.disparities or run.battery.people != 1:
            return None
        scored = set(run.scores["scorer"])
        by_dimension = {
            dimension: present
            for dimension, names in dimensions(run.config.scorer).items()
            if (present := [name for name in names if name in scored and name in run.scorers])
        }
        block: dict[str, Any] = {"dimensions": by_dimension, "pairs": [], "tests": [], "verdicts": []}
        several = {dimension: names for dimension, names in by_dimension.items() if len(names) > 1}
        if not several:
            return block
        pairs = [pair for dimension, names in several.items() for pair in _pairs(run, dimension, names)]
        verdicts = [row for dimension, names in several.items() for row in _verdicts(run.disparities, dimension, names)]
        return block | {
            "unit": "answer; intervals and tests resample and permute subjects",
            "alpha": run.comparison.alpha,
            "n_bootstrap": RESAMPLES,
            "n_permutations": n_permutations(run),
            "correction": STEP_DOWN,
            "family": "all tests of this block, step-down max-T",
            "pairs": [line for pair in pairs for line in _agreement(pair, run)],
            "tests": _tests(pairs, run),
            "verdicts": verdicts,
            "metrics": {
                f"{dimension}.{name}": float(value)
                for dimension in several
                for name, value in summary(verdicts, dimension).items()
            },
        }


def summary(verdicts: Sequence[Mapping[str, Any]], dimension: str) -> dict[str, int]:
    """Return how many verdicts of a dimension there are and how many depend on the scorer.

    Directions and worst groups are counted where a scorer finds a significant difference: elsewhere they are chance.
    """
    rows = [row for row in verdicts if row["dimension"] == dimension]
    real = [row for row in rows if row["significant"]]
    return {
        "n_verdicts": len(rows),
        "n_verdict_depends": sum("verdict" in row["depends"] for row in rows),
        "n_significant": len(real),
        "n_direction_depends": sum("direction" in row["depends"] for row in real),
        "n_worst_group_depends": sum("worst_group" in row["depends"] for row in real),
    }


def _pairs(run: ComparedRun, dimension: str, names: Sequence[str]) -> Iterator[_Pair]:
    """Yield the pairs of scorers of a dimension, with values in the direction of the first."""
    import pandas as pd

    scores = run.scores[run.scores["scorer"].isin(names)]
    if REFUSAL not in names:
        scores = scores[~scores["refused"].astype(bool)]
    by_scorer = {name: scores_of.set_index(SCORE_KEYS)["value"] for name, scores_of in scores.groupby("scorer")}
    for one, other in combinations([name for name in names if name in by_scorer], 2):
        first, second = both = run.scorers[one], run.scorers[other]
        # of the probes that both score
        table = pd.concat([by_scorer[one].rename("first"), by_scorer[other].rename("second")], axis=1).reset_index()
        shared = set.intersection(*(set(by_scorer[name].index.get_level_values("probe")) for name in (one, other)))
        table = table[table["probe"].isin(shared)].reset_index(drop=True)
        if table.empty:
            continue
        if first.higher_is_better != second.higher_is_better:
            table["second"] = sum(second.value_range) - table["second"]
        signed = all(scorer.value_range[0] < 0 < scorer.value_range[1] for scorer in both)
        kind = "class" if all(scorer.yes_no for scorer in both) else "sign" if signed else None
        for end, scorer in zip(("first", "second"), both, strict=True):
            values, smallest = table[end], scorer.smallest_effect
            signs = (values >= smallest).astype("float64") - (values <= -smallest).astype("float64")
            table[f"{end}_class"] = signs if kind == "sign" else values
        yield _Pair({"dimension": dimension, "first": first.name, "second": second.name}, first, second, kind, table)


def _agreement(pair: _Pair, run: ComparedRun) -> Iterator[dict[str, Any]]:
    """Yield the agreement of a pair over all probes (`probe` None) and on each."""
    from fp2.methods.secondary.agreement import clustered_agreement

    probes = list(dict.fromkeys(pair.values["probe"]))
    for probe in [None, *probes] if len(probes) > 1 else probes:
        values = pair.values if probe is None else pair.values[pair.values["probe"] == probe]
        both = values.dropna(subset=["first", "second"])
        agreement = clustered_agreement(
            both["first"],
            both["second"],
            both["subject_id"],
            classes=None if pair.kind is None else (both["first_class"], both["second_class"]),
            n_bootstrap=RESAMPLES,
            seed=run.comparison.seed,
            alpha=run.comparison.alpha,
        )
        yield {
            **pair.named,
            "probe": probe,
            "classes": pair.kind,
            "n_answers": len(values),
            "n_both": agreement.n,
            "n_subjects": agreement.n_subjects,
            "coverage_first": float(values["first"].notna().mean()),
            "coverage_second": float(values["second"].notna().mean()),
            "rho": asdict(agreement.rho),
            "same_class": agreement.same,
            "kappa": None if agreement.kappa is None else asdict(agreement.kappa),
        }


def _tests(pairs: Sequence[_Pair], run: ComparedRun) -> list[dict[str, Any]]:
    """Return the tests by group of each pair, probe and cut."""
    import pandas as pd

    value_columns, outcomes = [], {}
    for number, pair in enumerate(pairs):
        # as the values of a scorer are: several questions of a probe are averaged
        both = pair.values.dropna(subset=["first", "second"]).assign(refused=False)
        if pair.kind is not None:
            same = (both["first_class"] == both["second_class"]).astype("float64")
            value_columns.append(both.assign(value=same, scorer=f"{number} {SAME}"))
            outcomes[f"{number} {SAME}"] = (pair, SAME, rate(SMALLEST, higher_is_better=True))
        share = _share(both["first"], pair.first) - _share(both["second"], pair.second)
        value_columns.append(both.assign(value=share, scorer=f"{number} {DIFFERENCE}"))
        smallest_effect = pair.first.smallest_effect / (pair.first.value_range[1] - pair.first.value_range[0])
        class_outcome = Outcome(smallest_effect=smallest_effect, bins=2)
        outcomes[f"{number} {DIFFERENCE}"] = (pair, DIFFERENCE, class_outcome)
    columns = outcome_columns(pd.concat(value_columns, ignore_index=True)) if value_columns else pd.DataFrame()
    names = cast("list[tuple[str, str]]", list(columns.columns))
    if not names:
        return []
    tests = tested(run, columns, [outcomes[key][2] for _, key in names])
    out = []
    for test in tests:
        probe, key = names[test.column]
        pair, outcome, about = outcomes[key]
        out.append(
            {
                **pair.named,
                "probe": probe,
                "cut": test.cut,
                "outcome": outcome,
                "raw": test.row.raw,
                "p_value": test.row.p_value,
                "adjusted_p": test.row.adjusted_p,
                "significant": test.row.significant,
                "family_size": len(tests),
                "smallest_effect": about.smallest_effect,
                "lowest_group": test.row.worst_group,
                "highest_group": test.row.best_group,
                "groups": group_means(test.row, "mean"),
            }
        )
    return out


def _share(values: pd.Series[float], scorer: Scorer) -> pd.Series[float]:
    low, high = scorer.value_range
    return (values - low) / (high - low)


def _verdicts(rows: Sequence[Mapping[str, Any]], dimension: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return what each scorer concludes of every probe and cut that several of them have, and what depends on it."""
    by_key: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["scorer"] in names:
            by_key.setdefault((row["probe"], row["cut"]), {})[row["scorer"]] = row
    keys = ("raw", "p_value", "adjusted_p", "significant", "verdict", "worst_group", "best_group")
    return [
        {
            "dimension": dimension,
            "probe": probe,
            "cut": cut,
            "scorers": {name: {key: rows_of_key[name][key] for key in keys} for name in names if name in rows_of_key},
            "significant": any(bool(row["significant"]) for row in rows_of_key.values()),
            "depends": _depends(list(rows_of_key.values())),
        }
        for (probe, cut), rows_of_key in by_key.items()
        if len(rows_of_key) > 1
    ]


def _depends(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return which of `verdict`, `direction` and `worst_group` differ between the scorers' rows.

    The direction: two scorers order the worst and the best group of either of them differently.
    """
    means = [{group["group"]: group["mean"] for group in row["groups"]} for row in rows]
    ends = [
        (of_row.get(row["worst_group"]), of_row.get(row["best_group"])) for of_row, row in zip(means, rows, strict=True)
    ]
    upward = [low is None or high is None or high >= low for low, high in ends]
    turned = False
    for row, row_means in zip(rows, means, strict=True):
        worst, best = row["worst_group"], row["best_group"]
        pairs = [mean for mean in means if mean.get(worst) is not None and mean.get(best) is not None]
        if row_means in pairs:
            # the sign of a scorer's own gap is that of its bad end; another's is compared through its own direction
            signs = {
                (other[best] - other[worst] > 0) == rises
                for other, rises in zip(means, upward, strict=True)
                if other in pairs and other[best] != other[worst]
            }
            turned = turned or len(signs) > 1
    entry = {
        "verdict": len({row["verdict"] for row in rows}) > 1,
        "direction": turned,
        "worst_group": len({row["worst_group"] for row in rows if row["worst_group"] is not None}) > 1,
    }
    return [name for name, differs in entry.items() if differs]
