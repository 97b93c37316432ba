"""The report section of agreement between scorers: pairs, tests by group, and what each scorer concludes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from fp2.protocols.fingerprint.scorer_agreement import SAME, summary
from fp2.report.reading import DASH, number, plain, probe_labels, scorer_label
from fp2.report.section import Results, Section
from fp2.results import Block

SECOND = "valence_context"
"""The packaged second opinion on valence."""
_DEPENDS = {"verdict": "verdict", "direction": "direction", "worst_group": "worst group"}


class ScorerAgreementSection(Section):
    """How far scorers of one dimension agree, and which verdicts depend on the scorer."""

    name = "scorer_agreement"
    title = "Agreement between scorers"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return pairs, tests by cut without the numbers of small groups, and the verdicts by dimension and cut."""
        labels = probe_labels(results)
        tests = [
            {
                **row,
                "label": labels[row["probe"]],
                "what": "same sign or class" if row["outcome"] == SAME else "first minus second",
                "shown": [group for group in row["groups"] if group["n_subjects"] >= min_cell],
                "hidden": sum(group["n_subjects"] < min_cell for group in row["groups"]),
            }
            for row in block["tests"]
        ]
        verdicts = [
            {
                **row,
                "label": labels[row["probe"]],
                "depends": [_DEPENDS[name] for name in row["depends"] if name == "verdict" or row["significant"]],
            }
            for row in block["verdicts"]
        ]
        several = [name for name, scorers in block["dimensions"].items() if len(scorers) > 1]
        return {
            "agreement": block,
            "pairs": [
                {
                    **pair,
                    "label": "all probes" if pair["probe"] is None else labels[pair["probe"]],
                    "rho_words": estimate_words(pair["rho"]),
                    "kappa_words": estimate_words(pair["kappa"]),
                }
                for pair in block["pairs"]
            ],
            "tests_by_cut": {cut: [row for row in tests if row["cut"] == cut] for cut in results["cuts"]},
            "verdicts_by_cut": {
                (name, cut): [row for row in verdicts if (row["dimension"], row["cut"]) == (name, cut)]
                for name in several
                for cut in results["cuts"]
            },
            "names": {name: block["dimensions"][name] for name in several},
            "sentences": {name: _sentence(block["verdicts"], name) for name in several},
            "second": None if several else second_opinion(block["dimensions"]),
        }

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return, for each dimension with several scorers, how many verdicts depend on the scorer."""
        out = []
        for name, scorers in block["dimensions"].items():
            if len(scorers) > 1:
                words = f"{scorer_label(name)} by {' and '.join(map(scorer_label, scorers))}"
                depends = summary(block["verdicts"], name)["n_verdict_depends"]
                sentence = _sentence(block["verdicts"], name)
                out.append(Text(plain(f"{words}: {sentence}"), style="yellow" if depends else ""))
        return out


def _sentence(verdicts: Any, dimension: str) -> str:
    """Return in words how many verdicts depend on the scorer."""
    n = summary(verdicts, dimension)
    return (
        f"{n['n_verdict_depends']} of {n['n_verdicts']} verdicts depend on the scorer; of {n['n_significant']} with a "
        f"significant difference, {n['n_direction_depends']} in direction and {n['n_worst_group_depends']} in the "
        "worst group"
    )


def estimate_words(estimate: Mapping[str, Any] | None) -> str:
    """Return a coefficient with its interval."""
    if estimate is None or estimate["value"] is None:
        return DASH
    if estimate["low"] is None:
        return number(estimate["value"], 2)
    return f"{number(estimate['value'], 2)} ({number(estimate['low'], 2)} to {number(estimate['high'], 2)})"


def second_opinion(dimensions: Mapping[str, Any]) -> str:
    """Return the overrides that add a second scorer of a dimension of the run, after `fp2 rescore RUN_ID`."""
    if "valence" in dimensions:
        return f"scorer=[{','.join([*(name for names in dimensions.values() for name in names), SECOND])}]"
    return f"scorer.NAME.measures={next(iter(dimensions), 'NAME')}"
