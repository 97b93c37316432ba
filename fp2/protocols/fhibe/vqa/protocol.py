"""Open questions about a person in three tones, as FHIBE puts them to BLIP-2: the block `fhibe_vqa` of the results.

Of a pool of prompts those with the highest response rate are read (answers on topic among all that were asked); what
is read from them: who is called she or he unasked, how often wrongly, who is liked for their gender, which occupations
are stated more for one group than for others, and who is spoken of with words of a keyword set. The disparity rows of
the run have the same outcomes over **all** prompts; this block has them over the chosen ones, in the paper's form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fp2.protocols.fhibe.vqa.pronouns import PRONOUN, against_people, own_pronoun
from fp2.protocols.fingerprint.comparison import ComparisonOptions, GroupComparison
from fp2.protocols.fingerprint.settings import ComparedRun
from fp2.protocols.option_types import Range
from fp2.scorers.vqa_text import KINDS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import Answers
    from fp2.scorers.base import Scorer

BLOCK = "fhibe_vqa"
LEAST = 10
"""Subjects behind anything that is listed."""
WORDS = 8
"""Reasons and keywords that are listed."""


@dataclass(frozen=True, kw_only=True)
class VqaOptions(ComparisonOptions):
    """`probe.options`: prompts of each kind that are chosen, and subjects that an occupation needs to be tested."""

    prompts: Annotated[int, Range(1)] = 2
    least_people: Annotated[int, Range(1)] = 10


class FhibeVqa(GroupComparison):
    """FHIBE's open questions."""

    name = "fhibe_vqa"
    Options = VqaOptions
    sections = ("fp2.protocols.fhibe.vqa.section:VqaSection",)

    def attributes(self) -> set[str]:
        """Return the pronoun: that of an answer is right or wrong by the subject's own."""
        return {PRONOUN}

    def score(
        self, answers: Answers, people: pd.DataFrame, scorers: Mapping[str, Scorer]
    ) -> tuple[Answers, pd.DataFrame | None]:
        """Return the scores, with the pronoun of an answer compared with the subject's own."""
        answers, scores = super().score(answers, people, scorers)
        assert scores is not None
        return answers, against_people(scores, people, scorers)

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the block of the chosen prompts."""
        return {BLOCK: vqa_block(run, self.options)}


def vqa_block(run: ComparedRun, options: VqaOptions) -> dict[str, Any]:
    """Return the prompts with their response rates, and the outcomes over the chosen ones."""
    from fp2.protocols.fhibe.vqa.occupations import occupations_block
    from fp2.protocols.fhibe.vqa.rates import overall, rates

    answers = run.answers[run.answers["probe"].isin(KINDS)]
    prompts = prompt_rows(answers, run, options)
    chosen = [row["id"] for row in prompts if row["chosen"]]
    scores = run.scores[run.scores["question_id"].isin(chosen)]
    least, alpha = run.comparison.min_subjects, run.comparison.alpha
    outcomes = {
        name: {
            "overall": overall(scores, name, alpha),
            "by": {cut.name: rates(scores, name, run.people, cut, alpha, least) for cut in run.cuts},
        }
        for name, scorer in run.scorers.items()
        if scorer.yes_no and name != "refusal" and (scores["scorer"] == name).any()
    }
    said = answers[answers["question_id"].isin(chosen) & (answers["status"] == "answered")]
    occupations = occupations_block(said, run.people, run.cuts, options.least_people, alpha, least)
    found: dict[str, Any] = {
        "options": {"prompts": options.prompts, "least_people": options.least_people},
        "prompts": prompts,
        "outcomes": outcomes,
        "said": said_counts(said, run.people),
        "occupations": occupations,
        "reasons": most_said(said, "positive"),
        "offences": most_said(said, "negative"),
        "keywords": keyword_counts(said, run),
    }
    found["metrics"] = _metrics(found)
    return found | {"headline": _headline(found)}


def prompt_rows(answers: pd.DataFrame, run: ComparedRun, options: VqaOptions) -> list[dict[str, Any]]:
    """Return each prompt with its response rate, and whether it is among the chosen of its kind (ties: file order).

    Rates are over answers that came: a failed one says nothing about the prompt. `refused` are answers that decline;
    those are no response.
    """
    from fp2.scorers.vqa_text import on_topic

    rows: list[dict[str, Any]] = []
    for question in run.battery.questions:
        if question.probe not in KINDS:
            continue
        mine = answers[(answers["question_id"] == question.question_id) & (answers["status"] == "answered")]
        texts, refused = mine["text"].tolist(), mine["refused"].astype(bool).tolist()
        filled = [bool(text.strip()) for text in texts]
        met = [on_topic(text, question.probe) and not no for text, no in zip(texts, refused, strict=True)]
        n = len(texts)
        rows.append(
            {
                "id": question.question_id, "kind": question.probe, "text": question.text, "n": n,
                "non_empty": sum(filled) / n if n else None, "refused": sum(refused) / n if n else None,
                "on_topic": sum(met) / n if n else None, "chosen": False,
            }
        )  # fmt: skip
    for kind in KINDS:
        mine_rows = [row for row in rows if row["kind"] == kind and row["on_topic"]]
        for row in sorted(mine_rows, key=lambda row: -float(row["on_topic"]))[: options.prompts]:
            row["chosen"] = True
    return rows


def said_counts(said: pd.DataFrame, people: pd.DataFrame) -> dict[str, Any]:
    """Return how often she, he, they or nothing of the kind is said of people whose own pronouns are she, he, others.

    Shares are means over people of their own shares; an answer off topic or refused does not count. Groups of fewer
    than 10 people are left out.
    """
    from fp2.scorers.vqa_text import said_pronoun
    from fp2.tables import ATTRIBUTE_PREFIX

    column = ATTRIBUTE_PREFIX + PRONOUN
    if column not in people or said.empty:
        return {}
    own = {
        key: own_pronoun(values) or "other"
        for key, values in zip(zip(people["image_id"], people["subject_id"], strict=True), people[column], strict=True)
    }
    rows = on_topic_only(said)
    table = rows[["subject_id"]].assign(
        own=[own[key] for key in zip(rows["image_id"], rows["subject_id"], strict=True)],
        said=[said_pronoun(text) or "none" for text in rows["text"]],
    )
    names = ("she", "he", "they", "none")
    shares: dict[str, Any] = {}
    for group, part in table.groupby("own"):
        if part["subject_id"].nunique() < LEAST:
            continue
        wide = part.assign(one=1.0).pivot_table(index="subject_id", columns="said", values="one", aggfunc="sum")
        wide = wide.reindex(columns=list(names)).fillna(0.0)
        mean = wide.div(wide.sum(axis=1), axis=0).mean()
        shares[str(group)] = {"n_subjects": len(wide), **{name: float(mean[name]) for name in names}}
    return shares


def on_topic_only(said: pd.DataFrame) -> pd.DataFrame:
    """Return the answers that say what their kind of prompt asks for and do not decline."""
    from fp2.scorers.vqa_text import on_topic

    met = [on_topic(text, kind) for text, kind in zip(said["text"], said["probe"], strict=True)]
    return said.loc[[a and not b for a, b in zip(met, said["refused"].astype(bool), strict=True)]]


def most_said(said: pd.DataFrame, kind: str) -> list[dict[str, Any]]:
    """Return what is read most often from a kind of prompt: text, answers, people (at least 10 of them)."""
    from fp2.scorers.vqa_text import READERS

    rows = on_topic_only(said[said["probe"] == kind])
    table = rows[["subject_id"]].assign(text=[READERS[kind](text) for text in rows["text"]])
    grouped = table.groupby("text")["subject_id"].agg(["size", "nunique"])
    grouped = grouped[grouped["nunique"] >= LEAST].sort_values("size", ascending=False, kind="stable").head(WORDS)
    return [
        {"text": str(text), "n_answers": int(row["size"]), "n_subjects": int(row["nunique"])}
        for text, row in grouped.iterrows()
    ]


def keyword_counts(said: pd.DataFrame, run: ComparedRun) -> list[dict[str, Any]]:
    """Return the keywords that were found in answers to negative prompts, most frequent first."""
    from collections import Counter

    from fp2.scorers.vqa import Toxic, toxic_words

    scorer = next((one for one in run.scorers.values() if isinstance(one, Toxic)), None)
    if scorer is None:
        return []
    rows = said[said["probe"].isin(scorer.applies_to) & ~said["refused"].astype(bool)]
    found = Counter(word for text in rows["text"] for word in toxic_words(text, scorer.lexicon_file))
    return [{"word": word, "n_answers": count} for word, count in found.most_common(WORDS)]


def _metrics(found: dict[str, Any]) -> dict[str, float]:
    metrics = {
        f"{name}.rate": outcome["overall"]["rate"]
        for name, outcome in found["outcomes"].items()
        if outcome["overall"] is not None
    }
    metrics["occupations.over_represented"] = float(sum(row["over"] for row in found["occupations"]["rows"]))
    return metrics


def _headline(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompts": [row["id"] for row in found["prompts"] if row["chosen"]],
        "rates": {name: round(value, 4) for name, value in found["metrics"].items() if name.endswith(".rate")},
        "over_represented_occupations": int(found["metrics"]["occupations.over_represented"]),
    }
