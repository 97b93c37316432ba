"""What answers to open-ended prompts state: response rates, frequent answers, pronouns and occupations.

The pronouns that answers use of a subject are compared with the subject's own; that is the error which FHIBE counts.

A subject's value for an occupation is the share of their answers that state it. Each group is compared with the
subjects outside it by the Mann-Whitney test, with Holm's correction over all occupations, groups and cuts of the run.
The paper reports shares only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fp2.extension import ATTRIBUTE_PREFIX, ComparedRun, memberships
from fp2.methods.fhibe.vqa.scorers import KINDS, READERS, on_topic

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut, Scorer

MIN_SUBJECTS = 10
"""Subjects of anything that is listed."""
_LISTED = 8  # reasons and keywords


def on_topic_only(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the answers that state what their kind of prompt asks for and are no refusals."""
    topical = [on_topic(text, kind) for text, kind in zip(answers["text"], answers["probe"], strict=True)]
    return answers.loc[[a and not b for a, b in zip(topical, answers["refused"].astype(bool), strict=True)]]


def prompt_rows(
    answers: pd.DataFrame, run: ComparedRun, n_chosen: int, choose_by: str = "on_topic"
) -> list[dict[str, Any]]:
    """Return each prompt with its response rates, and whether it is one of the `n_chosen` of its kind.

    Chosen are those with the highest rate `choose_by` (ties: the order of the battery). Rates are over answered rows. A
    refusal is not on topic; it is not empty.
    """
    rows: list[dict[str, Any]] = []
    for question in run.battery.questions:
        if question.probe not in KINDS:
            continue
        of_question = answers[(answers["question_id"] == question.question_id) & (answers["status"] == "answered")]
        texts, refused = of_question["text"].tolist(), of_question["refused"].astype(bool).tolist()
        filled = [bool(text.strip()) for text in texts]
        topical = [on_topic(text, question.probe) and not no for text, no in zip(texts, refused, strict=True)]
        n = len(texts)
        rows.append(
            {
                "id": question.question_id,
                "kind": question.probe,
                "text": question.text,
                "n": n,
                "non_empty": sum(filled) / n if n else None,
                "refused": sum(refused) / n if n else None,
                "on_topic": sum(topical) / n if n else None,
                "chosen": False,
            }
        )
    for kind in KINDS:
        answered = [row for row in rows if row["kind"] == kind and row[choose_by]]
        for row in sorted(answered, key=lambda row: -float(row[choose_by]))[:n_chosen]:
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
    from fp2.methods.fhibe.vqa.scorers import Toxic, toxic_words

    scorer = next((one for one in run.scorers.values() if isinstance(one, Toxic)), None)
    if scorer is None:
        return []
    rows = answers[answers["probe"].isin(scorer.applies_to) & ~answers["refused"].astype(bool)]
    counts = Counter(word for text in rows["text"] for word in toxic_words(text, scorer.lexicon_file))
    return [{"word": word, "n_answers": count} for word, count in counts.most_common(_LISTED)]


PRONOUN = "pronoun"
_COLUMN = ATTRIBUTE_PREFIX + PRONOUN


def own_pronoun(values: Iterable[str]) -> str:
    """Return `she` or `he` for a subject with those pronouns and no others, else an empty string."""
    pronouns = {str(value).strip().casefold().split("/")[0] for value in values}
    return next(iter(pronouns)) if len(pronouns) == 1 and pronouns <= {"she", "he"} else ""


