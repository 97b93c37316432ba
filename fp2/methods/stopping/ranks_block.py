"""The block `stopping` of a run that stopped when its order was certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from fp2.extension import Block, Column, ComparedRun, Kind, Results, Row, Sentence, Table, Value, Weight, cut_label
from fp2.methods.stopping.block import Stopping, StoppingSection, asked_words, looks_words
from fp2.methods.stopping.ranks import OrderLooks

ESTIMATE = "differences: on the answers that both runs were asked for, not corrected for stopping."


class OrderStopping(Stopping):
    """States the rule by which a run stopped, and what it decided of each finished run."""

    section = "fp2.methods.stopping.ranks_block:OrderSection"

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block; None of a run that was compared with none."""
        block, looks = super().block(run), run.comparison.looks
        if block is None or not isinstance(looks, OrderLooks):
            return None
        orders = [
            {"run_id": run_id, "cut": cut, **asdict(standing)} for (run_id, cut), standing in looks.standings.items()
        ]
        stated = ("run_id", "cut", "decided", "look", "adjusted_p", "adjusted_equivalence_p")
        headline = {**block["headline"], "against": [*looks.against]}
        headline["decided"] = [{name: order[name] for name in stated} for order in orders]
        return {
            **block,
            "rule": "order",
            "estimates": ESTIMATE,
            "margin": looks.margin,
            "against": [{"run_id": run_id, "name": name} for run_id, name in looks.against.items()],
            "orders": orders,
            "headline": headline,
            "metrics": {"asked_share": 1 - headline["saved"], "looks": looks.now},
        }


class OrderSection(StoppingSection):
    """What was decided of the order of the run and of each finished one."""

    title = "Stopped when its order was certain"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the rule with what was saved, and the orders."""
        names = {run["run_id"]: run["name"] for run in block["against"]}
        yield Sentence(
            f"{asked_words(block)} The difference between groups (root mean square over probes) was compared with "
            "that of finished runs.",
            Weight.PLAIN,
        )
        rows = []
        for order in block["orders"]:
            equivalent = order["decided"] == "equivalent"
            p = order["adjusted_equivalence_p" if equivalent else "adjusted_p"]
            differences = order["differences"] or (None, None)
            run = f"{names[order['run_id']]} {order['run_id'][:8]}"
            cells = [run, cut_label(order["cut"]), order["decided"], p]
            rows.append(Row([*cells, order["look"], *differences, order["n_subjects"]]))
        yield Table("orders", COLUMNS, rows, "Order relative to finished runs", primary=True)
        yield Sentence(
            f"{looks_words(block)} The run was asked no "
            "further once its difference was smaller than, larger than or equivalent to (less than "
            f"{block['margin']:g} apart) that of each finished run in every cut, or futile (conditional power of both "
            f"below {100 * block['futility']:.0f} %). Adjusted p: over all looks, and by Holm over runs and cuts. "
            f"{block['estimates']}",
            Weight.DETAIL,
        )


COLUMNS = [
    Column("Finished run", Kind.NAME),
    Column("Groups by"),
    Column("This run's is"),
    Column("Adjusted p", Kind.P),
    Column("Look", Kind.COUNT),
    Column("This run", Kind.NUMBER, terminal=False),
    Column("Finished run's", Kind.NUMBER, terminal=False),
    Column("Subjects", Kind.COUNT),
]
