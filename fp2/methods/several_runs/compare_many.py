"""Any number of runs: the distances of all pairs of fingerprints, with one correction over all pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING, Any

from fp2.extension import Fp2Error, LoggedRun
from fp2.methods.several_runs.compare import adjust_distances, common, compare, settings_of
from fp2.methods.several_runs.panels import run_labels

if TYPE_CHECKING:
    from fp2.extension import Config

FAMILY = "Holm over the pairs of runs and the cuts of one scorer; for single probes over pairs x probes x cuts"


def compare_all(
    runs: Sequence[LoggedRun], config: Config, start: Callable[[int], Callable[[], None]] = lambda n: lambda: None
) -> dict[str, Any]:
    """Compare every pair of runs and return a JSON-ready block (aggregates only).

    `start(n)` is called with the number of steps; what it returns is called after each.

    Returns
    -------
    dict
        `runs`: their names; `pairs`: a block for each pair, as `compare.compare` returns it, with p-values
        corrected over all pairs; `not_compared`: pairs that share no cut, scorer, probe or subject, each with the
        reason; `family`: what p-values are corrected over; `notes`.
    """
    check_runs(runs)
    names = run_labels([run.results for run in runs], [run.settings for run in runs])
    index_pairs = list(combinations(range(len(runs)), 2))
    pairs: list[dict[str, Any]] = []
    failed: list[dict[str, str]] = []
    n_cuts = n_steps = 0
    for a, b in index_pairs:
        with suppress(Fp2Error):  # a pair that cannot be compared
            cuts, scorers = common([runs[a], runs[b]])
            n_cuts, n_steps = n_cuts + len(cuts), n_steps + len(cuts) * len(scorers)
    tick = start(n_steps)
    n_tests = n_cuts * max(len(run.probes) for run in runs)
    reason: Fp2Error | None = None
    for a, b in index_pairs:
        settings = settings_of(config, [runs[a], runs[b]])
        if len(runs) > 2 and config.analysis.permutations is None:
            wanted = ceil(2 * n_tests / settings.alpha)
            settings = replace(settings, n_permutations=max(settings.n_permutations, wanted))
        try:
            block = compare(runs[a], runs[b], settings, lambda n: tick)
        except Fp2Error as error:
            reason = error
            failed.append({"first": names[a], "second": names[b], "reason": str(error)})
            continue
        if len(runs) > 2:  # of two runs, names are as short as they can be
            block["first"]["name"], block["second"]["name"], block["family"] = names[a], names[b], FAMILY
        pairs.append(block)
    if reason is not None and not pairs:
        raise reason
    adjust_distances([row for block in pairs for row in block["distances"]])
    return {
        "runs": names,
        "family": FAMILY,
        "settings": pairs[0]["settings"],
        "primary": pairs[0]["primary"],
        "pairs": pairs,
        "not_compared": failed,
        "notes": list(_notes(pairs, pairs[0]["settings"])),
    }


def _notes(pairs: Sequence[dict[str, Any]], settings: dict[str, Any]) -> Iterator[str]:
    """Yield the notes on the pairs, each once; those that are not on all of them name the pairs."""
    primary = [row for block in pairs for row in block["distances"] if row["scorer"] == block["primary"]]
    smallest = len(primary) / (settings["n_permutations"] + 1)
    if smallest > settings["alpha"]:
        yield (
            f"With {settings['n_permutations']} permutations the smallest adjusted p-value of {len(primary)} distances "
            f"is {smallest:.3g}: none can be significant. Raise analysis.permutations."
        )
    by_reason: dict[str, list[str]] = {}
    for block in pairs:
        for note in block["notes"]:
            by_reason.setdefault(note, []).append(f"{block['first']['name']} and {block['second']['name']}")
    for note, named in by_reason.items():
        yield note if len(named) == len(pairs) else f"{'; '.join(named)}: {note}"


def check_runs(runs: Sequence[LoggedRun]) -> None:
    """Raise for fewer than two runs, or a run that is there twice."""
    if len(runs) < 2:
        raise Fp2Error("there are fewer than two runs to compare", where="runs")
    ids = [run.run_id for run in runs]
    if repeated := next((run_id for run_id in ids if ids.count(run_id) > 1), None):
        raise Fp2Error("both are the same run" if len(ids) == 2 else "two are the same run", where=repeated)
