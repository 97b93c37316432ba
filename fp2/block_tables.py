"""The answers of a run in blocks as a table: in memory as arrays, on disk as Parquet shards in long form.

A shard, `responses/part-00000.parquet`, has a row per picture, trait and template, in this order, at most
`ROWS_PER_SHARD` of them: `image_id, subject_id, context` (salted keys), `variant, trait, template`, the seven float32
numbers of `YES_NO_NUMBERS` (null where there is none), `cached`, and `error` (null where there is an answer). Shards
are made and written one by one. `questions.parquet` has a row per question: its text, its key, the trait's valence.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.block_asking import BlocksAsked, reasons
from fp2.block_plan import BlockPlan
from fp2.errors import Fp2Error
from fp2.tables import ORIGINAL, YES_NO_NUMBERS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from fp2.cuts import Cut
    from fp2.probes.traits import Trait
    from fp2.protocols.gras.answers import GrasAnswers
    from fp2.tables import Question

SHARDS = "responses"
QUESTIONS = "questions.parquet"
ROWS_PER_SHARD = 250_000
_NAMES = ("image_id", "subject_id", "context", "variant", "trait", "template", "error")

Names = NDArray[np.object_]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class BlockTable:
    """What n pictures were answered to every trait and template; ids may be salted keys.

    Attributes
    ----------
    image_ids, subject_ids, contexts : arrays (n,)
        Who is in each picture, and the key of what was shown.
    traits, templates : tuples of str
        The axes.
    columns : mapping
        `YES_NO_NUMBERS` -> (n, traits, templates) float32, NaN where there is no answer.
    cached : array (n, traits, templates)
        Which answers came from the store.
    errors : array (n, traits, templates)
        Which of `reasons` a missing answer has, -1 for an answer.
    """

    image_ids: Names
    subject_ids: Names
    contexts: Names
    traits: tuple[str, ...]
    templates: tuple[str, ...]
    columns: Mapping[str, Floats]
    cached: NDArray[np.bool_]
    errors: NDArray[np.int32]
    reasons: tuple[str, ...]
    variant: str = ORIGINAL

    @property
    def per_image(self) -> int:
        """How many questions each picture was asked."""
        return len(self.traits) * len(self.templates)

    def where(self, kept: NDArray[np.bool_]) -> BlockTable:
        """Return the table of the pictures that are marked."""
        columns = {name: values[kept] for name, values in self.columns.items()}
        return replace(
            self, image_ids=self.image_ids[kept], subject_ids=self.subject_ids[kept], contexts=self.contexts[kept],
            columns=columns, cached=self.cached[kept], errors=self.errors[kept],
        )  # fmt: skip

    def keyed(self, salt: bytes) -> BlockTable:
        """Return the table with salted keys in place of ids and contexts."""
        from fp2.store.salted_keys import salted

        images, subjects = salted(self.image_ids, salt, "image"), salted(self.subject_ids, salt)
        contexts = salted(self.contexts, salt, "response")
        return replace(self, image_ids=_names(images), subject_ids=_names(subjects), contexts=_names(contexts))

    def answers(self, traits: Sequence[Trait]) -> GrasAnswers:
        """Return what the analysis takes; `traits` are those of the battery."""
        from fp2.protocols.gras.answers import GrasAnswers

        known = {trait.word: trait for trait in traits}
        own = tuple(known[word] for word in self.traits)
        return GrasAnswers(self.image_ids, self.subject_ids, own, self.templates, self.columns)

    def counts(self, model_calls: int) -> dict[str, int]:
        """Return planned = answered + failed, and so on, as `fp2.results.answer_counts`."""
        answered = self.errors < 0
        n_answered = int(answered.sum())
        return {
            "planned": int(answered.size),
            "answered": n_answered,
            "refused": 0,
            "failed": int(answered.size) - n_answered,
            "cached": int((self.cached & answered).sum()),
            "model_calls": model_calls,
        }

    def counts_by_group(self, people: pd.DataFrame, cuts: Sequence[Cut]) -> list[dict[str, Any]]:
        """Return planned, answered, refused and failed answers per cut and group (missing answers can be a bias)."""
        import pandas as pd

        from fp2.cuts import memberships

        answered = (self.errors < 0).sum(axis=(1, 2))
        table = pd.DataFrame({"image_id": self.image_ids, "subject_id": self.subject_ids, "answered": answered})
        rows = []
        for cut in cuts:
            merged = table.merge(memberships(people, cut), on=["image_id", "subject_id"])
            for group, part in merged.groupby("group", sort=True):
                planned, done = len(part) * self.per_image, int(part["answered"].sum())
                row = {"planned": planned, "answered": done, "refused": 0, "failed": planned - done}
                rows.append({"cut": cut.name, "group": str(group), **row})
        return rows

    def write(self, folder: Path, per_shard: int = ROWS_PER_SHARD) -> None:
        """Write the shards of a run's folder over those that are there, one after the other."""
        import pyarrow.parquet as pq

        shutil.rmtree(folder / SHARDS, ignore_errors=True)
        (folder / SHARDS).mkdir(parents=True)
        pictures = max(1, per_shard // max(1, self.per_image))
        for number, start in enumerate(range(0, max(1, len(self.image_ids)), pictures)):
            pq.write_table(
                self._shard(slice(start, start + pictures)),
                folder / SHARDS / f"part-{number:05d}.parquet",
                compression="zstd",
                use_dictionary=list(_NAMES),
                use_byte_stream_split=list(YES_NO_NUMBERS),
            )

    def _shard(self, part: slice) -> pa.Table:
        import pyarrow as pa

        n, here = len(self.image_ids[part]), self.errors[part].reshape(-1)
        each, ones = np.repeat(np.arange(n, dtype=np.int32), self.per_image), np.zeros(n * self.per_image, np.int32)
        within = np.arange(n * self.per_image, dtype=np.int32) % max(1, self.per_image)
        codes = {
            "image_id": (each, self.image_ids[part]),
            "subject_id": (each, self.subject_ids[part]),
            "context": (each, self.contexts[part]),
            "variant": (ones, [self.variant]),
            "trait": (within // max(1, len(self.templates)), self.traits),
            "template": (within % max(1, len(self.templates)), self.templates),
        }
        made: dict[str, Any] = {name: _dictionary(code, names) for name, (code, names) in codes.items()}
        for name, values in self.columns.items():
            made[name] = pa.array(values[part].reshape(-1), pa.float32(), from_pandas=True)
        made["cached"] = pa.array(self.cached[part].reshape(-1))
        made["error"] = _dictionary(here, self.reasons, missing=here < 0)
        return pa.table(made)


def table_of(plan: BlockPlan, asked: BlocksAsked, people: pd.DataFrame, variant: str) -> BlockTable:
    """Return the answers of a run, one entry per row of `people`.

    Raises
    ------
    Fp2Error
        If not every trait is asked about in every template.
    """
    traits, templates, grid = _grid(plan.questions)
    n = len(plan.rows)
    hidden, rows = plan.rows < 0, np.maximum(plan.rows, 0)
    shape = (n, len(traits), len(templates))
    places = plan.places[grid]
    columns = {name: np.full(shape, np.nan, dtype=np.float32) for name in YES_NO_NUMBERS}
    cached, errors = np.zeros(shape, dtype=bool), np.full(shape, -1, dtype=np.int32)
    if len(plan.contexts):
        for place, name in enumerate(YES_NO_NUMBERS):
            columns[name] = asked.numbers[:, place, :][rows[:, None, None], places[None]]
            columns[name][hidden] = np.nan
        cached = asked.stored[rows[:, None, None], places[None]] & ~hidden[:, None, None]
    missing = np.isnan(np.stack([values.min(axis=(1, 2)) for values in columns.values()])).any(axis=0)
    known: dict[str, int] = {}
    spots = {int(question): spot for spot, question in zip(np.ndindex(grid.shape), grid.ravel(), strict=True)}
    for row in np.flatnonzero(missing).tolist():
        for question, reason in reasons(plan, asked, row).items():
            errors[(row, *spots[question])] = known.setdefault(reason, len(known))
    contexts = [plan.contexts[row] if row >= 0 else "" for row in plan.rows.tolist()]
    images, subjects = _names(people["image_id"]), _names(people["subject_id"])
    return BlockTable(
        images, subjects, _names(contexts), traits, templates, columns, cached, errors, tuple(known), variant
    )


def _grid(questions: Sequence[Question]) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int64]]:
    """Return traits, templates, and which question each pair of them is, (traits, templates)."""
    found = {(question.trait, question.template): place for place, question in enumerate(questions)}
    traits = tuple(dict.fromkeys(question.trait for question in questions))
    templates = tuple(dict.fromkeys(question.template for question in questions))
    pairs = [(trait, template) for trait in traits for template in templates]
    lacking = next((pair for pair in pairs if pair not in found), None)
    if lacking or "" in traits or len(found) < len(questions):
        what = f"{lacking[0]!r} in {lacking[1]!r}" if lacking else "a question names no trait, or the same twice"
        fix = "Ask about every trait, once in every template"
        raise Fp2Error(f"the questions are no table of traits and templates: {what}", where="probe", fix=fix)
    grid = np.array([found[pair] for pair in pairs], dtype=np.int64)
    return traits, templates, grid.reshape(len(traits), len(templates))


