"""What a purge removes: subjects and images by id, a release, or everything that a newer release no longer has.

Tables of runs have salted keys, so ids are compared as keys under this machine's salt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.data.base import source_class, source_name, with_releases
from fp2.store.salted_keys import salted

if TYPE_CHECKING:
    import pandas as pd

    from fp2.store.origins import RecordedImage


@dataclass(frozen=True)
class ByIds:
    """Some subjects and some images; an image of a selected subject is removed with everyone in it."""

    subject_ids: tuple[str, ...]
    image_ids: tuple[str, ...]
    subjects: frozenset[str]
    images: frozenset[str]

    @classmethod
    def of(cls, subject_ids: Iterable[str], image_ids: Iterable[str], salt: bytes, known: list[RecordedImage]) -> ByIds:
        """Return the selection of these ids; the id of an image also selects the face crops made from it."""
        people, named = tuple(subject_ids), tuple(image_ids)
        subjects = frozenset(salted(people, salt))
        images = set(salted(named, salt, "image"))
        images |= {p.image for p in known if p.subject in subjects or any(name in p.path for name in named)}
        return cls(people, named, subjects, frozenset(images))

    def concerns(self, kind: str, release: str | None) -> bool:
        """Return True: an id may be in any data set."""
        return True

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows are of these subjects, or of one of their images."""
        own = subjects.isin(self.subjects)
        return own | images.isin(self.images | set(images[own]))

    def selects(self, image: RecordedImage) -> bool:
        """Whether it is one of the images, or shows one of the subjects."""
        return image.subject in self.subjects or image.image in self.images


@dataclass(frozen=True)
class ByRelease:
    """Everything of one release."""

    release: str

    def concerns(self, kind: str, release: str | None) -> bool:
        """Whether it is that release."""
        return release == self.release

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return every row."""
        return images == images

    def selects(self, image: RecordedImage) -> bool:
        """Whether it is of that release."""
        return image.release == self.release


@dataclass(frozen=True)
class Absent:
    """Everything of a data set (`DataOptions.source`) that the release at hand lacks, given the keys of its content."""

    kind: str
    subjects: frozenset[str]
    images: frozenset[str]

    @classmethod
    def from_release(cls, kind: str, people: pd.DataFrame, salt: bytes) -> Absent:
        """Return the selection of all that is not in `people` (a table of whole images; face crops follow from it)."""
        pairs = list(zip(people["image_id"], people["subject_id"], strict=True))
        names = {image for image, _ in pairs} | {f"{image}_{subject}" for image, subject in pairs}
        subjects = frozenset(salted({subject for _, subject in pairs}, salt))
        return cls(kind, subjects, frozenset(salted(names, salt, "image")))

    def concerns(self, kind: str, release: str | None) -> bool:
        """Whether it is that data set."""
        return kind == self.kind

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows are of an image or a subject that the release lacks."""
        return ~(images.isin(self.images) & subjects.isin(self.subjects))

    def selects(self, image: RecordedImage) -> bool:
        """Whether the release lacks it."""
        gone = image.image not in self.images or image.subject not in self.subjects
        return image.data == self.kind and gone


Selection = ByIds | ByRelease | Absent
"""Which data sets it concerns, and which rows (by salted keys) and images of the store's index it selects."""


def kind_of(results: Mapping[str, Any], folder: Path) -> str:
    """Return the data set of a run as the store's index names it (`DataOptions.source`), from the run's config.

    Without a readable config, a data set that subjects are withdrawn from is recognised by its results
    (`DataSource.recognises`); the name is empty for any other data set.
    """
    import yaml

    try:
        logged = yaml.safe_load((folder / artifacts.CONFIG).read_text(encoding="utf-8"))
        if name := source_name(logged["data"]):
            return name
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        pass
    dataset = results["dataset"]
    known = {kind: source_class({"kind": kind}) for kind in with_releases()}
    return next((kind for kind in known if dataset["name"] == kind or known[kind].recognises(dataset)), "")
