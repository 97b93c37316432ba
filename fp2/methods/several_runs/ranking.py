"""Rank intervals of the models of a sweep: noise-corrected differences between groups, on the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fp2.extension import Fp2Error, LoggedRun, Verdict, variant_name
from fp2.methods.several_runs.ranked import Place, Ranking
from fp2.methods.several_runs.shared import SharedLines, n_people, same_probes, shared_lines, short_names

MIN_BOOTSTRAP = 2000


def rankings(runs: Sequence[LoggedRun], tick: Callable[[], None] = lambda: None) -> list[Ranking]:
    """Rank the runs of every cut and variant; `tick` is called after each of `n_rankings(runs)`."""
    boards = []
    for (cut, variant), members in _boards(runs).items():
        boards.append(_rank(members, cut, variant))
        tick()
    return boards


def n_rankings(runs: Sequence[LoggedRun]) -> int:
    """Return the number of rankings: one for each cut and variant."""
    return len(_boards(runs))


def _boards(runs: Sequence[LoggedRun]) -> dict[tuple[str, str | None], list[LoggedRun]]:
    boards: dict[tuple[str, str | None], list[LoggedRun]] = {}
    for run in runs:
        for cut in run.cuts:
            boards.setdefault((cut, variant_name(run.results)), []).append(run)
    return boards


def _rank(runs: Sequence[LoggedRun], cut: str, variant: str | None) -> Ranking:
    """Rank the runs of one cut, or say why they cannot be ranked."""
    from fp2.methods.several_runs.profiles import rank_models

    try:
        if len(runs) < 2:
            raise Fp2Error("there is only one run")
        first = runs[0]
        if any(run.cuts[cut] != first.cuts[cut] for run in runs):
            raise Fp2Error("the runs keep different groups of the cut")
        if any(run.primary != first.primary for run in runs):
            raise Fp2Error("the runs' composites are of different scorers")
        if any(run.scorers.get(first.primary) != first.scorers.get(first.primary) for run in runs):
            raise Fp2Error(f"the runs were scored by different versions of '{first.primary}'")
        probes, other_probes = same_probes(runs, first.primary)
        if other_probes or not probes:
            raise Fp2Error(f"the runs asked different probes ({', '.join(other_probes)})")
        shared_rows = shared_lines(runs, runs[0].cuts[cut], runs[0].primary, probes)
        names = short_names(runs)
        comparable, notes = _answering(runs, shared_rows, probes, cut, names)
        ranked = [runs[i] for i in comparable]
        for name, noun in (("alpha", "level"), ("seed", "seed")):
            used, *other_values = dict.fromkeys(run.results["analysis"][name] for run in ranked)
            if other_values:
                note = f"by {cut}: ranked with the {noun} of {ranked[0].run_id} ({used}); others have"
                notes.append(f"{note} {', '.join(map(str, other_values))}")
        analysis = [run.results["analysis"] for run in ranked]
        table = rank_models(
            shared_rows.values[list(comparable)], shared_rows.groups, shared_rows.subjects,
            [run.run_id for run in ranked], images=shared_rows.images,
            n_bootstrap=max(MIN_BOOTSTRAP, *(int(a["n_bootstrap"]) for a in analysis)), seed=int(analysis[0]["seed"]),
            alpha=_first(ranked, "alpha"), min_subjects=_least(ranked),
        )  # fmt: skip
        places = (Place(row.name, row.difference, row.rank_low, row.rank_high, row.letters) for row in table.rows)
        return Ranking(cut, variant, tuple(places), None, tuple(notes), _first(ranked, "alpha"))
    except Fp2Error as error:
        return Ranking(cut, variant, (), error.what, ())


def _answering(
    runs: Sequence[LoggedRun], shared_rows: SharedLines, probes: Sequence[str], cut: str, names: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the indices of the runs with enough answers to be ranked, and notes on the others and on the subjects."""
    notes = []
    total = [n_people(run) for run in runs]
    shared = len(set.intersection(*(set(run.people["subject_id"]) for run in runs)))
    if shared < max(total):
        span = f"{min(total)}" if min(total) == max(total) else f"{min(total)} to {max(total)}"
        notes.append(f"by {cut}: ranked on the {shared} subjects that all runs have (of {span})")
    comparable = []
    for i, run in enumerate(runs):
        few = [
            p
            for j, p in enumerate(probes)
            if _groups_with_answers(shared_rows, shared_rows.values[i, :, j], _least(runs)) < 2
        ]
        rows = [r for r in run.results["disparities"] if r["cut"] == cut and r["scorer"] == run.primary]
        constant = [r["probe"] for r in rows if r["verdict"] == Verdict.UNINFORMATIVE]
        if few:
            notes.append(f"by {cut}: {names[i]} is not ranked: too few answers to {', '.join(few)}")
        elif len(constant) == len(probes):
            notes.append(f"by {cut}: {names[i]} is not ranked: all its answers are the same")
        else:
            comparable.append(i)
            if constant:
                same = f"gives the same answer to everything in {', '.join(constant)}, which lowers its difference"
                notes.append(f"by {cut}: {names[i]} {same}")
    if len(comparable) < 2:
        raise Fp2Error("fewer than two runs have enough answers")
    return comparable, notes


def _first(runs: Sequence[LoggedRun], name: str) -> float:
    return float(runs[0].results["analysis"][name])


def _least(runs: Sequence[LoggedRun]) -> int:
    return max(int(run.results["analysis"]["min_subjects"]) for run in runs)


def _groups_with_answers(shared_rows: SharedLines, values: np.ndarray, minimum: int) -> int:
    """Return the number of groups in which at least `minimum` subjects have a value."""
    is_finite = np.isfinite(values)
    pairs = set(zip(shared_rows.groups[is_finite], shared_rows.subjects[is_finite], strict=True))
    sizes = np.unique([group for group, _ in pairs], return_counts=True)[1] if pairs else np.zeros(0)
    return int((sizes >= minimum).sum())