def write_questions(folder: Path, plan: BlockPlan, traits: Sequence[Trait]) -> None:
    """Write what was asked, the key of each question, and the facts about the traits."""
    import pandas as pd

    questions, keys = plan.questions, plan.question_set.questions
    known = {trait.word: trait for trait in traits}
    rows = [
        {
            "question_id": question.question_id, "probe": question.probe, "template": question.template,
            "trait": question.trait, "polarity": known[question.trait].polarity,
            "valence": known[question.trait].valence, "text": question.text, "kind": question.kind,
            "question_key": keys[place],
        }
        for question, place in zip(questions, plan.places.tolist(), strict=True)
    ]  # fmt: skip
    table = pd.DataFrame(rows).astype({"valence": "float64"})
    table.to_parquet(folder / QUESTIONS, compression="zstd", index=False)


def read_traits(folder: Path) -> tuple[Trait, ...]:
    """Return the traits that a run asked about."""
    import pandas as pd

    from fp2.probes.traits import Trait

    table = pd.read_parquet(folder / QUESTIONS).drop_duplicates("trait")
    columns = zip(table["trait"], table["polarity"], table["valence"], strict=True)
    return tuple(
        Trait(word, polarity, None if valence != valence else float(valence)) for word, polarity, valence in columns
    )


