"""Rank intervals of the models of a sweep: noise-corrected differences between groups, on the same resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fp2.extension import Fp2Error, LoggedRun, Verdict, variant_name
from fp2.methods.several_runs.ranked import Ranking
from fp2.methods.several_runs.shared import (
    STOPPING,
    SharedLines,
    asked_people,
    n_people,
    same_probes,
    shared_lines,
    short_names,
)
from fp2.methods.several_runs.stopped import looks_words, order_words, repeated, stated_orders

if TYPE_CHECKING:
    from fp2.extension import FloatArray
    from fp2.methods.several_runs.profiles import Profiles, RankTable

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
    from fp2.methods.several_runs.profiles import rank_models, resampled_profiles

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
        n = max(MIN_BOOTSTRAP, *(int(a["n_bootstrap"]) for a in analysis))
        values = shared_rows.values[list(comparable)]
        seed, alpha = int(analysis[0]["seed"]), float(analysis[0]["alpha"])
        if any(STOPPING in run.results for run in ranked):
            drawn = resampled_profiles(
                values, shared_rows.groups, shared_rows.subjects, shared_rows.images, n, seed, _least(ranked)
            )
            table = _after_looks(ranked, cut, drawn, alpha)
            notes += _looked_notes(ranked, cut, [names[i] for i in comparable])
        else:
            table = rank_models(
                values,
                shared_rows.groups,
                shared_rows.subjects,
                [run.run_id for run in ranked],
                images=shared_rows.images,
                n_bootstrap=n,
                seed=seed,
                alpha=alpha,
                min_subjects=_least(ranked),
            )
        return Ranking(cut, variant, table.rows, None, tuple(notes), alpha)
    except Fp2Error as error:
        return Ranking(cut, variant, (), error.what, ())


def _after_looks(
    runs: Sequence[LoggedRun], cut: str, drawn: tuple[Profiles, Iterator[Profiles], FloatArray], alpha: float
) -> RankTable:
    """Return the ranks of runs of which some stopped early, from p-values that are corrected over all pairs (Holm).

    Of a pair whose order a run decided it is the repeated one of that run; of another one it is repeated over the looks
    of the runs that stopped.
    """
    from fp2.extension import adjust_p_values
    from fp2.methods.several_runs.profiles import order_tests, rank_table

    observed, batches, sizes = drawn
    pairs = list(combinations(range(len(runs)), 2))
    tests = order_tests(observed, batches, sizes, pairs, 1.0)
    position = {run.run_id: i for i, run in enumerate(runs)}
    p_values, first_smaller = [], []
    stated = {
        frozenset((position[order["run"]], position[order["against"]])): order
        for order in stated_orders(runs)
        if order["cut"] == cut
    }
    for (a, b), test in zip(pairs, tests, strict=True):
        if (order := stated.get(frozenset((a, b)))) is None:
            p_values.append(repeated(test.p_value, [runs[a], runs[b]]))
            first_smaller.append(test.differences[0] < test.differences[1])
        else:
            p_values.append(order["p_value"])
            first_smaller.append((order["side"] == "smaller") == (position[order["run"]] == a))
    better = np.zeros((len(runs), len(runs)), dtype=bool)
    for (a, b), p, first in zip(pairs, adjust_p_values(p_values), first_smaller, strict=True):
        better[(a, b) if first else (b, a)] = p is not None and p <= alpha
    return rank_table([run.run_id for run in runs], observed.squares()[0], better, float("nan"))


def _looked_notes(runs: Sequence[LoggedRun], cut: str, names: Sequence[str]) -> Iterator[str]:
    """Yield what the ranks of runs of which some stopped early account for, and the orders that were stated."""
    by_id = {run.run_id: name for run, name in zip(runs, names, strict=True)}
    for run in runs:
        if STOPPING in run.results:
            yield f"{looks_words(run, by_id[run.run_id])}: ranks account for its looks, differences do not"
    if orders := [order_words(order, by_id) for order in stated_orders(runs) if order["cut"] == cut]:
        yield f"by {cut}: {'; '.join(orders)}"


def _answering(
    runs: Sequence[LoggedRun], shared_rows: SharedLines, probes: Sequence[str], cut: str, names: Sequence[str]
) -> tuple[list[int], list[str]]:
    """Return the indices of the runs with enough answers to be ranked, and notes on the others and on the subjects."""
    notes = []
    total = [n_people(run) for run in runs]
    shared = len(set.intersection(*(set(asked_people(run)["subject_id"]) for run in runs)))
    if shared < max(total):
        span = f"{min(total)}" if min(total) == max(total) else f"{min(total)} to {max(total)}"
        notes.append(f"by {cut}: ranked on the {shared} subjects that all runs have (of {span})")
    comparable = []
    for i, run in enumerate(runs):
        few = [p for j, p in enumerate(probes) if shared_rows.n_groups(shared_rows.values[i, :, j], _least(runs)) < 2]
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


def _least(runs: Sequence[LoggedRun]) -> int:
    return max(int(run.results["analysis"]["min_subjects"]) for run in runs)
