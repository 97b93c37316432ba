"""Who is to be removed: by id, by release, or everybody whom a newer release no longer has.

Tables of runs carry salted keys, so ids are compared as keys under this machine's salt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fp2.store.salted_keys import salted

if TYPE_CHECKING:
    import pandas as pd

    from fp2.store.origins import RecordedImage


class Selection(Protocol):
    """Who is to be removed."""

    def concerns(self, kind: str, release: str | None) -> bool:
        """Whether a data set of this kind and release can hold any of them."""
        ...

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows are about them (salted keys of pictures and of people)."""
        ...

    def picks(self, picture: RecordedImage) -> bool:
        """Whether a remembered picture is about them."""
        ...


@dataclass(frozen=True)
class ByIds:
    """Some people and some pictures; whoever else is in a picture of these people goes with it."""

    subject_ids: tuple[str, ...]
    image_ids: tuple[str, ...]
    subjects: frozenset[str]
    images: frozenset[str]

    @classmethod
    def of(cls, subject_ids: Iterable[str], image_ids: Iterable[str], salt: bytes, known: list[RecordedImage]) -> ByIds:
        """Return the selection of these ids; a picture's id also stands for the face crops cut from it."""
        people, pictures = tuple(subject_ids), tuple(image_ids)
        subjects = frozenset(salted(people, salt))
        images = set(salted(pictures, salt, "image"))
        images |= {p.image for p in known if p.subject in subjects or any(name in p.path for name in pictures)}
        return cls(people, pictures, subjects, frozenset(images))

    def concerns(self, kind: str, release: str | None) -> bool:
        """Ids may be in any data set."""
        return True

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows are about these people, or one of their pictures."""
        own = subjects.isin(self.subjects)
        return own | images.isin(self.images | set(images[own]))

    def picks(self, picture: RecordedImage) -> bool:
        """Whether it is one of the pictures, or shows one of the people."""
        return picture.subject in self.subjects or picture.image in self.images


@dataclass(frozen=True)
class ByRelease:
    """Everybody of one release."""

    release: str

    def concerns(self, kind: str, release: str | None) -> bool:
        """Whether it is that release."""
        return release == self.release

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return every row."""
        return images == images

    def picks(self, picture: RecordedImage) -> bool:
        """Whether it is of that release."""
        return picture.release == self.release


@dataclass(frozen=True)
class Absent:
    """Everybody of a kind of data set whom the release at hand does not have, as keys of those whom it has."""

    kind: str
    subjects: frozenset[str]
    images: frozenset[str]

    @classmethod
    def from_release(cls, kind: str, people: pd.DataFrame, salt: bytes) -> Absent:
        """Return the selection of all who are not among `people` (whole pictures; their face crops are known too)."""
        pairs = list(zip(people["image_id"], people["subject_id"], strict=True))
        pictures = {image for image, _ in pairs} | {f"{image}_{subject}" for image, subject in pairs}
        subjects = frozenset(salted({subject for _, subject in pairs}, salt))
        return cls(kind, subjects, frozenset(salted(pictures, salt, "image")))

    def concerns(self, kind: str, release: str | None) -> bool:
        """Whether it is that kind of data."""
        return kind == self.kind

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows are about a picture or a person that is no longer there."""
        return ~(images.isin(self.images) & subjects.isin(self.subjects))

    def picks(self, picture: RecordedImage) -> bool:
        """Whether it is no longer there."""
        gone = picture.image not in self.images or picture.subject not in self.subjects
        return picture.data == self.kind and gone


def kind_of(results: Mapping[str, Any]) -> str:
    """Return the kind of data set that a run was made on, as far as its results tell it: FHIBE's carry its terms."""
    dataset = results["dataset"]
    return "fhibe" if "terms" in (dataset.get("settings") or {}) or dataset["name"] == "fhibe" else ""
