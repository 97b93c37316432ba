"""The attributes that rules name, looked into: their own disparity, and crossed with each sensitive attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.cuts import JOIN, Cut
from fp2.protocols.fhibe.scores.benchmark import BenchmarkOptions, benchmark
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

THIRDS = "third_of_"


def look_into(
    patterns: dict[str, Any], scores: pd.DataFrame, people: pd.DataFrame, sensitive: Sequence[str],
    how: BenchmarkOptions, most: int | None, tick: Callable[[], None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return for the features of the rules that held (the first `most`, None: all) the disparities by them."""
    names: list[str] = []
    for rule in patterns.get("rules", ()):
        if rule["held"]:
            names += [name for name in rule["features"] if name not in names]
    found = []
    for name in names[:most]:
        table, attribute = as_attribute(people, name)
        single = Cut(attribute, (attribute,))
        crossed = [Cut(JOIN.join((attribute, other)), (attribute, other)) for other in sensitive if other != attribute]
        block = benchmark(scores, table, [single, *crossed], replace(how, n_bootstrap=0), tick)
        found.append({"feature": name, "attribute": attribute, "rows": [_row(row) for row in block["rows"]]})
    return found


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "cut": row["cut"],
        "groups": [{k: g[k] for k in ("group", "n_subjects", "n_images", "mean")} for g in row["ours"]["groups"]],
        "gap": row["ours"]["raw"],
        "chance": row["ours"]["null_mean"],
        "p": row["ours"]["adjusted_p"],
        "verdict": row["ours"]["verdict"],
        "worst": row["ours"]["worst_group"],
        "best": row["ours"]["best_group"],
        "disparity": (row["published"] or {}).get("disparity"),
    }


def as_attribute(people: pd.DataFrame, feature: str) -> tuple[pd.DataFrame, str]:
    """Return people with a feature as an attribute: a number becomes its thirds, 0/1 becomes no and yes."""
    import pandas as pd

    if feature in attribute_columns(people):
        return people, feature
    values = people[feature].to_numpy(dtype=np.float64)
    known = values[~np.isnan(values)]
    name, words, cuts = feature, ["no", "yes"], np.array([0.5])
    if not np.isin(known, (0.0, 1.0)).all():
        cuts = np.quantile(known, [1 / 3, 2 / 3])
        name, words = THIRDS + feature, [f"low (to {cuts[0]:.3g})", "middle", f"high (above {cuts[1]:.3g})"]
    cells = [[] if np.isnan(v) else [words[int(np.digitize(v, cuts, right=True))]] for v in values]
    table = people.copy()
    table[ATTRIBUTE_PREFIX + name] = pd.Series(cells, index=people.index, dtype="object")
    return table, name
