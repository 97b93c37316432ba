"""What a purge removes: subjects and images by id, a release, or everything that a newer release no longer has.

Tables of runs have salted keys, so ids are compared as keys under this machine's salt. An id of an image is, in this
order, its exact id, the name of its file, or that name without its ending; never a part of one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from fp2.extension import Fp2Error, normal_id, read_plain, salted, source_class, source_name, with_releases

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import RecordedImage


@dataclass(frozen=True)
class GivenId:
    """An id that the user gave: of a `subject` or an `image`, the salted keys that it selects, and how it does."""

    kind: str
    id: str
    keys: frozenset[str]
    by: str = "id"


@dataclass(frozen=True)
class Selection:
    """Whom and what a purge removes.

    Attributes
    ----------
    subjects, images : frozenset of str
        Salted keys; an image of a selected subject is removed with everyone in it.
    given : tuple of GivenId
        The ids that the user gave.
    files : frozenset of str
        Of these, the ids of images: they may be names of files that only the digests of pixels know.
    words : frozenset of str
        What stands for the people in free text: ids, and paths of images.
    unseen : frozenset of str
        Salted keys of the ids of images that nothing has: they may be names of files that are read later.
    release, source : str, optional
        The only release, and the only data set (`DataOptions.source`), that is concerned.
    others : bool
        The keys are those that stay: every other one of the data set is selected (`absent`).
    """

    subjects: frozenset[str] = frozenset()
    images: frozenset[str] = frozenset()
    given: tuple[GivenId, ...] = field(default=(), compare=False)
    files: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    release: str | None = None
    source: str | None = None
    others: bool = False

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Selection:
        """Return the selection that a journal has (`plain`)."""
        fields: dict[str, Any] = {
            name: frozenset(value) if isinstance(value, list) else value for name, value in plain.items()
        }
        return cls(**fields)

    @property
    def plain(self) -> dict[str, Any]:
        """The selection for a journal: once it has keys, `given` and `others` are no longer needed."""
        return {name: value for name, value in vars(self).items() if name not in ("given", "others")}

    def concerns(self, kind: str, release: str | None) -> bool:
        """Whether a run on this data set and release may have what is selected."""
        return self.source in (None, kind) and self.release in (None, release)

    def rows(self, images: pd.Series[str], subjects: pd.Series[str]) -> pd.Series[bool]:
        """Return which rows are selected, given their salted keys."""
        if self.release is not None:
            return images == images
        theirs = subjects.isin(self.subjects) != self.others
        return theirs | (images.isin(self.images) != self.others) | images.isin(set(images[theirs]))

    def selects(self, image: RecordedImage) -> bool:
        """Whether an image of the store's index is selected, or shows a selected subject."""
        if not self.concerns(image.data, image.release):
            return False
        either = (image.subject in self.subjects) != self.others or (image.image in self.images) != self.others
        return self.release is not None or either

    def resolved(
        self, pairs: set[tuple[str, str]], words: Iterable[str], unseen: frozenset[str] = frozenset()
    ) -> Selection:
        """Return the selection by the keys of (image, subject) pairs that it selects, and the words for them."""
        if self.release is not None:
            return self
        images, subjects = (frozenset(pair[side] for pair in pairs) for side in (0, 1))
        return replace(
            self,
            words=self.words | frozenset(words),
            unseen=self.unseen | unseen,
            others=False,
            subjects=subjects - self.subjects if self.others else self.subjects,
            images=images - self.images if self.others else images | self.images,
        )

    def redact(self, text: str, mark: str = "removed") -> str:
        """Return a text with `mark` in place of each of the words that is in it as a whole word."""
        plain = normal_id(text)
        pattern = _whole_words(self.words, plain)
        return pattern.sub(mark, plain) if pattern and pattern.search(plain) else text

    def names_in(self, text: str) -> bool:
        """Whether one of the words is in a text; only of those that are no number or word of a language."""
        plain = normal_id(text)
        pattern = _whole_words((word for word in self.words if len(word) >= 8 and re.search(r"\d", word)), plain)
        return pattern is not None and pattern.search(plain) is not None


_TOKEN = re.compile(r"[\w-]+")


