"""Public data sets that are label files over pictures: their options; the readers are in the modules beside."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, ClassVar, cast

from fp2.extension import COLUMNS, Columns, DataOptions, Dataset, DataSource, LoadContext, Local, Required


@dataclass(frozen=True, kw_only=True)
class FolderOfLabels(DataOptions):
    """`root` is the folder with the label files, if there are any, and the images somewhere below it."""

    root: Annotated[Path, Local(), Required("the folder of the data set, with its labels and images")]


class LabelFiles(DataSource[FolderOfLabels]):
    """Label files over pictures.

    Attributes
    ----------
    reader : str
        The module beside this one and its function that returns what a folder holds.
    """

    Options = FolderOfLabels
    reader: ClassVar[str]

    def load(self, context: LoadContext) -> Dataset:
        """Return the people, faces or images of all label files."""
        module, name = self.reader.split(":")
        read = getattr(import_module(f"fp2.methods.public_sets.{module}"), name)
        return cast("Dataset", read(self.options.root.expanduser()))


class Coco(LabelFiles):
    """The people of COCO."""

    reader = "detection_sets:load_coco"


class Facet(LabelFiles):
    """The people of FACET."""

    reader = "detection_sets:load_facet"


class Miap(DataSource[FolderOfLabels]):
    """The people of MIAP (More Inclusive Annotations for People, Open Images)."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the people of all box files; see `load_miap`."""
        from fp2.methods.public_sets.detection_sets import load_miap

        with context.progress.counter("Reading the sizes of images") as report:
            return load_miap(self.options.root.expanduser(), report)


class Phase(LabelFiles):
    """The people of Phase (images of Google's Conceptual Captions)."""

    reader = "detection_sets:load_phase"


class WiderFace(LabelFiles):
    """The faces of WIDER FACE."""

    reader = "detection_sets:load_wider_face"


class CelebAMaskHq(LabelFiles):
    """The images of CelebAMask-HQ."""

    reader = "portraits:load_celebamask_hq"


class CelebA(LabelFiles):
    """The images of CelebA."""

    reader = "portraits:load_celeba"


class CasualConversations(LabelFiles):
    """Frames of Casual Conversations, version 1 or 2."""

    reader = "portraits:load_casual_conversations"


class ImdbWiki(LabelFiles):
    """The images of IMDB-WIKI."""

    reader = "portraits:load_imdb_wiki"


@dataclass(frozen=True, kw_only=True)
class HuggingFaceOptions(DataOptions):
    """`root` is the folder of the data set, `columns` our names to its columns, `split` the only split to read."""

    root: Annotated[Path, Local(), Required("the folder of the data set")]
    columns: Annotated[Columns, COLUMNS]
    split: str | None = None


class HuggingFace(DataSource[HuggingFaceOptions]):
    """A Hugging Face data set on the local disk."""

    Options = HuggingFaceOptions

    def attributes(self) -> list[str]:
        """Return the attributes that `columns` names."""
        from fp2.extension import attribute_names

        return attribute_names(self.options.columns)

    def load(self, context: LoadContext) -> Dataset:
        """Return the people of the data set; see `load_hf`."""
        from fp2.methods.public_sets.hf import load_hf

        chosen, cache = self.options, context.cache / "hf"
        columns = {name: str(column) for name, column in chosen.columns.items()}
        with context.progress.counter("Extracting the images (once)") as tick:
            return load_hf(chosen.root.expanduser(), columns, cache, split=chosen.split, tick=tick)


@dataclass(frozen=True, kw_only=True)
class FairFaceOptions(DataOptions):
    """`root` is the folder of the label files, `image_root` the folder that their paths start from."""

    root: Annotated[Path, Local(), Required("the folder with the label files")]
    image_root: Annotated[Path | None, Local()] = None


class FairFace(DataSource[FairFaceOptions]):
    """FairFace, by its own label files."""

    Options = FairFaceOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the images of all label files; see `load_fairface`."""
        from fp2.methods.public_sets.faces import load_fairface

        image_root = self.options.image_root
        return load_fairface(self.options.root.expanduser(), image_root.expanduser() if image_root else None)


class CausalFace(LabelFiles):
    """CausalFace, whose labels are in the names of its files and folders."""

    reader = "faces:load_causalface"


class UtkFace(LabelFiles):
    """UTKFace, whose labels are in the names of its files."""

    reader = "faces:load_utkface"
