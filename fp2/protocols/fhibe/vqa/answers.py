"""What is read from answers to open-ended prompts: response rates, and the most frequent answers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from fp2.protocols.fingerprint.settings import ComparedRun
from fp2.scorers.vqa import KINDS, READERS, on_topic

if TYPE_CHECKING:
    import pandas as pd

MIN_SUBJECTS = 10
"""Subjects of anything that is listed."""
_LISTED = 8  # reasons and keywords


def on_topic_only(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers that state what their kind of prompt asks for and are no refusals."""
    topical = [on_topic(text, kind) for text, kind in zip(answers["text"], answers["probe"], strict=True)]
    return answers.loc[[a and not b for a, b in zip(topical, answers["refused"].astype(bool), strict=True)]]


def prompt_rows(answers: pd.DataFrame, run: ComparedRun, n_chosen: int) -> list[dict[str, Any]]:
    """Return each prompt with its response rate, and whether it is one of the `n_chosen` of its kind.

    Chosen are those of highest response rate (ties: the order of the battery). Rates are over answered rows; a refusal
    is no response.
    """
    rows: list[dict[str, Any]] = []
    for question in run.battery.questions:
        if question.probe not in KINDS:
            continue
        own = answers[(answers["question_id"] == question.question_id) & (answers["status"] == "answered")]
        texts, refused = own["text"].tolist(), own["refused"].astype(bool).tolist()
        filled = [bool(text.strip()) for text in texts]
        topical = [on_topic(text, question.probe) and not no for text, no in zip(texts, refused, strict=True)]
        n = len(texts)
        rows.append(
            {
                "id": question.question_id, "kind": question.probe, "text": question.text, "n": n,
                "non_empty": sum(filled) / n if n else None, "refused": sum(refused) / n if n else None,
                "on_topic": sum(topical) / n if n else None, "chosen": False,
            }
        )  # fmt: skip
    for kind in KINDS:
        answered = [row for row in rows if row["kind"] == kind and row["on_topic"]]
        for row in sorted(answered, key=lambda row: -float(row["on_topic"]))[:n_chosen]:
            row["chosen"] = True
    return rows


def most_frequent(answers: pd.DataFrame, kind: str) -> list[dict[str, Any]]:
    """Return what answers to a kind of prompt state most often, with answers and subjects (at least `MIN_SUBJECTS`)."""
    rows = on_topic_only(answers[answers["probe"] == kind])
    table = rows[["subject_id"]].assign(text=[READERS[kind](text) for text in rows["text"]])
    grouped = table.groupby("text")["subject_id"].agg(["size", "nunique"])
    grouped = grouped[grouped["nunique"] >= MIN_SUBJECTS].sort_values("size", ascending=False, kind="stable")
    return [
        {"text": str(text), "n_answers": int(row["size"]), "n_subjects": int(row["nunique"])}
        for text, row in grouped.head(_LISTED).iterrows()
    ]


def keyword_counts(answers: pd.DataFrame, run: ComparedRun) -> list[dict[str, Any]]:
    """Return the keywords in answers to negative prompts, most frequent first."""
    from fp2.scorers.vqa import Toxic, toxic_words

    scorer = next((one for one in run.scorers.values() if isinstance(one, Toxic)), None)
    if scorer is None:
        return []
    rows = answers[answers["probe"].isin(scorer.applies_to) & ~answers["refused"].astype(bool)]
    found = Counter(word for text in rows["text"] for word in toxic_words(text, scorer.lexicon_file))
    return [{"word": word, "n_answers": count} for word, count in found.most_common(_LISTED)]