def _whole_words(terms: Iterable[str], text: str) -> re.Pattern[str] | None:
    """Return what finds those of the words that may be in a text, the longest first; None where none may be."""
    tokens = set(_TOKEN.findall(text))
    possible = [word for word in terms if tokens.issuperset(_TOKEN.findall(word))]
    either = "|".join(map(re.escape, sorted(possible, key=len, reverse=True)))
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])") if possible else None


def by_ids(
    subject_ids: Iterable[str], image_ids: Iterable[str], salt: bytes, recorded: list[RecordedImage]
) -> Selection:
    """Return the selection of these ids; an image's id also selects the face crops that were cut from it."""
    subjects, images, words = list[GivenId](), list[GivenId](), set[str]()
    for is_image, typed in [*((False, name) for name in subject_ids), *((True, name) for name in image_ids)]:
        name = normal_id(typed)
        spellings = {typed, name, unicodedata.normalize("NFD", name)}
        words |= spellings
        if is_image:
            images.append(_images_of(name, frozenset(salted(spellings, salt, "image")), salt, recorded))
        else:
            subjects.append(GivenId("subject", name, frozenset(salted(spellings, salt))))
    of_subjects, of_images = (frozenset(key for given in ids for key in given.keys) for ids in (subjects, images))
    files = frozenset(identifier.id for identifier in images)
    return Selection(of_subjects, of_images, tuple(dict.fromkeys([*subjects, *images])), files, frozenset(words))


def _images_of(name: str, keys: frozenset[str], salt: bytes, recorded: list[RecordedImage]) -> GivenId:
    """Return the images that the id stands for, by the first of id, file name and stem that selects any."""
    crops = {image.image for image in recorded if _is_crop(name, image, salt)}
    if crops or any(image.image in keys for image in recorded):
        return GivenId("image", name, keys | crops)
    for by, attribute in (("file name", "name"), ("file name without ending", "stem")):
        files = {image.image for image in recorded if normal_id(getattr(Path(image.path), attribute)) == name}
        if files:
            return GivenId("image", name, keys | files, by)
    return GivenId("image", name, keys)


def _is_crop(name: str, image: RecordedImage, salt: bytes) -> bool:
    """Whether an image is the crop `{name}_{subject}` of its own subject."""
    if f"{name}_" not in normal_id(image.path):
        return False
    suffixes = (
        image_name.removeprefix(f"{name}_")
        for image_name in ids_in(image.path, image.image, salt)
        if image_name.startswith(f"{name}_")
    )
    return any(salted([end], salt) == [image.subject] for end in suffixes)


def ids_in(path: str, image: str, salt: bytes) -> Iterator[str]:
    """Yield the ends of an image's path that are its id, which the store has as a key only."""
    path_parts = PurePath(normal_id(path)).parts
    tails = ["/".join(path_parts[-n:]) for n in range(1, len(path_parts))]
    stem = PurePath(path).stem
    after = [stem[at + 1 :] for at, letter in enumerate(stem) if letter == "_"]
    candidates = [*tails, *(tail.rpartition(".")[0] for tail in tails), *after]
    yield from (name for name in candidates if name and salted([name], salt, "image") == [image])


def absent(source: str, people: pd.DataFrame, salt: bytes) -> Selection:
    """Return the selection of all that a data set lacks, given its `people` (whole images; face crops follow)."""
    pairs = list(zip(people["image_id"], people["subject_id"], strict=True))
    names = {image for image, _ in pairs} | {f"{image}_{subject}" for image, subject in pairs}
    subjects = frozenset(salted({subject for _, subject in pairs}, salt))
    return Selection(subjects, frozenset(salted(names, salt, "image")), source=source, others=True)


def kind_of(results: Mapping[str, Any], folder: Path) -> str:
    """Return the data set of a run as the store's index names it (`DataOptions.source`), from the run's config.

    Without a readable config, a data set that subjects are withdrawn from is recognised by its results
    (`DataSource.recognises`); the name is empty for any other data set.
    """
    with suppress(Fp2Error, KeyError, TypeError, AttributeError):
        if name := source_name(read_plain(folder)["data"]):
            return name
    dataset = results["dataset"]
    sources = {kind: source_class({"kind": kind}) for kind in with_releases()}
    return next((kind for kind in sources if dataset["name"] == kind or sources[kind].recognises(dataset)), "")
