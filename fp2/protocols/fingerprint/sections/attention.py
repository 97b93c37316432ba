"""Attention priority: which attributes decide who of two people is described first, and with more words."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from fp2.report.reading import cut_label, plain
from fp2.report.section import Block, Results, Section

OUTCOMES = {"words": "more words", "first": "being described first"}
READING = (
    "Each description compares the two people in an image. The estimate for a group is the change, relative to the "
    "reference group, in the log ratio of the words or in the probability of coming first; “shown on the left” is the "
    "same for standing on the left rather than on the right. Left and right are read from the text. Standard errors "
    "allow for people and images that occur repeatedly; the tests of one outcome are corrected by Holm's method."
)


class AttentionSection(Section):
    """The regressions of word counts and of order of mention."""

    name = "attention"
    title = "Attention to two people"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return the block, the names of its outcomes, and how to read it."""
        return {"attention": block, "outcomes": OUTCOMES, "reading": READING}

    def lines(self, block: Block, results: Results) -> list[Text]:
        """Return for each regression which attributes matter, other terms held equal."""
        out = []
        for fit in block["regressions"]:
            found = [cut_label(test["attribute"]) for test in fit["attributes"] if test["significant"]]
            said = fit["reason"] or f"{', '.join(found) or 'no attribute'} matters, area and side held equal"
            out.append(Text(f"{OUTCOMES[fit['outcome']]}: {plain(said)}"))
        return out
