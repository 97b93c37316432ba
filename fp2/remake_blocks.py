"""The tables of a run in blocks, as purging and remaking need them (`fp2.remake.RunTables`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2 import artifacts
from fp2.block_tables import BlockTable, read_question_keys, read_table, read_traits
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.tables import CONTROLS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.probes.traits import Trait


@dataclass(frozen=True)
class BlockTables:
    """People and answers of one run, under salted keys; `questions` are the keys of what was asked."""

    people: pd.DataFrame
    table: BlockTable
    traits: tuple[Trait, ...]
    questions: tuple[str, ...]

    @property
    def n_answers(self) -> int:
        """How many answers were planned."""
        return len(self.table.image_ids) * self.table.per_image

    def write(self, folder: Path) -> None:
        """Write them over the ones in `folder`."""
        artifacts.write_parquet(folder / artifacts.PEOPLE, self.people)
        self.table.write(folder)

    def keys_of(self, images: Collection[str]) -> set[str]:
        """Return the salted contexts that show these pictures; none where others were shown in their place."""
        if self.table.variant in CONTROLS:
            return set()
        filed = np.isin(self.table.image_ids, list(images))
        return set(self.table.contexts[filed].tolist())

    def without(self, left: pd.DataFrame, images: Collection[str], keys: Collection[str]) -> BlockTables:
        """Return the tables of the people `left`, without what is filed under `images` or given in contexts `keys`."""
        gone = np.isin(self.table.image_ids, list(images)) | np.isin(self.table.contexts, list(keys))
        return replace(self, people=left.reset_index(drop=True), table=self.table.where(~gone))

    def findings(self, config: Config, cuts: Sequence[Cut], before: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of the results follows from the tables."""
        from fp2.protocols.balance import balance_block
        from fp2.run_blocks import BLOCK, found_in, options_of

        people = self.people
        wording = before.get(BLOCK, {}).get("battery", {})
        return {
            "n_images": int(people["image_id"].nunique()),
            "n_subjects": int(people["subject_id"].nunique()),
            "answers": self.table.counts(before["answers"]["model_calls"]),
            "balance": balance_block(people, cuts),
            **found_in(self.table, self.traits, people, cuts, options_of(config), wording),
        }

    def response_set(self, before: str, raw_keys: Mapping[str, str]) -> str:
        """Return the digest of what is left of the plan, or one that stands on the old where keys are not known."""
        from fp2.block_plan import response_set_of
        from fp2.hashing import digest

        contexts = sorted(set(self.table.contexts.tolist()))
        if all(key in raw_keys for key in contexts):
            return response_set_of([raw_keys[key] for key in contexts], self.questions)
        return digest({"purged_from": before, "kept": contexts})

    def examples(self, per_probe: int) -> list[dict[str, Any]]:
        """Return nothing: the answers are numbers."""
        return []

    def write_rows(self, folder: Path, results: Mapping[str, Any]) -> None:
        """Write the table that MLflow shows."""
        artifacts.write_table(folder, list(results["disparities"]))


def read_block_tables(folder: Path) -> BlockTables:
    """Return the tables of a run in blocks.

    Raises
    ------
    Fp2Error
        If one is missing or cannot be read.
    """
    import pandas as pd

    try:
        people = pd.read_parquet(folder / artifacts.PEOPLE)
        return BlockTables(people, read_table(folder), read_traits(folder), read_question_keys(folder))
    except (OSError, ValueError, KeyError) as error:
        raise Fp2Error(f"the run's tables cannot be read: {error}", where=str(folder)) from error
