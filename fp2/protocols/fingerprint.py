"""The bias fingerprint: every probe x scorer x cut compared between groups, and the composite of each cut.

A score counts only when the model answered: refusals are an outcome of their own (scorer `refusal`), and never enter
the mean of another scorer. The unit is the subject throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.errors import Fp2Error, nearest

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.scorers.base import Scorer
    from fp2.stats import CompositeTest, DisparityRow

REFUSAL = "refusal"
SEVERITIES = ("none", "low", "moderate", "high")


def composite(disparities: Mapping[str, float]) -> float:
    """Return the plain mean of the disparities given (probe -> max-min), as the Fingerprint² page defines it.

    Raises
    ------
    ValueError
        If there is none.

    Examples
    --------
    >>> round(composite({"occupation": 0.020, "education": 0.020, "trust": 0.029}), 3)
    0.023
    """
    if not disparities:
        raise ValueError("a composite needs at least one disparity")
    return float(sum(disparities.values()) / len(disparities))


def severity(excess: float | None, bounds: Mapping[str, float]) -> str | None:
    """Return `none`, `low`, `moderate` or `high` for a composite's excess over chance; each bound opens its level."""
    if excess is None:
        return None
    reached = [level for level in SEVERITIES[1:] if excess >= bounds[level]]
    return reached[-1] if reached else "none"


@dataclass(frozen=True)
class Comparison:
    """How groups are compared: the `analysis` config, and the seed."""

    alpha: float
    correction: str
    family: str
    primary: str
    min_subjects: int
    n_permutations: int
    n_bootstrap: int
    seed: int


@dataclass(frozen=True)
class Fingerprint:
    """`disparities`: one row per probe x scorer x cut; `composites`: the primary scorer's, per cut."""

    disparities: list[dict[str, Any]]
    composites: dict[str, dict[str, Any]]
    coverage: list[dict[str, Any]]


def fingerprint(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    scorers: Mapping[str, Scorer],
    comparison: Comparison,
    bounds: Mapping[str, float],
    tick: Callable[[], None] = lambda: None,
) -> Fingerprint:
    """Compare groups on every score.

    Parameters
    ----------
    scores, people : DataFrame
        The scores table and the people that were asked about.
    cuts : sequence of Cut
        The first one's composite is the run's.
    scorers : mapping
        Name -> scorer: direction, scale and smallest effect come from it.
    comparison : Comparison
        Level, correction, sizes, seed.
    bounds : mapping
        Severity bounds on the composite's excess.
    tick : callable
        Told after each cut.

    Raises
    ------
    Fp2Error
        If the primary scorer was not run (no composite without it) and is not a known name.
    """
    if comparison.primary not in scorers and comparison.primary not in ("valence",):
        raise Fp2Error(f"unknown scorer {comparison.primary!r}", where="analysis.primary", fix=nearest(comparison.primary, scorers))
    wide = outcome_columns(scores)
    rows: list[tuple[str, str, str, DisparityRow]] = []
    composites: dict[str, dict[str, Any]] = {}
    coverage: list[dict[str, Any]] = []
    for cut in cuts:
        entries = _entries(wide, people, cut)
        panel = _panel(entries, list(wide.columns), scorers, comparison)
        rows += [(probe, scorer, cut.name, row) for (probe, scorer), row in zip(wide.columns, panel.rows, strict=True)]
        composites[cut.name] = _composite(panel, list(wide.columns), comparison.primary, bounds)
        coverage += _coverage(entries, list(wide.columns), cut.name)
        tick()
    return Fingerprint(_adjusted(rows, comparison), composites, coverage)


