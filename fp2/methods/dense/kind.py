"""Dense storage as the core finds it: the entry point `dense` of the group `fp2.storages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fp2.extension import ResponseStore, problem_of
from fp2.methods.dense.answers import DenseAnswers
from fp2.methods.dense.merge import add_block_failures, add_blocks
from fp2.methods.dense.storage import DenseStorage, disk
from fp2.methods.dense.store import COLUMNS, DenseStore
from fp2.methods.dense.trait_battery import asked_traits

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Battery, Engine, Plan, Writing


def _question_sets(store: ResponseStore) -> Iterator[str | None]:
    read = DenseStore(store.connection, store.path)
    for (key,) in store.connection.execute("SELECT digest FROM question_sets"):
        yield problem_of(read.question_set, key)


def _blocks(store: ResponseStore) -> Iterator[str | None]:
    read = DenseStore(store.connection, store.path)
    for fields in store.connection.execute(f"SELECT {COLUMNS} FROM blocks"):
        yield problem_of(lambda row: read.question_set(read.checked(row).question_set), fields)


class Dense:
    """One array per stimulus (see `fp2.ask.storage.StorageKind`)."""

    tables = ("blocks", "block_failures")
    checks: ClassVar = {"question_sets": _question_sets, "blocks": _blocks}
    merges = (add_blocks, add_block_failures)
    disk = staticmethod(disk)
    read = staticmethod(DenseAnswers.read)

    def open(
        self, plan: Plan, engine: Engine, battery: Battery, store: ResponseStore, writing: Writing
    ) -> DenseStorage:
        """Return the storage of the answers of a plan, whose battery asks about traits."""
        return DenseStorage(plan, engine, asked_traits(battery), store, writing)

    def means(self, folder: Path, outcome: str) -> tuple[Mapping[str, str], pd.DataFrame] | None:
        """Return the texts of each trait, and its outcome as the mean over the templates: what a run is compared by."""
        import pandas as pd

        answers = DenseAnswers.read(folder)
        if outcome not in answers.columns:
            return None
        index = pd.MultiIndex.from_arrays([answers.image_ids, answers.subject_ids], names=["image_id", "subject_id"])
        means = answers.columns[outcome].mean(axis=2, dtype=np.float64)
        texts = answers.questions.groupby("trait", sort=False)["text"]
        return {str(word): "\n".join(of_trait) for word, of_trait in texts}, pd.DataFrame(
            means, index=index, columns=[*answers.words]
        )


DENSE = Dense()
