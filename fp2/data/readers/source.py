"""The data sets that are read from tables and folders: their options; the readers are in the modules beside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fp2.data.base import ATTRIBUTE_NAME, DataOptions, Dataset, DataSource, LoadContext, Local, Required
from fp2.errors import Fp2Error

COLUMNS = Required("the columns to read", "{image: COLUMN, subject: COLUMN, ATTRIBUTE: COLUMN}")
Columns = dict[str, str | int]


@dataclass(frozen=True, kw_only=True)
class TableOptions(DataOptions):
    """`path` is the table, `image_root` the folder that image paths start from, `columns` our names to the table's."""

    path: Annotated[Path, Local(), Required("the table of your images", "FILE")]
    image_root: Annotated[Path | None, Local()] = None
    columns: Annotated[Columns, COLUMNS]


class Table(DataSource[TableOptions]):
    """The user's own images, listed in a table."""

    Options = TableOptions

    def attributes(self) -> list[str]:
        """Return the attributes that `columns` names."""
        from fp2.data.readers.table import attribute_names

        return attribute_names(self.options.columns)

    def load(self, context: LoadContext) -> Dataset:
        """Return the people of the table; see `load_table`."""
        from fp2.data.readers.table import load_table

        chosen = self.options
        root = chosen.image_root.expanduser() if chosen.image_root else None
        columns = {name: str(column) for name, column in chosen.columns.items()}
        return load_table(chosen.path.expanduser(), columns, root, found=context.images_needed)


@dataclass(frozen=True, kw_only=True)
class FolderOptions(DataOptions):
    """`root` is the folder, `attribute` what its sub-folders' names are values of."""

    root: Annotated[Path, Local(), Required("the folder with one sub-folder per group")]
    attribute: str = "group"

    def __post_init__(self) -> None:
        """Raise Fp2Error unless `attribute` can be the name of an attribute."""
        super().__post_init__()
        if not ATTRIBUTE_NAME.fullmatch(self.attribute):
            message = f"{self.attribute!r} cannot be an attribute's name"
            raise Fp2Error(message, where="data.attribute", fix="Use letters, digits and _")


class Folder(DataSource[FolderOptions]):
    """Images in one sub-folder per group."""

    Options = FolderOptions

    def attributes(self) -> list[str]:
        """Return the one attribute."""
        return [self.options.attribute]

    def load(self, context: LoadContext) -> Dataset:
        """Return the images below the folder; see `load_folders`."""
        from fp2.data.readers.labelled import load_folders

        return load_folders(self.options.root.expanduser(), self.options.attribute)