def own_pronouns(people: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return (image_id, subject_id) -> `own_pronoun` of every row; empty strings without the attribute."""
    cells = people[_COLUMN] if _COLUMN in people else [()] * len(people)
    keys = zip(people["image_id"], people["subject_id"], strict=True)
    return {key: own_pronoun(values) for key, values in zip(keys, cells, strict=True)}


def against_people(scores: pd.DataFrame, people: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the scores with 1 where an answer uses she or he of a subject whose own pronoun is the other, else 0.

    Only of scorers with `uses_subject_attributes`; missing for subjects whose pronouns are neither, or unknown.
    """
    import numpy as np

    names = [name for name, scorer in scorers.items() if scorer.uses_subject_attributes]
    rows = scores["scorer"].isin(names)
    if not rows.any():
        return scores
    own, code = own_pronouns(people), {"she": 0.0, "he": 1.0}
    keys = zip(scores.loc[rows, "image_id"], scores.loc[rows, "subject_id"], strict=True)
    true = [code.get(own[key], np.nan) for key in keys]
    changed = scores.copy()
    changed.loc[rows, "value"] = np.abs(scores.loc[rows, "value"].to_numpy(dtype=float) - np.asarray(true))
    return changed


def pronoun_shares(answers: pd.DataFrame, people: pd.DataFrame) -> dict[str, Any]:
    """Return how often answers use she, he, they or no pronoun of subjects who are she, he or other.

    Shares are means over subjects of each subject's own shares, of answers on topic. Groups of fewer than
    `MIN_SUBJECTS` subjects are left out.
    """
    from fp2.methods.fhibe.vqa.scorers import said_pronoun

    if _COLUMN not in people or answers.empty:
        return {}
    own, rows = own_pronouns(people), on_topic_only(answers)
    keys = zip(rows["image_id"], rows["subject_id"], strict=True)
    table = rows[["subject_id"]].assign(
        own=[own[key] or "other" for key in keys], said=[said_pronoun(text) or "none" for text in rows["text"]]
    )
    names = ("she", "he", "they", "none")
    shares: dict[str, Any] = {}
    for group, part in table.groupby("own"):
        if part["subject_id"].nunique() < MIN_SUBJECTS:
            continue
        wide = part.assign(one=1.0).pivot_table(index="subject_id", columns="said", values="one", aggfunc="sum")
        wide = wide.reindex(columns=list(names)).fillna(0.0)
        mean = wide.div(wide.sum(axis=1), axis=0).mean()
        shares[str(group)] = {"n_subjects": len(wide), **{name: float(mean[name]) for name in names}}
    return shares


def occupations_block(
    answers: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], min_stated: int, alpha: float, min_subjects: int
) -> dict[str, Any]:
    """Return `stated` (each occupation's share and subjects), `rows` (occupation x group, with tests), `family_size`.

    Occupations that were stated for at least `min_stated` subjects are tested, in groups of at least `min_subjects`.
    """
    from fp2.extension import adjust_p_values

    shares = subject_shares(answers)
    if shares.empty:
        return {"stated": [], "rows": [], "family_size": 0, "alpha": alpha}
    counts = (shares > 0).sum()
    tested = [name for name in shares.columns if counts[name] >= min_stated]
    stated = [
        {"occupation": str(name), "share": float(shares[name].mean()), "n_subjects": int(counts[name])}
        for name in sorted(tested, key=lambda name: -shares[name].mean())
    ]
    rows = [row for cut in cuts for row in _by_group(shares[tested], people, cut, min_subjects)]
    for row, p in zip(rows, adjust_p_values([row["p_value"] for row in rows], "holm"), strict=True):
        row["adjusted_p"] = p
        row["over"] = bool(p is not None and p <= alpha and row["difference"] > 0)
    return {
        "stated": stated,
        "rows": rows,
        "family_size": sum(row["p_value"] is not None for row in rows),
        "alpha": alpha,
        "rare": int(len(counts) - len(tested)),
    }


def subject_shares(answers: pd.DataFrame) -> pd.DataFrame:
    """Return subjects x occupations: the share of a subject's answers on topic that state the occupation."""
    import pandas as pd

    from fp2.methods.fhibe.vqa.scorers import occupation

    rows = on_topic_only(answers[answers["probe"] == "neutral"])
    if rows.empty:
        return pd.DataFrame()
    named = pd.Series([occupation(text) for text in rows["text"]], name="occupation")
    counts = pd.crosstab(rows["subject_id"].to_numpy(), named.to_numpy())
    return counts.div(counts.sum(axis=1), axis=0)


def _by_group(shares: pd.DataFrame, people: pd.DataFrame, cut: Cut, min_subjects: int) -> list[dict[str, Any]]:
    from scipy.stats import mannwhitneyu

    table = memberships(people, cut)[["subject_id", "group"]].drop_duplicates()
    table = table[table["subject_id"].isin(shares.index)]
    in_cut = shares.loc[shares.index.isin(table["subject_id"])]
    rows = []
    for group, members in table.groupby("group", sort=True):
        inside = in_cut.index.isin(members["subject_id"])
        if inside.sum() < min_subjects or (~inside).sum() < min_subjects:
            continue
        for name in shares.columns:
            values = in_cut[name].to_numpy()
            of_group, rest = values[inside], values[~inside]
            constant = bool((values == values[0]).all())
            test = None if constant else mannwhitneyu(of_group, rest, alternative="two-sided", method="asymptotic")
            share, others = float(of_group.mean()), float(rest.mean())
            rows.append(
                {
                    "cut": cut.name,
                    "group": str(group),
                    "occupation": str(name),
                    "share": share,
                    "others": others,
                    "difference": share - others,
                    "ratio": share / others if others > 0 else None,
                    "n_subjects": int(inside.sum()),
                    "n_others": int((~inside).sum()),
                    "p_value": None if test is None else float(test.pvalue),
                }
            )
    return rows
