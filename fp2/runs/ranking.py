"""Rank intervals of the models of a sweep: noise-corrected differences between groups, on the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fp2.errors import Fp2Error
from fp2.report.leaderboard import Place, Ranking
from fp2.report.reading import variant_name
from fp2.runs.reader import LoggedRun, SharedLines, n_people, same_probes, shared_lines, short_names
from fp2.verdicts import Verdict

MIN_BOOTSTRAP = 2000


def rankings(runs: Sequence[LoggedRun], tick: Callable[[], None] = lambda: None) -> list[Ranking]:
    """Rank the runs of every cut and variant; `tick` is called after each of `n_rankings(runs)`."""
    found = []
    for (cut, variant), members in _boards(runs).items():
        found.append(_rank(members, cut, variant))
        tick()
    return found


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
    try:
        probes = _comparable(runs, cut)
        lines = shared_lines(runs, runs[0].cuts[cut], runs[0].primary, probes)
        names = short_names(runs)
        kept, notes = _answering(runs, lines, probes, cut, names)
        ranked = [runs[i] for i in kept]
        notes += _settings_apart(ranked, cut)
        return Ranking(cut, variant, _places(ranked, lines, kept), None, tuple(notes), _first(ranked, "alpha"))
    except Fp2Error as error:
        return Ranking(cut, variant, (), error.what, ())


def _comparable(runs: Sequence[LoggedRun], cut: str) -> list[str]:
    """Return the probes that all runs asked; raise if the runs cannot be ranked together."""
    if len(runs) < 2:
        raise Fp2Error("there is only one run")
    first = runs[0]
    if any(run.cuts[cut] != first.cuts[cut] for run in runs):
        raise Fp2Error("the runs keep different groups of the cut")
    if any(run.primary != first.primary for run in runs):
        raise Fp2Error("the runs' composites are of different scorers")
    if any(run.scorers.get(first.primary) != first.scorers.get(first.primary) for run in runs):
        raise Fp2Error(f"the runs were scored by different versions of '{first.primary}'")
    probes, others = same_probes(runs, first.primary)
    if others or not probes:
        raise Fp2Error(f"the runs asked different probes ({', '.join(others)})")
    return probes


def _answering(
    runs: Sequence[LoggedRun], lines: SharedLines, probes: Sequence[str], cut: str, names: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the indices of the runs with enough answers to be ranked, and notes on the others and on the subjects."""
    notes = []
    total = [n_people(run) for run in runs]
    shared = len(set.intersection(*(set(run.people["subject_id"]) for run in runs)))
    if shared < max(total):
        span = f"{min(total)}" if min(total) == max(total) else f"{min(total)} to {max(total)}"
        notes.append(f"by {cut}: ranked on the {shared} subjects that all runs have (of {span})")
    kept = []
    for i, run in enumerate(runs):
        few = [p for j, p in enumerate(probes) if _groups_with_answers(lines, lines.values[i, :, j], _least(runs)) < 2]
        rows = [r for r in run.results["disparities"] if r["cut"] == cut and r["scorer"] == run.primary]
        constant = [r["probe"] for r in rows if r["verdict"] == Verdict.UNINFORMATIVE]
        if few:
            notes.append(f"by {cut}: {names[i]} is not ranked: too few answers to {', '.join(few)}")
        elif len(constant) == len(probes):
            notes.append(f"by {cut}: {names[i]} is not ranked: all its answers are the same")
        else:
            kept.append(i)
            if constant:
                same = f"gives the same answer to everything in {', '.join(constant)}, which lowers its difference"
                notes.append(f"by {cut}: {names[i]} {same}")
    if len(kept) < 2:
        raise Fp2Error("fewer than two runs have enough answers")
    return kept, notes


def _first(runs: Sequence[LoggedRun], name: str) -> float:
    return float(runs[0].results["analysis"][name])


def _settings_apart(runs: Sequence[LoggedRun], cut: str) -> list[str]:
    """Return a note on each setting in which the runs differ; that of the first run is used."""
    found = []
    for name, what in (("alpha", "level"), ("seed", "seed")):
        first, *others = dict.fromkeys(run.results["analysis"][name] for run in runs)
        if others:
            line = f"by {cut}: ranked with the {what} of {runs[0].run_id} ({first}); others have"
            found.append(f"{line} {', '.join(map(str, others))}")
    return found


def _least(runs: Sequence[LoggedRun]) -> int:
    return max(int(run.results["analysis"]["min_subjects"]) for run in runs)


def _groups_with_answers(lines: SharedLines, values: np.ndarray, least: int) -> int:
    """Return the number of groups in which at least `least` subjects have a value."""
    known = np.isfinite(values)
    pairs = set(zip(lines.groups[known], lines.subjects[known], strict=True))
    sizes = np.unique([group for group, _ in pairs], return_counts=True)[1] if pairs else np.zeros(0)
    return int((sizes >= least).sum())


def _places(runs: Sequence[LoggedRun], lines: SharedLines, kept: Sequence[int]) -> tuple[Place, ...]:
    from fp2.stats.profiles import rank_models

    analysis = [run.results["analysis"] for run in runs]
    table = rank_models(
        lines.values[list(kept)], lines.groups, lines.subjects, [run.run_id for run in runs], images=lines.images,
        n_bootstrap=max(MIN_BOOTSTRAP, *(int(a["n_bootstrap"]) for a in analysis)), seed=int(analysis[0]["seed"]),
        alpha=_first(runs, "alpha"), min_subjects=_least(runs),
    )  # fmt: skip
    return tuple(Place(row.name, row.difference, row.rank_low, row.rank_high, row.letters) for row in table.rows)
