"""GRAS's images as a data set (`data=gras`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fp2.extension import DataOptions, Dataset, DataSource, LoadContext, Local, OmitDefault, Required


@dataclass(frozen=True, kw_only=True)
class GrasDataOptions(DataOptions):
    """`root` is the folder of the lists, `image_root` the folder that their paths start from.

    `images: false` reads the lists alone, for answers that exist already.
    """

    root: Annotated[Path, Local(), Required("the folder with the official lists")]
    image_root: Annotated[Path | None, Local()] = None
    images: Annotated[bool, OmitDefault()] = True


class Gras(DataSource[GrasDataOptions]):
    """The images of GRAS, by its official lists."""

    Options = GrasDataOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the images of both lists; see `load_gras`."""
        from fp2.methods.gras.data import load_gras

        options = self.options
        image_root = options.image_root.expanduser() if options.image_root else None
        return load_gras(options.root.expanduser(), image_root, needs_images=options.images)