def read_question_keys(folder: Path) -> tuple[str, ...]:
    """Return the keys of the questions that a run asked, without repeats."""
    import pandas as pd

    return tuple(dict.fromkeys(pd.read_parquet(folder / QUESTIONS, columns=["question_key"])["question_key"]))


def in_blocks(folder: Path) -> bool:
    """Whether a run's folder holds answers in blocks."""
    return (folder / SHARDS).is_dir()


def read_table(folder: Path) -> BlockTable:
    """Return the answers that the shards of a run's folder hold.

    Raises
    ------
    Fp2Error
        If a shard cannot be read, or pictures in it lack answers' rows.
    """
    parts = [_part(shard, folder) for shard in _shards(folder)]
    first = parts[0]
    for part in parts[1:]:
        if (part.traits, part.templates) != (first.traits, first.templates):
            raise Fp2Error("the run's shards are about different questions", where=str(folder / SHARDS))
    known = {reason: place for place, reason in enumerate(dict.fromkeys(r for part in parts for r in part.reasons))}
    ids = (np.concatenate([getattr(part, name) for part in parts]) for name in ("image_ids", "subject_ids", "contexts"))
    images, subjects, contexts = ids
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in YES_NO_NUMBERS}
    cached = np.concatenate([part.cached for part in parts])
    errors = np.concatenate([_recoded(part, known) for part in parts])
    return BlockTable(
        images, subjects, contexts, first.traits, first.templates, columns, cached, errors, tuple(known), first.variant
    )


def _recoded(part: BlockTable, known: Mapping[str, int]) -> NDArray[np.int32]:
    codes = np.array([*(known[reason] for reason in part.reasons), -1], dtype=np.int32)
    recoded: NDArray[np.int32] = codes[part.errors]
    return recoded


def _shards(folder: Path) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = sorted((folder / SHARDS).glob("part-*.parquet"))
    if not paths:
        raise Fp2Error("the run has no shards", where=str(folder / SHARDS))
    for path in paths:
        try:
            yield pq.read_table(path, read_dictionary=list(_NAMES)).unify_dictionaries().combine_chunks()
        except (OSError, pa.ArrowException) as error:
            raise Fp2Error(f"a shard cannot be read: {error}", where=str(path)) from error


def _part(shard: pa.Table, folder: Path) -> BlockTable:
    """Return what one shard holds, checked to be complete and in order."""
    codes: dict[str, NDArray[np.int64]] = {}
    names: dict[str, Names] = {}
    for name in _NAMES:
        column = shard[name].combine_chunks().dictionary_encode()
        column = column.chunk(0) if hasattr(column, "chunk") else column
        codes[name] = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        names[name] = _names(column.dictionary.to_pylist())
    traits, templates = tuple(names["trait"].tolist()), tuple(names["template"].tolist())
    per_image = len(traits) * len(templates)
    shape = (len(shard) // max(1, per_image), len(traits), len(templates))
    order = np.arange(per_image)
    if (
        len(shard) != int(np.prod(shape))
        or (codes["trait"].reshape(shape[0], -1) != order // max(1, len(templates))).any()
        or (codes["template"].reshape(shape[0], -1) != order % max(1, len(templates))).any()
    ):
        raise Fp2Error("a shard lacks rows, or they are in another order", where=str(folder / SHARDS))
    firsts = np.arange(shape[0]) * per_image
    images, subjects, contexts = (names[name][codes[name][firsts]] for name in ("image_id", "subject_id", "context"))
    columns = {name: shard[name].to_numpy().astype(np.float32).reshape(shape) for name in YES_NO_NUMBERS}
    errors = codes["error"].astype(np.int32).reshape(shape)
    variant = str(names["variant"][0]) if len(names["variant"]) else ORIGINAL
    cached = shard["cached"].to_numpy().astype(bool).reshape(shape)
    told = tuple(names["error"].tolist())
    return BlockTable(images, subjects, contexts, traits, templates, columns, cached, errors, told, variant)


def _dictionary(codes: NDArray[np.integer[Any]], names: Any, missing: NDArray[np.bool_] | None = None) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=missing), pa.array([str(name) for name in names], pa.string())
    )


def _names(values: Any) -> Names:
    return np.array(list(values), dtype=object)
