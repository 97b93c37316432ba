"""The interface of a storage: where the answers of a plan are kept, and what they are once the run has them.

There is a row for each answer (`fp2.ask.rows`, `fp2.ask.answers.RowAnswers`), or a package has its own storage
(`StorageKind`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from fp2.plugins import STORAGES, load
from fp2.store.kinds import StoredTables

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.plan import Plan
    from fp2.cuts import Cut
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.results import FrequentAnswer
    from fp2.store.leases import Leases
    from fp2.store.rows import ResponseStore
    from fp2.tables import Answer, ImageTask

Writing = Callable[[], AbstractContextManager[Collection[str]]]
"""Holds the lock under which answers are stored, and gives the images of withdrawn people, of which none is stored."""


@dataclass(frozen=True)
class Forecast:
    """What of a plan is in the store; answers that share one key count once.

    Attributes
    ----------
    stored, failed, left : int
        Distinct answers that are there, that failed in earlier runs, and that have to be asked.
    seconds : float or None
        Mean time that a stored answer took; None without any.
    disk : str
        What store and run folder will take, in words.
    tokens : float or None
        Mean tokens that a stored answer took; None where that is unknown.
    """

    stored: int
    failed: int
    left: int
    seconds: float | None
    disk: str
    tokens: float | None = None


def of_nobody() -> AbstractContextManager[Collection[str]]:
    """Give no withdrawn image, and hold no lock (`Writing`)."""
    return nullcontext(())


class Storage(Protocol):
    """Where the answers of one plan are kept, and what is still missing."""

    @property
    def writing(self) -> Writing:
        """Holds the lock under which answers are stored, and gives the withdrawn images."""
        ...

    @property
    def n_planned(self) -> int:
        """Answers planned."""
        ...

    @property
    def n_not_shown(self) -> int:
        """Planned answers whose stimulus cannot be shown."""
        ...

    @property
    def n_failed(self) -> int:
        """Planned answers that failed so far, those that cannot be shown included."""
        ...

    @property
    def response_set(self) -> str:
        """Digest of everything that is planned."""
        ...

    def keys_by_image(self) -> Mapping[str, Sequence[str]]:
        """Return the keys under which answers about each image are stored, by image id."""
        ...

    def forecast(self) -> Forecast:
        """Return what the store has of the plan and what is left to ask, before anything is asked."""
        ...

    def load(self) -> int:
        """Read what the store has; return how many planned answers that is."""
        ...

    def open_tasks(self) -> Sequence[ImageTask]:
        """Return the stimuli with the questions that have no answer yet."""
        ...

    def leases(self) -> Leases:
        """Return the leases on the open questions, not yet entered."""
        ...

    def lease_keys(self, task: ImageTask) -> Sequence[str]:
        """Return the key of the lease on each question of a task."""
        ...

    def refresh(self) -> int:
        """Take over what other runs have answered since; return how many planned answers that is."""
        ...

    def keep(self, batch: Sequence[Answer]) -> int:
        """Store a batch as it comes; return how many of its answers are usable."""
        ...

    def flush(self) -> None:
        """Store what is held back."""
        ...

    def reason(self) -> str:
        """Return why the first failed answer failed, empty where none did."""
        ...

    def answers(self) -> Answers:
        """Return the answers of the run, once asking has ended."""
        ...


@runtime_checkable
class Waves(Protocol):
    """A storage that calls for its answers in waves (`answers.stop`)."""

    @property
    def progress(self) -> str:
        """What is decided so far, in words."""
        ...

    @property
    def facts(self) -> Mapping[str, object]:
        """What the analysis of the run needs besides its tables (`fp2.protocols.base.Job`)."""
        ...

    def expected_answers(self, ratio: float) -> int | None:
        """Return how many answers are expected at a gap of `ratio` minimum detectable effects beyond the smallest.

        None where that does not follow from the gap.
        """
        ...

    def next_wave(self) -> bool:
        """Decide by the answers so far; return whether further ones are called for."""
        ...


class Answers(Protocol):
    """The answers of a run, whichever way they are stored."""

    @property
    def n_planned(self) -> int:
        """How many answers were planned."""
        ...

    @property
    def variants(self) -> set[str]:
        """The kinds of image variants that were shown."""
        ...

    def counts(self, model_calls: int) -> dict[str, int]:
        """Return planned = answered + failed + not_asked + not_supplied; refused, cached (answered); the model calls.

        `not_asked` is there where a run ended before it came to some answers, `not_supplied` where answers that exist
        already lack some.
        """
        ...

    def counts_by_group(self, people: pd.DataFrame, cuts: Sequence[Cut]) -> list[dict[str, object]]:
        """Return the same per cut and group, without cached answers and calls (missingness can differ by group)."""
        ...

    def refusal_rates(self) -> list[dict[str, object]]:
        """Return per probe the share of refusals among its answers."""
        ...

    def diversity(self, probes: Sequence[str]) -> list[dict[str, object]]:
        """Return per probe the number of distinct answers, their entropy (bits), and whether they are uninformative."""
        ...

    def examples(self, per_probe: int) -> list[FrequentAnswer]:
        """Return the most frequent distinct answers of each probe, with their counts."""
        ...

    def keyed(self, salt: bytes) -> Answers:
        """Return the answers with salted keys in place of ids and response keys."""
        ...

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the keys of the answers about these images (none of a control variant, which shows others)."""
        ...

    def without(self, images: Collection[str], keys: Collection[str]) -> Answers:
        """Return the answers that are neither filed under one of `images` nor stored under one of `keys`."""
        ...

    def stored_keys(self) -> list[str]:
        """Return the keys under which the store has the answers, without repeats."""
        ...

    def response_set(self, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of the response set; `raw_keys` maps each of `stored_keys` to its response key."""
        ...

    def compare(self, raw_keys: Mapping[str, str], store: ResponseStore) -> Iterator[str]:
        """Yield in words how many of the answers the store lacks, and how many it has otherwise.

        `raw_keys` maps those of `stored_keys` that the store knows to its own.
        """
        ...

    def write(self, folder: Path) -> None:
        """Write them over the ones in `folder`."""
        ...


class StorageKind(StoredTables, Protocol):
    """A way of storing answers beside a row per answer: the entry point `dense` of the group `fp2.storages`.

    It is used where the protocol requires it (`fp2.protocols.base.Requirements.dense`).
    """

    def open(self, plan: Plan, engine: Engine, battery: Battery, store: ResponseStore, writing: Writing) -> Storage:
        """Return the storage of the answers of a plan."""
        ...

    def disk(self, answers: int, new: int) -> str:
        """Return in words what so many answers take in store and run folder; `new` of them enter the store."""
        ...

    def read(self, folder: Path) -> Answers:
        """Return the answers in a run's folder."""
        ...

    def means(self, folder: Path, outcome: str) -> tuple[Mapping[str, str], pd.DataFrame] | None:
        """Return what is compared between runs, by probe: the text, and the values (image_id, subject_id) x probe.

        None where the answers in the folder lack the outcome.
        """
        ...


def dense_storage() -> StorageKind:
    """Return the installed storage of arrays; raise an `Fp2Error` where there is none."""
    kind: StorageKind = load(STORAGES, "dense", "the answers")
    return kind
