"""The tables of a run that asked nobody, as purging and remaking need them (`fp2.remake.RunTables`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import ASK, Config
from fp2.hashing import digest
from fp2.remake import Tables

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut


@dataclass(frozen=True)
class ScoreTables(Tables):
    """People (with what was measured), scores, and `others`: further tables of the task with a row per person."""

    others: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write them over the ones in `folder`."""
        super().write(folder)
        for name, table in self.others.items():
            artifacts.write_parquet(folder / name, table)

    def without(self, left: pd.DataFrame, images: Collection[str], keys: Collection[str]) -> ScoreTables:
        """Return the tables of the people `left`: whatever is filed under one of `images` goes."""
        kept = super().without(left, images, keys)
        others = {
            name: table[~table["image_id"].isin(images)].reset_index(drop=True) for name, table in self.others.items()
        }
        return ScoreTables(kept.people, kept.answers, kept.scores, others)

    def findings(self, config: Config, cuts: Sequence[Cut], before: Mapping[str, Any]) -> dict[str, Any]:
        """Return what of the results follows from the tables: the task's block and our rows, made again."""
        from fp2.protocols.balance import balance_block
        from fp2.run_tables import task_of

        task = task_of(config)
        found = task.again(config, self.people, self.scores, before)
        return {
            "n_images": int(self.people["image_id"].nunique()),
            "n_subjects": int(self.people["subject_id"].nunique()),
            "balance": balance_block(self.people, cuts),
            "disparities": found.disparities,
            task.BLOCK: found.block,
        }

    def response_set(self, before: str, raw_keys: Mapping[str, str]) -> str:
        """Return a digest of the scores that are left, which stands on the one from before."""
        return digest({"purged_from": before, "kept": sorted(set(self.scores["response_key"]))})


def of_task(folder: Path) -> bool:
    """Whether the run in `folder` worked on tables and asked nobody."""
    import yaml

    try:
        plain = yaml.safe_load((folder / artifacts.CONFIG).read_text(encoding="utf-8"))
        return str(plain["task"]["name"]) != ASK
    except (OSError, KeyError, TypeError, yaml.YAMLError):
        return False


def read_score_tables(folder: Path, usual: Tables) -> ScoreTables:
    """Return the run's tables, with every further one that names pictures and people."""
    import pandas as pd

    known = {artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES, artifacts.DISPARITIES}
    others = {
        path.name: table
        for path in sorted(folder.glob("*.parquet"))
        if path.name not in known and set((table := pd.read_parquet(path)).columns) >= {"image_id"}
    }
    return ScoreTables(usual.people, usual.answers, usual.scores, others)
