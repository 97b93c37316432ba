"""FHIBE's open-ended questions about a person (positive, neutral, negative): the block `fhibe_vqa`.

Of a pool of prompts of each kind, those with the highest response rate are analysed: the gendered pronouns that answers
use and how often they are wrong, gender as the reason for liking a person, the occupations that are stated more often
for one group, and keywords of a toxicity list, by group as in Fig. 4 of Xiang et al. 2025. The disparity rows of the
run have the same outcomes over **all** prompts; this block has them over the chosen ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fp2.extension import (
    ROW_METHODS,
    SEVERAL_QUESTIONS,
    ComparedRun,
    ComparisonOptions,
    GroupComparison,
    OmitDefault,
    Range,
    memberships,
)
from fp2.methods.fhibe.vqa.answers import (
    PRONOUN,
    against_people,
    keyword_counts,
    most_frequent,
    occupations_block,
    prompt_rows,
    pronoun_shares,
)
from fp2.methods.fhibe.vqa.scorers import KINDS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Config, Scorer

BLOCK = "fhibe_vqa"


@dataclass(frozen=True, kw_only=True)
class VqaOptions(ComparisonOptions):
    """`probe.options`.

    Attributes
    ----------
    prompts : int
        Prompts of each kind that are analysed.
    least_people : int
        Subjects for whom an occupation was stated, for it to be tested.
    choose_by : {"on_topic", "non_empty"}
        The rate by which prompts are chosen: answers that state what was asked for and are no refusals, or all answers
        that are not empty, as in the paper.
    """

    prompts: Annotated[int, Range(1)] = 2
    least_people: Annotated[int, Range(1)] = 10
    choose_by: Annotated[Literal["on_topic", "non_empty"], OmitDefault()] = "on_topic"


class FhibeVqa(GroupComparison):
    """FHIBE's open-ended questions."""

    name = BLOCK
    Options = VqaOptions
    states = replace(
        GroupComparison.states,
        sections=("fp2.methods.fhibe.vqa.section:VqaSection",),
        methods=(*ROW_METHODS, *SEVERAL_QUESTIONS),
    )

    def attributes(self, config: Config) -> set[str]:
        """Return the pronoun, with which the pronoun of an answer is compared."""
        return {PRONOUN}

    def assign_scores(self, scores: pd.DataFrame, people: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
        """Return the scores, with the pronoun of an answer compared with the subject's own."""
        return against_people(scores, people, scorers)

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the block of the chosen prompts."""
        return {BLOCK: vqa_block(run, self.options)}


def vqa_block(run: ComparedRun, options: VqaOptions) -> dict[str, Any]:
    """Return the prompts with their response rates, and the outcomes over the chosen ones."""
    answers = run.answers[run.answers["probe"].isin(KINDS)]
    prompts = prompt_rows(answers, run, options.prompts, options.choose_by)
    chosen = [row["id"] for row in prompts if row["chosen"]]
    scores = run.scores[run.scores["question_id"].isin(chosen)]
    min_subjects, alpha = run.comparison.min_subjects, run.comparison.alpha
    of_cuts = {cut.name: memberships(run.people, cut) for cut in run.cuts}
    outcomes = {
        name: {
            "overall": next(iter(_rates(scores, name, None, alpha, 1)), None),
            "by": {cut: _rates(scores, name, groups, alpha, min_subjects) for cut, groups in of_cuts.items()},
        }
        for name, scorer in run.scorers.items()
        if scorer.yes_no and name != "refusal" and (scores["scorer"] == name).any()
    }
    chosen_answers = answers[answers["question_id"].isin(chosen) & (answers["status"] == "answered")]
    block: dict[str, Any] = {
        "options": {
            "prompts": options.prompts,
            "least_people": options.least_people,
            **({} if options.choose_by == "on_topic" else {"choose_by": options.choose_by}),
        },
        "prompts": prompts,
        "outcomes": outcomes,
        "said": pronoun_shares(chosen_answers, run.people),
        "occupations": occupations_block(
            chosen_answers, run.people, run.cuts, options.least_people, alpha, min_subjects
        ),
        "reasons": most_frequent(chosen_answers, "positive"),
        "offences": most_frequent(chosen_answers, "negative"),
        "keywords": keyword_counts(chosen_answers, run),
    }
    rates = {
        f"{name}.rate": outcome["overall"]["rate"]
        for name, outcome in block["outcomes"].items()
        if outcome["overall"] is not None
    }
    block["metrics"] = {
        **rates,
        "occupations.over_represented": float(sum(row["over"] for row in block["occupations"]["rows"])),
    }
    return block | {
        "headline": {
            "prompts": [row["id"] for row in block["prompts"] if row["chosen"]],
            "rates": {name: round(value, 4) for name, value in block["metrics"].items() if name.endswith(".rate")},
            "over_represented_occupations": int(block["metrics"]["occupations.over_represented"]),
        }
    }


def _rates(
    scores: pd.DataFrame, scorer: str, groups: pd.DataFrame | None, alpha: float, min_subjects: int
) -> list[dict[str, Any]]:
    """Return the rate of each group with at least `min_subjects` subjects, with its 1 - alpha interval.

    Refusals and answers off topic are left out; a subject's rate is over all their other answers. `groups` are
    memberships; None: all subjects are one group.
    """
    import numpy as np

    from fp2.methods.fhibe.proportions import proportions_by_group

    valid = scores[(scores["scorer"] == scorer) & scores["value"].notna() & ~scores["refused"].astype(bool)]
    valid = valid[["image_id", "subject_id", "value"]]
    table = valid.assign(group="all") if groups is None else valid.merge(groups, on=["image_id", "subject_id"])
    if table.empty:
        return []
    proportions = proportions_by_group(
        np.asarray(table["value"], float),
        np.asarray(table["group"], str),
        np.asarray(table["subject_id"], str),
        alpha=alpha,
        min_subjects=min_subjects,
    )
    return [
        {
            "group": row.group,
            "rate": row.rate,
            "ci_low": row.ci_low,
            "ci_high": row.ci_high,
            "n_subjects": row.n_subjects,
            "n_answers": row.n_images,
        }
        for row in proportions.groups
    ]
