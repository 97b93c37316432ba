"""Two runs: the distance of their fingerprints per cut and scorer, and where they differ most.

Runs that share subjects are compared on those, within subjects; runs about different subjects as two independent
samples (`fp2.methods.several_runs.two_samples`). A fingerprint is the profile of group means, centred within each probe
(`fp2.methods.several_runs.distance`): a model that rates all groups higher by the same amount has the same fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import KEYS, MIN_CELL, Fp2Error, LoggedRun, calibration_of, cut_label, scorer_version
from fp2.methods.several_runs.shared import (
    STOPPING,
    SharedLines,
    are_independent,
    asked_people,
    n_people,
    same_probes,
    shared_lines,
    short_names,
)
from fp2.methods.several_runs.stopped import looks_words, order_words, repeated, stated_orders

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import BoolArray, Config, Cut
    from fp2.methods.several_runs.distance import FingerprintDistance
    from fp2.methods.several_runs.two_samples import ModelOutcomes

N_PERMUTATIONS = 10_000
_NUMBERS = ("distance", "ci_low", "ci_high", "null_mean", "null_p95", "p_value", "correlation")


@dataclass(frozen=True)
class CompareSettings:
    """Numbers of permutations and bootstrap resamples, level, seed, and the fewest subjects of a group."""

    n_permutations: int
    n_bootstrap: int
    seed: int
    alpha: float = 0.05
    min_subjects: int = 10


def settings_of(config: Config, runs: Sequence[LoggedRun]) -> CompareSettings:
    """Return the settings of comparing runs; of their fewest subjects of a group, the largest number counts."""
    return CompareSettings(
        n_permutations=config.analysis.permutations or N_PERMUTATIONS,
        n_bootstrap=config.analysis.bootstrap,
        seed=config.seed,
        alpha=config.analysis.alpha,
        min_subjects=max(int(run.results["analysis"]["min_subjects"]) for run in runs),
    )


def compare(
    first: LoggedRun, second: LoggedRun, settings: CompareSettings, start: Callable[[int], Callable[[], None]]
) -> dict[str, Any]:
    """Compare two runs and return a JSON-ready block (aggregates only).

    `start(n)` is called with the number of steps; what it returns is called after each.

    Returns
    -------
    dict
        `first`, `second`: the runs; `samples`: `shared` or `independent`; `shared`: subjects and images of both;
        `primary`: the primary scorer; `orders`: what a run with `answers.stop=order` decided of the other;
        `distances`: one row per cut and scorer with `by_probe`; `profiles`: centred group means of the primary scorer,
        one row per cut, probe and group of enough subjects; `family`: what p-values are corrected over; `notes`.
    """
    runs = (first, second)
    cuts, scorers = common(runs)
    notes = list(_left_out(runs, cuts, scorers))
    chosen = {scorer: same_probes(runs, scorer) for scorer in scorers}
    if not any(same for same, _ in chosen.values()):
        if asked_by_both := sorted(set(first.probes) & set(second.probes)):
            problem = f"the runs asked {', '.join(asked_by_both)} with different texts: nothing can be compared"
            raise Fp2Error(problem)
        ours, theirs = ", ".join(first.probes), ", ".join(second.probes)
        raise Fp2Error(f"the runs asked different probes: {ours} in the first, {theirs} in the second")
    if reason := chosen[scorers[0]][1]:
        notes.append(f"Excluded, asked by one run only or with another text: {', '.join(reason)}.")
    tick = start(len(cuts) * len(scorers))
    rows, profiles = [], []
    independent = are_independent(runs)
    measure = _independent if independent else _shared_subjects
    for scorer in scorers:
        for cut in cuts:
            probes = chosen[scorer][0]
            if probes:
                distance, means = measure(runs, cut, scorer, probes, settings)
                rows.append(_row(distance, cut.name, scorer, probes))
                for tested in (rows[-1], *rows[-1]["by_probe"]):
                    if tested["p_value"] is not None:
                        tested["p_value"] = repeated(tested["p_value"], runs)
                if scorer == scorers[0]:
                    profiles += means
            tick()
    adjust_distances(rows)
    names = short_names(runs)
    orders = stated_orders(runs)
    notes += [
        f"{looks_words(run, name)}: p-values are repeated over its looks, intervals are not."
        for run, name in zip(runs, names, strict=True)
        if STOPPING in run.results
    ]
    by_id = dict(zip((run.run_id for run in runs), names, strict=True))
    notes += [f"By {cut_label(order['cut'])}, {order_words(order, by_id)}." for order in orders]
    labels = {probe["id"]: str(probe.get("label") or probe["id"]) for probe in first.results["probes"]}
    return {
        "first": _who(first, names[0]),
        "second": _who(second, names[1]),
        "samples": "independent" if independent else "shared",
        "shared": _shared(runs, notes),
        "primary": scorers[0],
        "probes": {probe: labels.get(probe, probe) for probe in chosen[scorers[0]][0]},
        "family": "Holm over the cuts of one scorer; for single probes over its probes x cuts",
        "settings": asdict(settings),
        "distances": rows,
        "profiles": profiles,
        **({"orders": orders} if orders else {}),
        "notes": notes,
    }


def common(runs: Sequence[LoggedRun]) -> tuple[list[Cut], list[str]]:
    """Return the cuts and the scorers (of the same version) that two runs have in common, primary scorers first."""
    first, second = runs
    cuts = [cut for name, cut in first.cuts.items() if second.cuts.get(name) == cut]
    if not cuts:
        ours, theirs = ", ".join(first.cuts), ", ".join(second.cuts)
        raise Fp2Error(f"the runs have no cut in common: {ours} in the first, {theirs} in the second")
    scorers = [name for name, version in first.scorers.items() if second.scorers.get(name) == version]
    if not scorers:
        if set(first.scorers) & set(second.scorers):
            fix = "Score one of them again with fp2 rescore"
            raise Fp2Error("the runs have no scorer of the same version in common", fix=fix)
        ours, theirs = ", ".join(first.scorers), ", ".join(second.scorers)
        raise Fp2Error(f"the runs have no scorer in common: {ours} in the first, {theirs} in the second")
    return cuts, sorted(scorers, key=lambda name: name not in (first.primary, second.primary))


def _left_out(runs: Sequence[LoggedRun], cuts: Sequence[Cut], scorers: Sequence[str]) -> Iterator[str]:
    """Yield what is not compared, as scorers of one run only, and which primary scorer is not shown first."""
    first, second = runs
    for label, ours, theirs, shared in (
        ("scorers", first.scorers, second.scorers, set(scorers)),
        ("cuts", first.cuts, second.cuts, {cut.name for cut in cuts}),
    ):
        names = [name for name in dict.fromkeys([*ours, *theirs]) if name not in shared]
        if single := [name for name in names if not (name in ours and name in theirs)]:
            yield f"Left out, {label} of one run only: {', '.join(single)}."
        for name in names:
            if name not in single and label == "cuts":
                yield f"Left out, a cut with other groups in each run: {name}."
            elif name not in single:
                rows = (row for run in runs for row in run.results["scorers"] if row["name"] == name)
                yield f"Left out, a scorer of different versions: {name} ({' and '.join(map(scorer_version, rows))})."
    primaries, shown = list(dict.fromkeys(run.primary for run in runs)), scorers[0]
    if len(primaries) > 1:
        other = next(name for name in primaries if name != shown)
        yield f"The runs have different primary scorers; shown first: {shown} (not {other})."
    elif primaries != [shown]:
        yield f"The primary scorer, {primaries[0]}, is not compared; shown first: {shown}."


Found = tuple["FingerprintDistance", list[dict[str, Any]]]
"""The distance, and the group means of each run (see `_profiles`)."""


def _shared_subjects(
    runs: Sequence[LoggedRun], cut: Cut, scorer: str, probes: Sequence[str], s: CompareSettings
) -> Found:
    from fp2.methods.several_runs.distance import fingerprint_distance

    shared_rows = shared_lines(runs, cut, scorer, probes)
    distance = fingerprint_distance(
        shared_rows.values[0],
        shared_rows.values[1],
        shared_rows.groups,
        shared_rows.subjects,
        images=shared_rows.images,
        n_permutations=s.n_permutations,
        n_bootstrap=s.n_bootstrap,
        seed=s.seed,
        alpha=s.alpha,
        min_subjects=s.min_subjects,
    )
    return distance, _profiles(shared_rows, cut.name, probes, s)


def _independent(runs: Sequence[LoggedRun], cut: Cut, scorer: str, probes: Sequence[str], s: CompareSettings) -> Found:
    import pandas as pd

    from fp2.methods.several_runs.two_samples import independent_distance

    first, second = (_sample(run, cut, scorer, probes) for run in runs)
    distance = independent_distance(
        first,
        second,
        n_permutations=s.n_permutations,
        n_bootstrap=s.n_bootstrap,
        seed=s.seed,
        alpha=s.alpha,
        min_subjects=s.min_subjects,
    )
    rows = []
    for j, probe in enumerate(probes):
        profiles = []
        for sample in (first, second):
            value = np.asarray(sample.values)[:, j]
            table = pd.DataFrame({"group": sample.groups, "subject": sample.subjects, "value": value}).dropna()
            people = table.groupby(["group", "subject"], sort=True)["value"].mean()
            profiles.append(people.groupby("group").agg(["mean", "size"]))
        both = profiles[0].join(profiles[1], how="inner", lsuffix="_first", rsuffix="_second")
        means = {run: both[f"mean_{run}"] for run in ("first", "second")}
        sizes = both[["size_first", "size_second"]].min(axis=1)
        rows += _centred(means, sizes, cut.name, probe, s)
    return distance, rows


def _sample(run: LoggedRun, cut: Cut, scorer: str, probes: Sequence[str]) -> ModelOutcomes:
    """Return the values of one run with the groups of a cut."""
    from fp2.extension import entries_of, members, with_present_values
    from fp2.methods.several_runs.two_samples import ModelOutcomes

    table = members(run.people, with_present_values(run.people, cut))
    entries = entries_of(run.wide(scorer)[list(probes)], table)
    return ModelOutcomes(entries.values, entries.groups, entries.subjects, entries.images)


def _row(distance: FingerprintDistance, cut: str, scorer: str, probes: Sequence[str]) -> dict[str, Any]:
    by_probe = [
        {"probe": probe, **asdict(entry)}
        for probe, entry in zip(probes, distance.by_outcome, strict=True)
        if entry is not None
    ]
    return {
        "cut": cut,
        "scorer": scorer,
        **{name: getattr(distance, name) for name in _NUMBERS},
        "n_subjects": distance.n_subjects,
        "n_probes": distance.n_outcomes,
        "groups": list(distance.groups),
        "by_probe": by_probe,
    }


def adjust_distances(rows: Sequence[dict[str, Any]]) -> None:
    """Add `adjusted_p` to every row and every entry of a probe, corrected over the rows of each scorer."""
    from fp2.extension import adjust_p_values

    for scorer in dict.fromkeys(row["scorer"] for row in rows):
        rows_of_scorer = [row for row in rows if row["scorer"] == scorer]
        for family in (rows_of_scorer, [entry for row in rows_of_scorer for entry in row["by_probe"]]):
            for entry, p in zip(family, adjust_p_values([entry["p_value"] for entry in family]), strict=True):
                entry["adjusted_p"] = p


def _profiles(
    shared_rows: SharedLines, cut: str, probes: Sequence[str], settings: CompareSettings
) -> list[dict[str, Any]]:
    """Return the group means (over subjects with a value in both runs) of each run, minus their mean over groups."""
    import pandas as pd

    both: BoolArray = np.asarray(np.isfinite(shared_rows.values).all(axis=0))
    rows = []
    for j, probe in enumerate(probes):
        table = pd.DataFrame(
            {
                "group": shared_rows.groups,
                "subject": shared_rows.subjects,
                "first": shared_rows.values[0, :, j],
                "second": shared_rows.values[1, :, j],
            }
        )[both[:, j]]
        people = table.groupby(["group", "subject"], sort=True).mean()
        groups = people.groupby("group").agg(["mean", "size"])
        means = {run: groups[run, "mean"] for run in ("first", "second")}
        rows += _centred(means, groups["first", "size"], cut, probe, settings)
    return rows


def _centred(
    means: dict[str, pd.Series], sizes: pd.Series, cut: str, probe: str, settings: CompareSettings
) -> list[dict[str, Any]]:
    """Return the rows of one probe: groups of enough subjects, their means less the mean over groups."""
    groups = sizes[sizes >= max(settings.min_subjects, MIN_CELL)].index
    if len(groups) < 2:
        return []
    centred = {run: mean[groups] - mean[groups].mean() for run, mean in means.items()}
    return [
        {
            "cut": cut,
            "probe": probe,
            "group": str(group),
            "n_subjects": int(sizes[group]),
            "first": float(centred["first"][group]),
            "second": float(centred["second"][group]),
        }
        for group in groups
    ]


def _shared(runs: Sequence[LoggedRun], notes: list[str]) -> dict[str, int]:
    people = [asked_people(run)[KEYS] for run in runs]
    both = people[0].merge(people[1])
    n, total = int(both["subject_id"].nunique()), [n_people(run) for run in runs]
    if are_independent(runs):
        notes.append(
            f"The runs share no subject: {total[0]} and {total[1]} subjects are compared as two independent samples. "
            "A difference may come from the models or from the samples, if these were drawn differently."
        )
    elif n < max(total):
        notes.append(f"Compared on the {n} subjects of both runs; the first has {total[0]}, the second {total[1]}.")
    return {
        "n_subjects": n,
        "n_images": int(both["image_id"].nunique()),
        "n_subjects_first": total[0],
        "n_subjects_second": total[1],
    }


def _who(run: LoggedRun, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "run_id": run.run_id,
        "created": run.results["created"],
        "dataset": run.results["dataset"]["name"],
        "config_hash": run.results["config_hash"],
        "response_set": run.results["response_set"],
        "complete": bool(run.results["complete"]),
        **calibration_of(run.results),
    }
