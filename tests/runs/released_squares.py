"""A data set whose subjects can be withdrawn: a table in a folder that is named after the release. No test in here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import pandas as pd

from fp2.data.base import DataOptions, Dataset, DataSource, LoadContext, Local, Required, people_table


@dataclass(frozen=True, kw_only=True)
class ReleasedOptions(DataOptions):
    """`release` is the folder of the release."""

    release: Annotated[Path, Local(), Required("the folder of the release")]


class Released(DataSource[ReleasedOptions]):
    """The images of `people.csv` in the folder."""

    Options = ReleasedOptions
    has_withdrawals: ClassVar[bool] = True

    def load(self, context: LoadContext) -> Dataset:
        """Return its people table."""
        folder = self.options.release
        rows = pd.read_csv(folder / "people.csv")
        columns = {
            "image_id": list(rows["file"]),
            "subject_id": list(rows["person"]),
            "image_path": [str(folder / name) for name in rows["file"]],
            "is_primary": [True] * len(rows),
            "n_people": [1] * len(rows),
            "attr_gender": [[value] for value in rows["gender"]],
        }
        return Dataset(self.options.name, folder.name, people_table(columns))