def outcome_columns(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores as (image_id, subject_id) x (probe, scorer), missing where refused, failed or not scorable.

    Several questions of one probe about one image are averaged first.
    """
    import numpy as np

    value = scores["value"].where((scores["scorer"] == REFUSAL) | ~scores["refused"].astype(bool), np.nan)
    keyed = scores.assign(value=value)[["image_id", "subject_id", "probe", "scorer", "value"]]
    means = keyed.groupby(["image_id", "subject_id", "probe", "scorer"], sort=False)["value"].mean()
    order = list(dict.fromkeys(zip(scores["probe"], scores["scorer"], strict=True)))
    wide = means.unstack(["probe", "scorer"])
    return wide[sorted(order, key=lambda pair: order.index(pair))]


@dataclass(frozen=True)
class _Entries:
    """One line per (image, group): arrays for the panel."""

    values: np.ndarray
    groups: np.ndarray
    subjects: np.ndarray
    images: np.ndarray


def _entries(wide: pd.DataFrame, people: pd.DataFrame, cut: Cut) -> _Entries:
    from fp2.cuts import memberships

    table = memberships(people, cut)
    if table.empty:
        raise Fp2Error(f"nobody has a value for the cut {cut.name!r}", where="cut")
    found = wide.reindex(list(zip(table["image_id"], table["subject_id"], strict=True)))
    return _Entries(
        found.to_numpy(dtype="float64"),
        table["group"].to_numpy(dtype=object),
        table["subject_id"].to_numpy(dtype=object),
        table["image_id"].to_numpy(dtype=object),
    )


def _panel(entries: _Entries, columns: list[tuple[str, str]], scorers: Mapping[str, Scorer], c: Comparison) -> Any:
    from fp2.stats import disparity_panel

    used = [scorers[scorer] for _, scorer in columns]
    return disparity_panel(
        entries.values,
        entries.groups,
        entries.subjects,
        images=entries.images,
        higher_is_better=[s.higher_is_better for s in used],
        value_ranges=[s.value_range for s in used],
        bins=[len(s.bins) - 1 for s in used],
        yes_no=[s.yes_no for s in used],
        smallest_effects=[s.smallest_effect for s in used],
        n_permutations=c.n_permutations,
        n_bootstrap=c.n_bootstrap,
        seed=c.seed,
        alpha=c.alpha,
        min_subjects=c.min_subjects,
    )


def _composite(panel: Any, columns: list[tuple[str, str]], primary: str, bounds: Mapping[str, float]) -> dict[str, Any]:
    """Return the composite of the primary scorer over the probes present, with its joint-permutation test (A5)."""
    from fp2.stats import composite_test

    chosen = [j for j, (_, scorer) in enumerate(columns) if scorer == primary]
    test: CompositeTest = composite_test(panel, chosen)
    present = {columns[j][0]: panel.rows[j].raw for j in chosen if panel.rows[j].raw is not None}
    return {
        "value": composite(present) if present else None,
        "null_mean": test.null_mean,
        "null_p95": test.null_p95,
        "excess": test.excess,
        "p_value": test.p_value,
        "severity": severity(test.excess, bounds),
        "probes": list(present),
    }


def _coverage(entries: _Entries, columns: list[tuple[str, str]], cut: str) -> list[dict[str, Any]]:
    """Return per group and outcome how many pictures have a value: parse failures and unmatched texts show here."""
    import numpy as np

    out = []
    for group in sorted(set(entries.groups)):
        here = entries.groups == group
        counts = (~np.isnan(entries.values[here])).sum(axis=0)
        out += [
            {"cut": cut, "group": group, "probe": probe, "scorer": scorer, "n_images": int(here.sum()), "with_value": int(n)}
            for (probe, scorer), n in zip(columns, counts, strict=True)
        ]
    return out


def _adjusted(rows: list[tuple[str, str, str, DisparityRow]], c: Comparison) -> list[dict[str, Any]]:
    """Correct each family and return plain rows. `family=scorer`: all probes x cuts of one scorer; `run`: all rows."""
    from fp2.stats import adjust

    families: dict[str, list[int]] = {}
    for place, (_, scorer, _, _) in enumerate(rows):
        families.setdefault("run" if c.family == "run" else scorer, []).append(place)
    out: list[dict[str, Any]] = [{} for _ in rows]
    for members in families.values():
        for place, row in zip(members, adjust([rows[i][3] for i in members], c.correction, c.alpha), strict=True):
            probe, scorer, cut, _ = rows[place]
            out[place] = {"probe": probe, "scorer": scorer, "cut": cut, "family_size": len(members), **row.to_dict()}
    return out


def answers_by_group(answers: pd.DataFrame, scores: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut]) -> list[dict[str, Any]]:
    """Return planned, answered, refused and failed answers per cut and group (missing answers can be a bias too)."""
    import pandas as pd

    from fp2.cuts import memberships

    flags = scores.drop_duplicates(["image_id", "question_id"])[["image_id", "question_id", "refused"]]
    table = answers[["image_id", "subject_id", "question_id", "status"]].merge(flags, how="left", on=["image_id", "question_id"])
    table["refused"] = table["refused"].eq(True)
    table["failed"] = table["status"] != "answered"
    out: list[dict[str, Any]] = []
    for cut in cuts:
        merged = table.merge(memberships(people, cut), on=["image_id", "subject_id"])
        for group, part in merged.groupby("group", sort=True):
            failed = int(part["failed"].sum())
            out.append(
                {
                    "cut": cut.name,
                    "group": str(group),
                    "planned": len(part),
                    "answered": len(part) - failed,
                    "refused": int(part["refused"].sum()),
                    "failed": failed,
                }
            )
    return out
