"""Yes/no answers as arrays in memory, and as Parquet shards in long form in the run's folder.

A shard, `responses/part-00000.parquet`, has a row per image, trait and template, in this order, at most
`ROWS_PER_SHARD` of them: `image_id, subject_id, context` (salted keys), `variant, trait, template`, the seven float32
numbers of `YES_NO_NUMBERS` (null where there is none), `cached`, and `error` (null where there is an answer). Shards
are made and written one by one. `questions.parquet` has a row per question: its text, its key, the trait's valence.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fp2.extension import (
    CONTROLS,
    ORIGINAL,
    STILL_REASONING,
    UNENDED,
    WITHOUT_ATTEMPT,
    YES_NO_NUMBERS,
    Fp2Error,
    absent_counts,
    artifacts,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from fp2.extension import Cut, FrequentAnswer, ResponseStore
    from fp2.methods.dense.storage import DenseStorage
    from fp2.methods.dense.traits import Trait

SHARDS, QUESTIONS = artifacts.SHARDS, artifacts.QUESTIONS
ROWS_PER_SHARD = 250_000
_NAMES = ("image_id", "subject_id", "context", "variant", "trait", "template", "error")

Names = NDArray[np.object_]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class DenseAnswers:
    """What n images were answered to every trait and template (see `fp2.ask.storage.Answers`); ids may be salted keys.

    Attributes
    ----------
    image_ids, subject_ids, contexts : arrays (n,)
        Who is in each image, and the key of what was shown.
    traits : tuple of Trait
        What was asked about.
    templates : tuple of str
        In which templates.
    columns : mapping
        `YES_NO_NUMBERS` -> (n, traits, templates) float32, NaN where there is no answer.
    cached : array (n, traits, templates)
        Which answers came from the store.
    errors : array (n, traits, templates)
        Which of `reasons` a missing answer has, -1 for an answer.
    questions : DataFrame
        What was asked: `question_id, probe, template, trait, polarity, valence, text, kind, question_key`.
    """

    image_ids: Names
    subject_ids: Names
    contexts: Names
    traits: tuple[Trait, ...]
    templates: tuple[str, ...]
    columns: Mapping[str, Floats]
    cached: NDArray[np.bool_]
    errors: NDArray[np.int32]
    reasons: tuple[str, ...]
    questions: pd.DataFrame
    variant: str = ORIGINAL

    @property
    def words(self) -> tuple[str, ...]:
        """The trait words, in order."""
        return tuple(trait.word for trait in self.traits)

    @property
    def per_image(self) -> int:
        """How many questions each image was asked."""
        return len(self.traits) * len(self.templates)

    @property
    def n_planned(self) -> int:
        """How many answers were planned."""
        return len(self.image_ids) * self.per_image

    @property
    def variants(self) -> set[str]:
        """The image variant."""
        return {self.variant}

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which answers there are, (n, traits, templates)."""
        return self.errors < 0

    def absent(self) -> dict[str, NDArray[np.bool_]]:
        """Return which answers are missing without having failed, by name of the count (`WITHOUT_ATTEMPT`)."""
        return {
            name: self.errors == self.reasons.index(reason)
            for name, reason in WITHOUT_ATTEMPT.items()
            if reason in self.reasons
        }

    def where(self, mask: NDArray[np.bool_]) -> DenseAnswers:
        """Return the answers about the images that are marked."""
        columns = {name: values[mask] for name, values in self.columns.items()}
        return replace(
            self,
            image_ids=self.image_ids[mask],
            subject_ids=self.subject_ids[mask],
            contexts=self.contexts[mask],
            columns=columns,
            cached=self.cached[mask],
            errors=self.errors[mask],
        )

    def keyed(self, salt: bytes) -> DenseAnswers:
        """Return the answers with salted keys in place of ids and contexts."""
        from fp2.extension import salted

        images, subjects = salted(self.image_ids, salt, "image"), salted(self.subject_ids, salt)
        contexts = salted(self.contexts, salt, "response")
        return replace(self, image_ids=_names(images), subject_ids=_names(subjects), contexts=_names(contexts))

    def counts(self, model_calls: int) -> dict[str, int]:
        """Return planned, answered, refused, failed and cached answers, and the model calls."""
        n_answered = int(self.answered.sum())
        absent = absent_counts({name: mask.sum() for name, mask in self.absent().items()})
        return {
            "planned": int(self.errors.size),
            "answered": n_answered,
            "refused": 0,
            "failed": int(self.errors.size) - n_answered - sum(absent.values()),
            "cached": int((self.cached & self.answered).sum()),
            "model_calls": model_calls,
            **absent,
            **absent_counts({UNENDED: self._unended.sum()}),
        }

    @property
    def _unended(self) -> NDArray[np.bool_]:
        """Which answers failed because the reasoning did not end."""
        codes = [code for code, reason in enumerate(self.reasons) if str(reason).startswith(STILL_REASONING)]
        return np.isin(self.errors, codes)

    def counts_by_group(self, people: pd.DataFrame, cuts: Sequence[Cut]) -> list[dict[str, object]]:
        """Return planned, answered, refused and failed answers per cut and group."""
        import pandas as pd

        from fp2.extension import memberships

        answered = self.answered.sum(axis=(1, 2))
        kinds = {name: mask.sum(axis=(1, 2)) for name, mask in self.absent().items()}
        table = pd.DataFrame({"image_id": self.image_ids, "subject_id": self.subject_ids})
        table = table.assign(answered=answered, **kinds, **{UNENDED: self._unended.sum(axis=(1, 2))})
        rows = []
        for cut in cuts:
            merged = table.merge(memberships(people, cut), on=["image_id", "subject_id"])
            for group, members in merged.groupby("group", sort=True):
                planned, done = len(members) * self.per_image, int(members["answered"].sum())
                absent = absent_counts(members[list(kinds)].sum().to_dict())
                failed = planned - done - sum(absent.values())
                row = {"planned": planned, "answered": done, "refused": 0, "failed": failed, **absent}
                row |= absent_counts({UNENDED: members[UNENDED].sum()})
                rows.append({"cut": cut.name, "group": str(group), **row})
        return rows

    def refusal_rates(self) -> list[dict[str, object]]:
        """Return nothing: a probability declines no question."""
        return []

    def diversity(self, probes: Sequence[str]) -> list[dict[str, object]]:
        """Return nothing: the answers are numbers."""
        return []

    def examples(self, per_probe: int) -> list[FrequentAnswer]:
        """Return nothing: the answers are numbers."""
        return []

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the contexts that show these images."""
        if self.variant in CONTROLS:
            return set()
        return set(self.contexts[np.isin(self.image_ids, list(images))].tolist())

    def without(self, images: Collection[str], keys: Collection[str]) -> DenseAnswers:
        """Return the answers that are neither filed under one of `images` nor given in one of the contexts `keys`."""
        gone = np.isin(self.image_ids, list(images)) | np.isin(self.contexts, list(keys))
        return self.where(~gone)

    def stored_keys(self) -> list[str]:
        """Return the contexts, without repeats."""
        return sorted(set(self.contexts.tolist()))

    def response_set(self, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of the contexts that `raw_keys` maps the salted ones to, and of the questions."""
        from fp2.methods.dense.store import response_set_of

        return response_set_of([raw_keys[key] for key in self.stored_keys()], set(self.questions["question_key"]))

    def rows(self) -> pd.DataFrame:
        """Return a row per answer, image by image: who, what was asked, the numbers, and `status, error`."""
        import pandas as pd

        n = len(self.image_ids)
        pairs = [(word, template) for word in self.words for template in self.templates]
        asked = self.questions.set_index(["trait", "template"], drop=False).loc[pairs]
        reasons: NDArray[np.object_] = np.array([*self.reasons, None], dtype=object)
        names = {
            "probe": "probe",
            "question_id": "question_id",
            "question_text": "text",
            "trait": "trait",
            "template": "template",
        }
        return pd.DataFrame(
            {
                "image_id": np.repeat(self.image_ids, self.per_image),
                "subject_id": np.repeat(self.subject_ids, self.per_image),
                "variant": self.variant,
                **{name: np.tile(asked[column].to_numpy(dtype=object), n) for name, column in names.items()},
                **{name: values.reshape(-1).astype(np.float64) for name, values in self.columns.items()},
                "status": np.where(self.answered.reshape(-1), "answered", "error"),
                "error": reasons[self.errors.reshape(-1)],
            }
        )

    def compare(self, raw_keys: Mapping[str, str], store: ResponseStore) -> Iterator[str]:
        """Yield how many of the answers the store lacks, and how many it has otherwise."""
        from fp2.methods.dense.store import DenseStore, QuestionSet

        dense, table = DenseStore(store.connection, store.path), self.questions
        wanted = QuestionSet(tuple(dict.fromkeys(table["question_key"])))
        pairs = zip(table["trait"], table["template"], table["question_key"], strict=True)
        column = {(trait, template): wanted.place[key] for trait, template, key in pairs}
        columns_of = np.array([[column[word, template] for template in self.templates] for word in self.words])
        rows: dict[str, list[int]] = {}
        for row, context in enumerate(self.contexts.tolist()):
            if context in raw_keys:
                rows.setdefault(raw_keys[context], []).append(row)
        is_answered = self.answered
        n_answered, compared, changed = int(is_answered.sum()), 0, 0
        for context, numbers in dense.read(list(rows), wanted):
            for row in rows[context]:
                compared += int(is_answered[row].sum())
                mine = np.stack([self.columns[name][row] for name in YES_NO_NUMBERS])
                same = np.isclose(mine, numbers[:, columns_of], rtol=0, atol=0, equal_nan=True).all(axis=0)
                changed += int((~same & is_answered[row]).sum())
        if compared < n_answered:
            yield f"the store lacks {n_answered - compared} of {n_answered} answers"
        if changed:
            yield f"{changed} of {n_answered} answers in the shards are not those of the store"

    def write(self, folder: Path, per_shard: int = ROWS_PER_SHARD) -> None:
        """Write `questions.parquet` and the shards over those in `folder`, one after the other."""
        import pyarrow.parquet as pq

        artifacts.write_parquet(folder / QUESTIONS, self.questions)
        shutil.rmtree(folder / SHARDS, ignore_errors=True)
        (folder / SHARDS).mkdir(parents=True)
        images = max(1, per_shard // max(1, self.per_image))
        for number, start in enumerate(range(0, max(1, len(self.image_ids)), images)):
            pq.write_table(
                self._shard(slice(start, start + images)),
                folder / SHARDS / f"part-{number:05d}.parquet",
                compression="zstd",
                use_dictionary=list(_NAMES),
                use_byte_stream_split=list(YES_NO_NUMBERS),
            )

    def _shard(self, images: slice) -> pa.Table:
        import pyarrow as pa

        n, errors = len(self.image_ids[images]), self.errors[images].reshape(-1)
        each, ones = np.repeat(np.arange(n, dtype=np.int32), self.per_image), np.zeros(n * self.per_image, np.int32)
        within = np.arange(n * self.per_image, dtype=np.int32) % max(1, self.per_image)
        codes = {
            "image_id": (each, self.image_ids[images]),
            "subject_id": (each, self.subject_ids[images]),
            "context": (each, self.contexts[images]),
            "variant": (ones, [self.variant]),
            "trait": (within // max(1, len(self.templates)), self.words),
            "template": (within % max(1, len(self.templates)), self.templates),
        }
        columns: dict[str, Any] = {name: _dictionary(code, names) for name, (code, names) in codes.items()}
        for name, values in self.columns.items():
            columns[name] = pa.array(values[images].reshape(-1), pa.float32(), from_pandas=True)
        columns["cached"] = pa.array(self.cached[images].reshape(-1))
        columns["error"] = _dictionary(errors, self.reasons, missing=errors < 0)
        return pa.table(columns)

    @classmethod
    def read(cls, folder: Path) -> DenseAnswers:
        """Return the answers in a run's folder."""
        import pandas as pd

        from fp2.methods.dense.traits import Trait

        questions = pd.read_parquet(folder / QUESTIONS)
        of_traits = questions.drop_duplicates("trait")
        trait_of = {
            word: Trait(word, polarity, None if valence != valence else float(valence))
            for word, polarity, valence in zip(
                of_traits["trait"], of_traits["polarity"], of_traits["valence"], strict=True
            )
        }
        parts = [_part(shard, folder, questions, trait_of) for shard in _shards(folder)]
        first = parts[0]
        for part in parts[1:]:
            if (part.traits, part.templates) != (first.traits, first.templates):
                raise Fp2Error("the run's shards have different questions", where=str(folder / SHARDS))
        code_of = {reason: code for code, reason in enumerate(dict.fromkeys(r for part in parts for r in part.reasons))}
        names = ("image_ids", "subject_ids", "contexts")
        ids: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in YES_NO_NUMBERS}
        cached = np.concatenate([part.cached for part in parts])
        errors = np.concatenate([_recoded(part, code_of) for part in parts])
        return replace(first, **ids, columns=columns, cached=cached, errors=errors, reasons=tuple(code_of))


def collect(storage: DenseStorage) -> DenseAnswers:
    """Return the answers of a run, one entry per row of its plan."""
    import pandas as pd

    plan = storage.plan
    traits, templates, grid = storage.grid
    hidden, rows = storage.rows < 0, np.maximum(storage.rows, 0)
    shape = (len(plan.rows), len(traits), len(templates))
    question_columns = storage.places[grid]
    columns = {name: np.full(shape, np.nan, dtype=np.float32) for name in YES_NO_NUMBERS}
    cached, errors = np.zeros(shape, dtype=bool), np.full(shape, -1, dtype=np.int32)
    if len(storage.contexts):
        for index, name in enumerate(YES_NO_NUMBERS):
            columns[name] = storage.numbers[:, index, :][rows[:, None, None], question_columns[None]]
            columns[name][hidden] = np.nan
        cached = storage.stored[rows[:, None, None], question_columns[None]] & ~hidden[:, None, None]
    missing = np.isnan(np.stack([values.min(axis=(1, 2)) for values in columns.values()])).any(axis=0)
    reasons: dict[str, int] = {}
    spots = {int(question): spot for spot, question in zip(np.ndindex(grid.shape), grid.ravel(), strict=True)}
    for row in np.flatnonzero(missing).tolist():
        for question, reason in storage.missing(row).items():
            errors[(row, *spots[question])] = reasons.setdefault(reason, len(reasons))
    contexts = [storage.contexts[row] if row >= 0 else "" for row in storage.rows.tolist()]
    trait_of = {trait.word: trait for trait in storage.traits}
    variant = plan.rows[0].variant if plan.rows else ORIGINAL
    keys = storage.question_set.questions
    questions = [
        {
            "question_id": asked.question_id,
            "probe": asked.probe,
            "template": asked.template,
            "trait": asked.trait,
            "polarity": trait_of[asked.trait].polarity,
            "valence": trait_of[asked.trait].valence,
            "text": asked.text,
            "kind": asked.kind,
            "question_key": keys[column],
        }
        for asked, column in zip(storage.plan.questions, storage.places.tolist(), strict=True)
    ]
    return DenseAnswers(
        _names(row.image_id for row in plan.rows),
        _names(row.subject_id for row in plan.rows),
        _names(contexts),
        tuple(trait_of[word] for word in traits),
        templates,
        columns,
        cached,
        errors,
        tuple(reasons),
        pd.DataFrame(questions).astype({"valence": "float64"}),
        variant,
    )


def _recoded(shard: DenseAnswers, code_of: Mapping[str, int]) -> NDArray[np.int32]:
    codes = np.array([*(code_of[reason] for reason in shard.reasons), -1], dtype=np.int32)
    recoded: NDArray[np.int32] = codes[shard.errors]
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


def _part(shard: pa.Table, folder: Path, questions: pd.DataFrame, trait_of: Mapping[str, Trait]) -> DenseAnswers:
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
    reasons = tuple(names["error"].tolist())
    shard_traits = tuple(trait_of[word] for word in traits)
    return DenseAnswers(
        images, subjects, contexts, shard_traits, templates, columns, cached, errors, reasons, questions, variant
    )


def _dictionary(codes: NDArray[np.integer[Any]], names: Any, missing: NDArray[np.bool_] | None = None) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32), mask=missing), pa.array([str(name) for name in names], pa.string())
    )


def _names(values: Any) -> Names:
    return np.array(list(values), dtype=object)
