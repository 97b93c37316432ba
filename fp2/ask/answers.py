"""The tables of a run: subjects, answers (a row each, or dense arrays) and scores, in memory and in the run's folder.

Every protocol analyses a `RunTables`: when the answers have just arrived, and again when the tables of a logged run
changed (a purge, a rescoring). In the folder, and whenever they are read back from it, all ids are salted keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fp2 import artifacts
from fp2.ask.storage import Answers, dense_storage
from fp2.errors import Fp2Error
from fp2.hashing import digest
from fp2.results import FrequentAnswer
from fp2.store.response_keys import response_set
from fp2.tables import (
    ANSWERS,
    ATTRIBUTE_PREFIX,
    CONTROLS,
    STILL_REASONING,
    SWAPPED,
    UNENDED,
    WITHOUT_ATTEMPT,
    absent_counts,
    attribute_columns,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.store.rows import ResponseStore
    from fp2.store.withdrawn import Withdrawn

_AT_ONCE = 20_000  # keys


@dataclass(frozen=True)
class RunTables:
    """The tables of one run.

    Attributes
    ----------
    people : DataFrame
        Who is in which image (`fp2.tables.PEOPLE`), with the attributes that the run keeps.
    answers : Answers
        What the model returned; empty where no model was asked.
    scores : DataFrame or None
        One row per answer and scorer (`fp2.tables.SCORES`); None where answers are analysed as they are.
    others : mapping
        Further tables of a protocol by file name, with a column `image_id` and perhaps `subject_id`.
    """

    people: pd.DataFrame
    answers: Answers
    scores: pd.DataFrame | None
    others: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def n_answers(self) -> int:
        """Answers planned."""
        return self.answers.n_planned

    @property
    def n_images(self) -> int:
        """Distinct images."""
        return int(self.people["image_id"].nunique())

    @property
    def n_subjects(self) -> int:
        """Distinct subjects."""
        return int(self.people["subject_id"].nunique())

    def keyed(self, salt: bytes) -> RunTables:
        """Return the tables as they may leave the data folder: salted keys, no paths, no fine place or time."""
        from fp2.store.salted_keys import keyed_frame, shareable

        scores = None if self.scores is None else keyed_frame(self.scores, salt)
        others = {name: keyed_frame(table, salt) for name, table in self.others.items()}
        return RunTables(shareable(self.people, salt), self.answers.keyed(salt), scores, others)

    def keeping(self, attributes: Collection[str]) -> RunTables:
        """Return the tables with these attributes of the subjects and no others."""
        unused = [ATTRIBUTE_PREFIX + name for name in attribute_columns(self.people) if name not in attributes]
        return replace(self, people=self.people.drop(columns=unused))

    def without(self, people: pd.DataFrame, images: Collection[str], keys: Collection[str]) -> RunTables:
        """Return the tables of `people`, without what is filed under `images` or stored under `keys`."""
        scores = self.scores
        if scores is not None:
            gone = scores["image_id"].isin(images) | scores["response_key"].isin(keys)
            scores = scores[~gone].reset_index(drop=True)
        others = {
            name: table[~table["image_id"].isin(images)].reset_index(drop=True) for name, table in self.others.items()
        }
        return RunTables(people.reset_index(drop=True), self.answers.without(images, keys), scores, others)

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the keys of the answers that show these images.

        Raises
        ------
        Fp2Error
            If answers are filed under another image than they show: the tables do not say which.
        """
        if SWAPPED in self.answers.variants:
            fix = "Give the command that made it again: its answers come from the store"
            raise Fp2Error("people whose images may stand in place of others here were withdrawn since", fix=fix)
        return self.answers.keys_of(images)

    def present(self, withdrawn: Withdrawn) -> RunTables:
        """Return the tables, whose ids are salted keys, without people who were withdrawn."""
        images = withdrawn.image_ids(self.people, None)
        if not images:
            return self
        return self.without(self.people[~self.people["image_id"].isin(images)], images, self.keys_of(images))

    def response_set(self, before: str, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of what is left of the response set `before`.

        Where the store no longer knows every key, or the run analysed the user's own scores, the digest is that of the
        old one and the salted keys that are left.
        """
        if not self.answers.n_planned and self.scores is not None:
            return digest({"purged_from": before, "kept": sorted(set(self.scores["response_key"]))})
        keys = self.answers.stored_keys()
        if all(key in raw_keys for key in keys):
            return self.answers.response_set(raw_keys)
        return digest({"purged_from": before, "kept": sorted(keys)})

    def write(self, folder: Path) -> None:
        """Write every table over the one in `folder`."""
        artifacts.write_parquet(folder / artifacts.PEOPLE, self.people)
        self.answers.write(folder)
        if self.scores is not None:
            artifacts.write_parquet(folder / artifacts.SCORES, self.scores)
        for name, table in self.others.items():
            artifacts.write_parquet(folder / name, table)


def read_tables(folder: Path, *, scored: bool = True) -> RunTables:
    """Return the tables of a run's folder; `scored`: with its scores, where it has any."""
    import pandas as pd

    try:
        people = pd.read_parquet(folder / artifacts.PEOPLE)
        if people[["image_id", "subject_id"]].isna().any(axis=None):
            raise ValueError("people without an id")
        if (folder / artifacts.SHARDS).is_dir():
            return RunTables(people, dense_storage().read(folder), None)
        answers = RowAnswers(pd.read_parquet(folder / artifacts.RESPONSES))
        scores = pd.read_parquet(folder / artifacts.SCORES) if scored else None
        for table, names in ((answers.frame, {"response_key", "image_id", "text"}), (scores, {"response_key"})):
            if table is not None and (missing := names - set(table.columns)):
                raise KeyError(min(missing))
        return RunTables(people, answers, scores, dict(other_tables(folder)))
    except (OSError, ValueError, KeyError) as error:
        raise Fp2Error(f"the run's tables cannot be read: {error}", where=str(folder)) from error


def other_tables(folder: Path) -> Iterable[tuple[str, pd.DataFrame]]:
    """Yield the further tables of a run by file name."""
    import pandas as pd

    own_tables = {artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES, artifacts.DISPARITIES}
    for path in sorted(folder.glob("*.parquet")):
        if path.name not in own_tables and "image_id" in (table := pd.read_parquet(path)).columns:
            yield path.name, table


_DTYPES = {"string": "str", "int64": "int64", "float64": "float64", "bool": "bool"}


@dataclass(frozen=True)
class RowAnswers:
    """The answers table, with the flag `refused` once it was scored (see `fp2.ask.storage.Answers`)."""

    frame: pd.DataFrame

    @classmethod
    def none(cls) -> RowAnswers:
        """Return the empty table of a run that asked no model."""
        import pandas as pd

        empty = {column.name: pd.Series([], dtype=_DTYPES[column.type]) for column in ANSWERS.columns}
        return cls(pd.DataFrame({**empty, "refused": pd.Series([], dtype="bool")}))

    @property
    def answered(self) -> pd.DataFrame:
        """The rows with an answer."""
        return self.frame[self.frame["status"] == "answered"]

    @property
    def n_planned(self) -> int:
        """How many answers were planned."""
        return len(self.frame)

    @property
    def variants(self) -> set[str]:
        """The kinds of image variants that were shown."""
        return set(self.frame["variant"])

    def counts(self, model_calls: int) -> dict[str, int]:
        """Return planned, answered, refused, failed and cached answers, and the model calls."""
        answered = self.frame["status"] == "answered"
        absent = absent_counts(
            {name: int((self.frame["error"] == reason).sum()) for name, reason in WITHOUT_ATTEMPT.items()}
        )
        return {
            "planned": len(self.frame),
            "answered": int(answered.sum()),
            "refused": int(self.frame["refused"].sum()),
            "failed": len(self.frame) - int(answered.sum()) - sum(absent.values()),
            "cached": int((self.frame["cached"] & answered).sum()),
            "model_calls": model_calls,
            **absent,
            **absent_counts({UNENDED: self._unended.sum()}),
        }

    @property
    def _unended(self) -> pd.Series:
        """Which answers failed because the reasoning did not end."""
        return self.frame["error"].fillna("").str.startswith(STILL_REASONING)

    def counts_by_group(self, people: pd.DataFrame, cuts: Sequence[Cut]) -> list[dict[str, object]]:
        """Return planned, answered, refused and failed answers per cut and group."""
        from fp2.cuts import memberships, varying

        table = self.frame[["image_id", "subject_id", "status", "refused"]].copy()
        for name, reason in WITHOUT_ATTEMPT.items():
            table[name] = self.frame["error"] == reason
        table["failed"] = (table["status"] != "answered") & ~table[list(WITHOUT_ATTEMPT)].any(axis=1)
        table[UNENDED] = self._unended
        keys = ["image_id", "subject_id"]
        if (people["n_people"] == 2).any():  # one answer about two people counts for both
            table, keys = table.drop(columns="subject_id"), ["image_id"]
        out: list[dict[str, object]] = []
        for cut in cuts:
            merged = table.merge(memberships(varying(people, cut), cut), on=keys)
            for group, members in merged.groupby("group", sort=True):
                failed, absent = (
                    int(members["failed"].sum()),
                    absent_counts(members[list(WITHOUT_ATTEMPT)].sum().to_dict()),
                )
                counts = {"planned": len(members), "answered": len(members) - failed - sum(absent.values())}
                counts |= {"refused": int(members["refused"].sum()), "failed": failed, **absent}
                counts |= absent_counts({UNENDED: members[UNENDED].sum()})
                out.append({"cut": cut.name, "group": str(group), **counts})
        return out

    def refusal_rates(self) -> list[dict[str, object]]:
        """Return per probe the share of refusals among its answers."""
        grouped = self.answered.groupby("probe", sort=False)["refused"]
        return [{"probe": probe, "n": len(refused), "rate": float(refused.mean())} for probe, refused in grouped]

    def diversity(self, probes: Sequence[str]) -> list[dict[str, object]]:
        """Return per probe the number of distinct answers, their entropy (bits), and whether they are uninformative."""
        from fp2.stats.entropy import response_diversity

        answered = self.answered
        texts = {probe: answered.loc[answered["probe"] == probe, "text"].tolist() for probe in probes}
        return [{"probe": probe, **asdict(response_diversity(answers))} for probe, answers in texts.items()]

    def examples(self, per_probe: int) -> list[FrequentAnswer]:
        """Return the most frequent distinct answers of each probe, with their counts."""
        out: list[FrequentAnswer] = []
        for probe, answers in self.answered.groupby("probe", sort=False):
            counts = answers["text"].value_counts().head(per_probe)
            out += [{"probe": str(probe), "text": str(text), "count": int(n)} for text, n in counts.items()]
        return out

    def keyed(self, salt: bytes) -> RowAnswers:
        """Return the answers with salted keys in place of ids and response keys."""
        from fp2.store.salted_keys import keyed_frame

        return RowAnswers(keyed_frame(self.frame, salt))

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the keys of the answers about these images."""
        filed = self.frame["image_id"].isin(images) & ~self.frame["variant"].isin(CONTROLS)
        return set(self.frame.loc[filed, "response_key"])

    def without(self, images: Collection[str], keys: Collection[str]) -> RowAnswers:
        """Return the answers that are neither filed under one of `images` nor stored under one of `keys`."""
        gone = self.frame["image_id"].isin(images) | self.frame["response_key"].isin(keys)
        return RowAnswers(self.frame[~gone].reset_index(drop=True))

    def stored_keys(self) -> list[str]:
        """Return the response keys, without repeats."""
        return list(dict.fromkeys(self.frame["response_key"]))

    def response_set(self, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of the response keys that `raw_keys` maps the salted ones to."""
        return response_set(raw_keys[key] for key in self.stored_keys())

    def compare(self, raw_keys: Mapping[str, str], store: ResponseStore) -> Iterator[str]:
        """Yield how many of the answers the store lacks, and how many it has otherwise."""
        table = self.answered.drop_duplicates("response_key")
        rows = zip(table["response_key"], table["text"], table["numbers"], strict=True)
        lost = changed = 0
        while batch := list(islice(rows, _AT_ONCE)):
            stored = store.get_many([raw_keys[key] for key, _, _ in batch if key in raw_keys])
            for key, text, numbers in batch:
                answer = stored.get(raw_keys.get(key, ""))
                if answer is None:
                    lost += 1
                else:  # pandas has NaN where there are no numbers
                    changed += (answer.text, answer.numbers) != (text, numbers if isinstance(numbers, str) else None)
        if lost:
            yield f"the store lacks {lost} of {len(table)} answers"
        if changed:
            yield f"{changed} of {len(table)} answers in {artifacts.RESPONSES} are not those of the store"

    def write(self, folder: Path) -> None:
        """Write `responses.parquet`."""
        artifacts.write_parquet(folder / artifacts.RESPONSES, self.frame)
