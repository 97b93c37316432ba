"""Attention to two people in the reports: the regressions of word counts and of order of mention."""

from __future__ import annotations

from collections.abc import Iterator

from fp2.extension import (
    Block,
    Cell,
    Column,
    Estimate,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Table,
    Value,
    Weight,
    cut_label,
    number,
    plain,
    sentence,
)


class AttentionSection(Section):
    """The regressions of word counts and of order of mention."""

    name = "attention"
    title = "Attention to two people"
    report_title = "Attention priority"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield which attributes have an effect, the other terms held constant, and the regressions."""
        for regression in block["regressions"]:
            outcome, tests = OUTCOMES[regression["outcome"]], regression["attributes"]
            significant = [cut_label(test["attribute"]) for test in tests if test["significant"]]
            effect = f"significant effect of {', '.join(significant)}" if significant else "no significant effect"
            reason = regression["reason"] or f"{effect}, with area and side in the model"
            yield Sentence(f"{sentence(outcome)}: {reason}.")
            rows = [
                Row(
                    [
                        cut_label(test["attribute"]),
                        regression["references"][test["attribute"]],
                        Cell(test["adjusted_p"], strong=test["significant"]),
                    ]
                )
                for test in tests
            ]
            yield Table(f"{regression['outcome']}_attributes", TEST_COLUMNS, rows, f"{sentence(outcome)}: attributes")
            rows = [
                Row(
                    [
                        term["term"],
                        cut_label(term["attribute"] or ""),
                        Estimate(term["estimate"], term["ci_low"], term["ci_high"]),
                        term["p_value"],
                    ]
                )
                for term in regression["terms"]
            ]
            caption = (
                f"{sentence(outcome)}: one regression with all terms ({regression['n_descriptions']:,} descriptions of "
                f"{regression['n_pictures']:,} images)"
            )
            yield Table(f"{regression['outcome']}_terms", TERM_COLUMNS, rows, caption)
            if regression["dropped"]:
                yield Sentence(
                    f"{sentence(outcome)}, dropped: {plain('; '.join(regression['dropped']))}.", Weight.DETAIL
                )
        for text in _descriptions(block):
            yield Sentence(text, Weight.DETAIL)
        yield Sentence(HOW_TO_READ, Weight.DETAIL)


def _descriptions(block: Block) -> Iterator[str]:
    """Yield how many descriptions there are, and what the side of a person does."""
    yield (
        f"{block['n_pictures']:,} images of two people, each shown unchanged and mirrored: "
        f"{block['n_descriptions']:,} descriptions planned. The order of mention is known in {block['first_known']:,} "
        f"of them; both people are named by their sides in {block['both_named']:,}."
    )
    if block["left_first"] is not None:
        yield f"The person on the left comes first in {number(100 * block['left_first'], 0)} %."
    if (same := block["same_person_first_when_mirrored"]) is not None:
        yield (
            f"In {number(100 * same, 0)} % of the images the same person comes first in both copies; if only the side "
            "mattered, this would be 0 %."
        )


OUTCOMES = {"words": "more words", "first": "being described first"}
TEST_COLUMNS = [Column("Attribute"), Column("Reference", Kind.NAME), Column("Adjusted p", Kind.P)]
TERM_COLUMNS = [
    Column("Term", Kind.NAME),
    Column("Attribute"),
    Column("Estimate (95 % interval)", Kind.ESTIMATE, signed=True),
    Column("p", Kind.P),
]
HOW_TO_READ = (
    "Each description compares the two people in an image. The estimate for a group is the change, relative to the "
    "reference group, in the log ratio of the words or in the probability of coming first; “shown on the left” is the "
    "same for standing on the left rather than on the right. Left and right are read from the text. Standard errors "
    "allow for people and images that occur repeatedly; the tests of one outcome are corrected by Holm's method."
)
