"""Runs that stopped early (`answers.stop`) beside others: repeated p-values, and the orders that they decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fp2.extension import DECLARED_LOOKS, LoggedRun, load, probability
from fp2.methods.several_runs.shared import STOPPING

WORDS = {
    "smaller": "{run} has smaller group differences than {against}",
    "larger": "{run} has larger group differences than {against}",
    "equivalent": "the group differences of {run} and {against} are equivalent (less than {margin:g} apart)",
    "futile": "the order of {run} and {against} was not decided: further answers would hardly decide it",
    "open": "the order of {run} and {against} is not decided yet",
    "undecided": "the order of {run} and {against} was not decided: no further answers of both",
}


def repeated(p: float, runs: Sequence[LoggedRun]) -> float:
    """Return a p-value repeated over the looks of those runs that stopped early: the largest."""
    stated = [run.results[STOPPING] for run in runs if STOPPING in run.results]
    declared = [{name: block[name] for name in ("at", "now", "spending")} for block in stated]
    repeated_ps: list[float] = [load(DECLARED_LOOKS, "declared", STOPPING)(looks).repeated(p) for looks in declared]
    return max([p, *repeated_ps])


def stated_orders(runs: Sequence[LoggedRun]) -> list[dict[str, Any]]:
    """Return what these runs decided of their order relative to each other.

    Each is an entry of `stopping.orders` with the ids `run` and `against`, the number of looks and the margin.
    """
    ids = {run.run_id for run in runs}
    return [
        {**order, "run": run.run_id, "against": order["run_id"], "looks": len(block["at"]), "margin": block["margin"]}
        for run in runs
        for block in [run.results.get(STOPPING, {})]
        for order in block.get("orders", ())
        if order["run_id"] in ids
    ]


def looks_words(run: LoggedRun, name: str) -> str:
    """Return at which look a run stopped, in words."""
    block = run.results[STOPPING]
    return f"{name} stopped at look {block['now']} of {len(block['at'])} (answers.stop={block['rule']})"


def order_words(order: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return a stated order with its certainty, in words; `names`: of the runs, by id."""
    named = {**order, "run": names[order["run"]], "against": names[order["against"]]}
    words = WORDS[order["decided"]].format(**named)
    p = order["adjusted_equivalence_p" if order["decided"] == "equivalent" else "adjusted_p"]
    return f"{words}, adjusted p {probability(p)} over the looks, look {order['look']} of {order['looks']}"
