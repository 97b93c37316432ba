"""The answers of a run as leaves of a Merkle tree, and what the passport states of them.

A leaf is six lines: the salted response key, the digest of the question, the image variant, the commitment to the
pixels of the subject's image, the digest of the answer, the digest of the groups that the run used. The answer is its
text; of a question that is scored it is P(Yes) or the options' probabilities (`p_yes_norm`, `p`), rounded to four
decimals. What failed, or was not asked, is no leaf. Leaves are in the order of the tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    IMAGE_DIGEST,
    ORIGINAL,
    RowAnswers,
    attribute_columns,
    digest,
    memberships,
    resolve_cuts,
    with_present_values,
)
from fp2.methods.audit.tree import leaf_hash, root

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Answers, Block, Config, Cut, Results, RunTables

FORM = "key, question, variant, image, answer, groups /1; probabilities rounded to 4 decimals"
DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Leaf:
    """One answer of a run.

    Attributes
    ----------
    key : str
        The salted response key; of an answer in dense storage that of its context, with trait and template.
    probe, question_id : str
    variant : str
    image : str
        The commitment to the pixels (`fp2.store.salted_keys.image_commitment`); empty in runs of 0.3.0 and earlier.
    answer : str or float or list
        The text, or the rounded probabilities.
    groups : tuple
        (cut, groups) of the subject in this image.
    """

    key: str
    probe: str
    question_id: str
    variant: str
    image: str
    answer: Any
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def data(self, probes: Mapping[str, Any]) -> bytes:
        """Return the bytes that are hashed; `probes` are those that the passport states, by id."""
        question = digest([probes.get(self.probe), self.question_id])
        return _joined(self.key, question, self.variant, self.image, self.answer, digest(self.groups))


def _joined(key: str, question: str, variant: str, image: str, answer: Any, groups: str) -> bytes:
    answer_digest = hashlib.sha256(json.dumps(answer).encode()).hexdigest()
    return f"{key}\n{question}\n{variant}\n{image}\n{answer_digest}\n{groups}".encode()


def rounded_answer(text: str | None, numbers: Mapping[str, Any] | None) -> Any:
    """Return what a leaf has of an answer: its probabilities, rounded, where it has any, else its text."""
    value = next((numbers[name] for name in ("p_yes_norm", "p") if name in numbers), None) if numbers else None
    if value is None:
        return text or ""
    return [round(p, DECIMALS) for p in value] if isinstance(value, list) else round(value, DECIMALS)


def leaves_of(tables: RunTables, cuts: Sequence[Cut]) -> Iterator[Leaf]:
    """Yield the answers of a run's tables (with salted keys), in their order."""
    groups, images = _groups_of(tables.people, cuts), _images_of(tables.people)
    answers = tables.answers
    if not isinstance(answers, RowAnswers):
        yield from _dense_leaves(answers, groups, images)
        return
    table = answers.answered
    names = ("response_key", "probe", "question_id", "variant", "image_id", "subject_id", "text", "numbers")
    for key, probe, question_id, variant, image, subject, text, numbers in zip(
        *(table[name].tolist() for name in names), strict=True
    ):
        answer = rounded_answer(text, json.loads(numbers) if isinstance(numbers, str) else None)
        yield Leaf(key, probe, question_id, variant, images.get(image, ""), answer, groups.get((image, subject), ()))


def _dense_leaves(answers: Answers, groups: Mapping[Any, Any], images: Mapping[str, str]) -> Iterator[Leaf]:
    import numpy as np

    from fp2.methods.dense.answers import DenseAnswers

    assert isinstance(answers, DenseAnswers)
    names = answers.questions.set_index(["trait", "template"])[["probe", "question_id"]].to_dict("index")
    variant = answers.variant or ORIGINAL
    for row, (image, subject, context) in enumerate(
        zip(answers.image_ids, answers.subject_ids, answers.contexts, strict=True)
    ):
        values = answers.columns["p_yes_norm"][row].astype(np.float64).tolist()
        is_answered, labels = answers.answered[row].tolist(), groups.get((image, subject), ())
        for word, of_word, answered in zip(answers.words, values, is_answered, strict=True):
            for template, value, there in zip(answers.templates, of_word, answered, strict=True):
                if there:
                    about = names[word, template]
                    key = f"{context}/{word}/{template}"
                    yield Leaf(
                        key,
                        about["probe"],
                        about["question_id"],
                        variant,
                        images.get(image, ""),
                        round(value, DECIMALS),
                        labels,
                    )


def _groups_of(people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[tuple[str, str], Any]:
    """Return (image, subject) -> its groups by cut."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for cut in cuts:
        table = memberships(people, cut)
        for image, subject, group in zip(table["image_id"], table["subject_id"], table["group"], strict=True):
            groups.setdefault((image, subject), {}).setdefault(cut.name, []).append(group)
    return {name: tuple((cut, tuple(of_cut)) for cut, of_cut in row.items()) for name, row in groups.items()}


def _images_of(people: pd.DataFrame) -> dict[str, str]:
    """Return image -> the commitment to its pixels; empty for tables that have none."""
    if IMAGE_DIGEST not in people:
        return {}
    return dict(zip(people["image_id"], people[IMAGE_DIGEST], strict=True))


def leaf_hashes(leaves: Iterator[Leaf], probes: Sequence[Mapping[str, Any]]) -> list[bytes]:
    """Return the hash of each leaf; `probes` are those of `results.json`."""
    by_id = {probe["id"]: probe for probe in probes}
    question = cache(lambda probe, question_id: digest([by_id.get(probe), question_id]))
    groups_digest = cache(digest)
    return [
        leaf_hash(
            _joined(
                leaf.key,
                question(leaf.probe, leaf.question_id),
                leaf.variant,
                leaf.image,
                leaf.answer,
                groups_digest(leaf.groups),
            )
        )
        for leaf in leaves
    ]


def run_cuts(config: Config, tables: RunTables) -> tuple[Cut, ...]:
    """Return the cuts of a run whose tables these are: after a purge, without values that nobody has any more."""
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(tables.people))
    return tuple(with_present_values(tables.people, cut) for cut in cuts)


def state_root(config: Config, tables: RunTables, results: Results) -> Block:
    """Return what the passport states of the answers (`answers_root`); nothing of a run that asked no model."""
    if not tables.answers.n_planned:
        return {}
    hashes = leaf_hashes(leaves_of(tables, run_cuts(config, tables)), results["probes"])
    return {"answers_root": {"sha256": root(hashes).hex(), "leaves": len(hashes), "leaf": FORM}}
