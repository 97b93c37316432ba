"""The block `stopping` of a run that stopped: the rule, the looks, what was decided when, what was asked and saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fp2.extension import (
    NOT_ASKED,
    Block,
    Column,
    ComparedRun,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Weight,
    probe_labels,
    scorer_label,
)
from fp2.methods.stopping.decisions import FUTILITY
from fp2.methods.stopping.looks import BIASED, EQUIVALENT, FUTILE, StoppingLooks
from fp2.methods.stopping.order import EARLY

ORDER = (
    "Images in random order, one of each subject of a group before second ones; the subjects stratified by the groups "
    f"of all cuts together. The first wave has at least {EARLY:g} times analysis.min_subjects of each group; small "
    "groups are ahead until all of them are asked."
)
ESTIMATE = (
    "corrected_gap: median-unbiased in the stagewise order (Tsiatis, Rosner and Mehta 1984), for rows whose `biased` "
    "ended the questions; repeated_ci: simultaneous over all looks (Jennison and Turnbull 2000)."
)


class Stopping(Supplement):
    """States the rule by which a run stopped, and what it decided."""

    name = "stopping"
    section = "fp2.methods.stopping.block:StoppingSection"

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block; None of a comparison without the looks of a run."""
        looks = run.comparison.looks
        if not isinstance(looks, StoppingLooks):
            return None
        asked = run.answers["error"] != NOT_ASKED
        probes = []
        for probe, of_probe in run.answers.groupby("probe", sort=False):
            n_asked = int(asked[of_probe.index].sum())
            look = looks.at_probe(str(probe)).now
            probes.append({"probe": str(probe), "look": look, "asked": n_asked, "planned": len(of_probe)})
        decided = Counter(decision.decided for decision in looks.rows.values())
        return {
            "rule": "certain",
            "order": ORDER,
            "estimates": ESTIMATE,
            "spending": looks.spending,
            "at": list(looks.at),
            "now": looks.now,
            "alpha": looks.alpha,
            "smallest_share": looks.smallest_share,
            "primary": looks.primary,
            "futility": FUTILITY,
            "groups": dict(looks.groups),
            "probes": probes,
            "rows": [
                {"probe": probe, "scorer": scorer, "cut": cut, **_stated(decision)}
                for (probe, scorer, cut), decision in looks.rows.items()
            ],
            "composites": [{"cut": cut, **_stated(decision)} for cut, decision in looks.composites.items()],
            "headline": headline(int(asked.sum()), len(asked), looks.now, dict(sorted(decided.items()))),
        }


def headline(asked: int, planned: int, looks: int, decided: Mapping[str, int]) -> dict[str, Any]:
    """Return what the passport says of a stopped run; `decided`: how many rows have each decision."""
    saved = 1 - asked / planned if planned else 0.0
    return {"asked": asked, "planned": planned, "saved": saved, "looks": looks, "decided": dict(decided)}


def _stated(decision: Any) -> dict[str, Any]:
    return {
        "look": decision.look,
        "decided": decision.decided,
        "p_values": dict(decision.p_values),
        "raw": decision.raw,
        "n_subjects": decision.n_subjects,
    }


def asked_words(block: Block) -> str:
    """Return how much of what was planned was asked, as a sentence."""
    headline = block["headline"]
    return (
        f"{headline['asked']:,} of {headline['planned']:,} planned answers were asked, at {block['now']} of "
        f"{len(block['at'])} looks."
    )


def looks_words(block: Block) -> str:
    """Return what the looks were and how the images were ordered, as sentences."""
    at = ", ".join(f"{100 * t:.0f}" for t in block["at"])
    return f"Looks at {at} % of each group at least, {block['spending']} alpha spending. {block['order']}"


class StoppingSection(Section):
    """How far each probe was asked, and what was decided."""

    name = "stopping"
    title = "Stopped when certain"

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the rule with what was saved, and the looks of the probes."""
        labels = probe_labels(results)
        yield Sentence(asked_words(block), Weight.PLAIN)
        rows = [self._row(probe, block, labels) for probe in block["probes"]]
        yield Table("stopping", COLUMNS, rows, fold="Looks and decisions of each probe")
        of_scorer = f" of {scorer_label(block['primary'])}" if "primary" in block else ""
        yield Sentence(
            f"{looks_words(block)} A probe was asked no further once its rows{of_scorer} were biased, equivalent or "
            f"futile (conditional power of both verdicts below {100 * block['futility']:.0f} %), and the composites "
            f"decided. {block['estimates']}",
            Weight.DETAIL,
        )

    @staticmethod
    def _row(probe: Mapping[str, Any], block: Block, labels: Mapping[str, str]) -> Row:
        decided = Counter(row["decided"] for row in block["rows"] if row["probe"] == probe["probe"])
        counts = [decided.get(name, 0) for name in (BIASED, EQUIVALENT, FUTILE)]
        other = sum(decided.values()) - sum(counts)
        share = probe["asked"] / probe["planned"] if probe["planned"] else None
        return Row([labels.get(probe["probe"], probe["probe"]), probe["look"], share, *counts, other])


COLUMNS = [
    Column("Probe"),
    Column("Last look", Kind.COUNT),
    Column("Asked", Kind.SHARE),
    Column("Biased", Kind.COUNT),
    Column("Equivalent", Kind.COUNT),
    Column("Futile", Kind.COUNT),
    Column("Not decided", Kind.COUNT),
]
