"""Measurement error of the scorers by group, and disparities that allow for it (`analysis.labels`).

Scores are read as labels by the scorer's fixed thresholds, so that errors and means are on the scale of the labels. The
estimates are those of `fp2.methods.labels.correction`. An answer's label is the resolver's where there is one, else the
mean of the labellers'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from fp2.extension import REFUSAL, ComparedRun, Cut, Supplement, digest, members
from fp2.methods.labels.table import KEY, RESOLVER, agreed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.extension import Scorer
    from fp2.methods.labels.correction import Labelled

CONFIRMED, NOT_CONFIRMED, FOUND, NEITHER = "confirmed", "not_confirmed", "found_by_labels", "none"
MEANINGS = {
    CONFIRMED: "stands",
    NOT_CONFIRMED: "not confirmed",
    FOUND: "found with the labels only",
    NEITHER: "no difference found either way",
}


class MeasurementErrors(Supplement):
    """Errors of each labelled scorer by group, and the corrected disparities."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `measurement_error`, or None without labels."""
        from fp2.methods.labels.correction import LEAST_LABELLED

        labels = run.labels
        if labels is None or not len(labels) or not run.disparities:
            return None
        plain_rows = {(row["probe"], row["scorer"], row["cut"]): row for row in run.disparities}
        rows = [
            _row(run, labels, scorer, probe, cut, plain_rows.get((probe, scorer, cut.name), {}))
            for scorer in dict.fromkeys(labels["scorer"])
            if scorer in run.scorers
            for cut in run.cuts
            for probe in dict.fromkeys(labels.loc[labels["scorer"] == scorer, "probe"])
        ]
        if not rows:
            return None
        _correct(rows, run.comparison.alpha)
        labellers = _labellers(labels)
        numbers = labels[["probe", "scorer", "labeller", "label", "probability"]]
        kappa = [pair["kappa"] for one in labellers for pair in one["agreement"] if pair["kappa"] is not None]
        return {
            "alpha": run.comparison.alpha,
            "least_labelled": LEAST_LABELLED,
            "family": "all rows of this block, Holm; the tests of equal error are a family of their own",
            "labellers": labellers,
            "rows": rows,
            "headline": {
                "labels_digest": digest(sorted([*map(str, row)] for row in numbers.itertuples(index=False))),
                "labelled_answers": int(sum(one["n_answers"] for one in labellers)),
                "labellers": int(max(len(one["n_labels"]) for one in labellers)),
                "smallest_kappa": min(kappa, default=None),
                **{name: sum(row["outcome"] == name for row in rows) for name in MEANINGS},
                "error_differs": sum(bool(row["error_differs"]) for row in rows),
            },
        }


def _row(
    run: ComparedRun, labels: pd.DataFrame, scorer: str, probe: str, cut: Cut, plain_row: Mapping[str, Any]
) -> dict[str, Any]:
    import numpy as np

    from fp2.methods.labels.correction import class_rates, corrected_gap, error_gap

    own = agreed(labels[(labels["scorer"] == scorer) & (labels["probe"] == probe)])
    data, differ = _labelled(run, own, run.scorers[scorer], scorer, probe, cut)
    settings: dict[str, Any] = {"alpha": run.comparison.alpha, "min_subjects": run.comparison.min_subjects}
    found, error = corrected_gap(data, **settings), error_gap(data, **settings)
    absolute = error_gap(data, absolute=True, **settings)
    scale = run.scorers[scorer].label_scale
    rates = []
    if scale is not None and len(scale.values) <= 3:
        resolved = replace(data, label=np.where(differ, np.nan, np.asarray(data.label)))
        rates = [asdict(one) for one in class_rates(resolved, min_subjects=run.comparison.min_subjects)]
    lower, higher = found.pair or (None, None)
    groups = [  # the mean score stands for every group, errors where labels suffice
        {
            **asdict(group),
            "error": wrong.mean,
            "error_low": wrong.ci_low,
            "error_high": wrong.ci_high,
            "absolute_error": far.mean,
            "absolute_low": far.ci_low,
            "absolute_high": far.ci_high,
        }
        for group, wrong, far in zip(found.groups, error.groups, absolute.groups, strict=True)
    ]
    return {
        "probe": probe,
        "scorer": scorer,
        "cut": cut.name,
        "status": found.status,
        "n_labels": len(own),
        "plain_verdict": plain_row.get("verdict"),
        "plain_significant": plain_row.get("significant"),
        "plain_gap": plain_row.get("raw"),
        "plain_p": plain_row.get("adjusted_p"),
        "scored_gap": found.scored,
        "gap": found.gap,
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
        "p_value": found.p_value,
        "lower_group": lower,
        "higher_group": higher,
        "power_tuning": found.power,
        "gain": found.gain,
        "more_labels": found.more,
        "error_gap": error.gap,
        "error_p": error.p_value,
        "groups": groups,
        "classes": rates,
    }


