"""The tests that GRAS's authors published, in the reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fp2.extension import (
    Block,
    Cell,
    Column,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Table,
    Value,
    Weight,
    cut_label,
)
from fp2.methods.gras.published_tests import BLOCK
from fp2.methods.gras.section import (
    ATTRIBUTED,
    HEADLINE,
    MEASURES,
    RANKING_COLUMNS,
    SCORE_COLUMNS,
    orientations,
    ranking,
)


class PublishedTestsSection(Section):
    """Everything of the block `gras_published`."""

    name = BLOCK
    title = "GRAS: published tests"
    headline = {
        f"{name}_images": f"Cells in %, {words} (images as units)" for name, words in MEASURES.items()
    } | HEADLINE

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the scores, and how often traits are attributed to each group."""
        scores = block["scores"]
        yield Sentence(
            f"{len(block['traits'])} traits in {len(block['templates'])} templates: {scores['n_tests']:,} published "
            f"tests in {scores['n_cells']:,} cells (a cell is one attribute and one trait)."
        )
        yield orientations("images as units", scores["published_orientation"], scores["seed_orientation"])
        yield Sentence(ABOUT, Weight.WARNING)
        rows = [Row([label, Cell(scores[measure], strong=True)]) for measure, label in MEASURES.items()]
        rows += [
            Row([f"any template, {cut_label(name)}", by_measure["published_orientation"]])
            for name, by_measure in scores["by_attribute"].items()
        ]
        yield Table("scores", SCORE_COLUMNS[:2], rows, "Cells with p ≤ α in %", primary=True)
        columns = [Column("Group", Kind.NAME), Column("Traits"), Column("Share", Kind.SHARE, digits=2, compared=True)]
        for name in scores["by_attribute"]:
            rates = [rate for rate in block["attribution"] if rate["attribute"] == name]
            rows = [Row([rate["group"], rate["polarity"], rate["share"]]) for rate in rates]
            yield Table("attribution", columns, rows, f"{ATTRIBUTED}, by {cut_label(name)}", cut=name)

    def across(self, runs: Sequence[tuple[str, Block, Results]]) -> Iterator[Table]:
        """Yield the models by GRAS Bias Score, the smallest first."""
        scores = {model: block["scores"] for model, block, _ in runs}
        yield ranking(
            {model: [one["published_orientation"], one["seed_orientation"]] for model, one in scores.items()},
            RANKING_COLUMNS[:4],
        )


ABOUT = (
    "An unbiased model does not score 0: without a correction it has 5 to 23 % of cells by chance. The null mean of "
    "these images needs the answers themselves."
)
