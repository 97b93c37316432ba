"""Public data sets that are label files over pictures: their options; the readers are in the modules beside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fp2.extension import COLUMNS, Columns, DataOptions, Dataset, DataSource, LoadContext, Local, Required


@dataclass(frozen=True, kw_only=True)
class FolderOfLabels(DataOptions):
    """`root` is the folder with the label files, and the images somewhere below it."""

    root: Annotated[Path, Local(), Required("the folder of the data set, with its label files and images")]


class Coco(DataSource[FolderOfLabels]):
    """The people of COCO."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the people of all `instances_*.json` files; see `load_coco`."""
        from fp2.methods.public_sets.detection_sets import load_coco

        return load_coco(self.options.root.expanduser())


class Facet(DataSource[FolderOfLabels]):
    """The people of FACET."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the people of `annotations.csv`; see `load_facet`."""
        from fp2.methods.public_sets.detection_sets import load_facet

        return load_facet(self.options.root.expanduser())


class Miap(DataSource[FolderOfLabels]):
    """The people of MIAP (More Inclusive Annotations for People, Open Images)."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the people of all box files; see `load_miap`."""
        from fp2.methods.public_sets.detection_sets import load_miap

        with context.progress.counter("Reading the sizes of images") as report:
            return load_miap(self.options.root.expanduser(), report)


class Phase(DataSource[FolderOfLabels]):
    """The people of Phase (images of Google's Conceptual Captions)."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the people of all annotation files; see `load_phase`."""
        from fp2.methods.public_sets.detection_sets import load_phase

        return load_phase(self.options.root.expanduser())


class WiderFace(DataSource[FolderOfLabels]):
    """The faces of WIDER FACE."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the faces of all label files; see `load_wider_face`."""
        from fp2.methods.public_sets.detection_sets import load_wider_face

        return load_wider_face(self.options.root.expanduser())


class CelebAMaskHq(DataSource[FolderOfLabels]):
    """The images of CelebAMask-HQ."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the images of the attribute file; see `load_celeba`."""
        from fp2.methods.public_sets.portraits import load_celeba

        return load_celeba(self.options.root.expanduser(), "celebamask_hq")


class CelebA(DataSource[FolderOfLabels]):
    """The images of CelebA."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the images of the attribute file; see `load_celeba`."""
        from fp2.methods.public_sets.portraits import load_celeba

        return load_celeba(self.options.root.expanduser(), "celeba")


class CasualConversations(DataSource[FolderOfLabels]):
    """Frames of Casual Conversations, version 1 or 2."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the frames of labelled subjects; see `load_casual_conversations`."""
        from fp2.methods.public_sets.portraits import load_casual_conversations

        return load_casual_conversations(self.options.root.expanduser())


class ImdbWiki(DataSource[FolderOfLabels]):
    """The images of IMDB-WIKI."""

    Options = FolderOfLabels

    def load(self, context: LoadContext) -> Dataset:
        """Return the images of `imdb.mat` and `wiki.mat`; see `load_imdb_wiki`."""
        from fp2.methods.public_sets.portraits import load_imdb_wiki

        return load_imdb_wiki(self.options.root.expanduser())


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


@dataclass(frozen=True, kw_only=True)
class UtkFaceOptions(DataOptions):
    """`root` is the folder of the images."""

    root: Annotated[Path, Local(), Required("the folder of the images")]


class CausalFace(DataSource[UtkFaceOptions]):
    """CausalFace, whose labels are in the names of its files and folders."""

    Options = UtkFaceOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the images below the folder; see `load_causalface`."""
        from fp2.methods.public_sets.faces import load_causalface

        return load_causalface(self.options.root.expanduser())


class UtkFace(DataSource[UtkFaceOptions]):
    """UTKFace, whose labels are in the names of its files."""

    Options = UtkFaceOptions

    def load(self, context: LoadContext) -> Dataset:
        """Return the images below the folder; see `load_utkface`."""
        from fp2.methods.public_sets.faces import load_utkface

        return load_utkface(self.options.root.expanduser())