def _labelled(
    run: ComparedRun, own: pd.DataFrame, scorer: Scorer, name: str, probe: str, cut: Cut
) -> tuple[Labelled, np.ndarray]:
    """Return the answers of one probe with their groups and labels, and on which of them the labellers differ."""
    import numpy as np

    from fp2.methods.labels.correction import Labelled

    scores = run.scores[(run.scores["scorer"] == name) & (run.scores["probe"] == probe)]
    if name != REFUSAL:
        scores = scores[~scores["refused"].astype(bool)]
    table = scores.merge(members(run.people, cut), on=["image_id", "subject_id"])
    table = table.join(own, on=KEY)
    scale, value = scorer.label_scale, table["value"].to_numpy(dtype="float64")
    data = Labelled(
        value if scale is None else scale.read(value),
        table["label"].to_numpy(dtype="float64"),
        table["probability"].to_numpy(dtype="float64"),
        table["group"].to_numpy(dtype=object),
        table["subject_id"].to_numpy(dtype=object),
        table["image_id"].to_numpy(dtype=object),
        0.0 if scale is None else scale.step,
    )
    return data, np.asarray(table["differ"] == True)  # noqa: E712  (missing where there is no label)


def _correct(rows: list[dict[str, Any]], alpha: float) -> None:
    """Add Holm's adjusted p-values over the rows, and what becomes of each plain verdict."""
    from statsmodels.stats.multitest import multipletests

    for name in ("p_value", "error_p"):
        known = [row for row in rows if row[name] is not None]
        adjusted = multipletests([row[name] for row in known], method="holm")[1] if known else []
        for row in rows:
            row[f"adjusted_{name.removesuffix('_value')}"] = None
        for row, p in zip(known, adjusted, strict=True):
            row[f"adjusted_{name.removesuffix('_value')}"] = float(p)
    for row in rows:
        p, before = row["adjusted_p"], bool(row["plain_significant"])
        now = p is not None and p <= alpha
        row["significant"] = now
        row["outcome"] = None
        if p is not None:
            row["outcome"] = (CONFIRMED if before else FOUND) if now else (NOT_CONFIRMED if before else NEITHER)
        e = row["adjusted_error_p"]
        row["error_differs"] = None if e is None else e <= alpha


def _labellers(labels: pd.DataFrame) -> list[dict[str, Any]]:
    """Return per scorer the number of labels of each labeller, and the agreement of every two."""
    from fp2.methods.labels.agreement import labeller_agreement

    out = []
    for scorer, own in labels.groupby("scorer", sort=False):
        wide = own.pivot(index=KEY, columns="labeller", values="label")
        names = [name for name in wide.columns if name != RESOLVER]
        pairs = []
        for k, (one, two) in enumerate(combinations(range(len(names)), 2)):
            both = wide[[names[one], names[two]]].dropna()
            if (found := labeller_agreement(both.iloc[:, 0], both.iloc[:, 1])) is not None:
                pairs.append({"pair": k + 1, **asdict(found)})
        resolved = int(wide[RESOLVER].notna().sum()) if RESOLVER in wide else 0
        out.append(
            {
                "scorer": str(scorer),
                "n_answers": len(wide),
                "n_resolved": resolved,
                "agreement": pairs,
                "n_labels": [int(wide[name].notna().sum()) for name in names],
            }
        )
    return out
