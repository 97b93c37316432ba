"""The schema report: how a release on disk differs from the known format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fp2.data.fhibe import vocab
from fp2.data.fhibe.release import FACE_ALIGNED, Release

# Of the drawn people (set_id), of the API (optional), of the face table only, and of the JSON files only.
_EXPECTED_EXTRAS = {
    "set_id", "set_attribute", "apparent_skin_color_hue_lum", "other_face", "CelebA", "multiple_subjects",
    "humans_per_image",
}  # fmt: skip


@dataclass(frozen=True)
class SchemaReport:
    """The differences between a release and the known format.

    `absent` are the known columns that are missing, `extra` the columns that are not known. `labels` counts values
    outside each column's vocabulary, `ages` ages without a group, `places` text that names no country. `oddities`
    counts rows by what is unusual about them.
    """

    release: Release
    absent: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    labels: Mapping[str, Counter[str]] = field(default_factory=dict)
    ages: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    oddities: Counter[str] = field(default_factory=Counter)

    def lines(self) -> tuple[str, ...]:
        """Return one line per kind of difference; none for the known format. No place is named."""
        lines = [f"{count} {what}" for what, count in sorted(self.oddities.items())]
        if self.release.version is None:
            lines.append("the folder's name carries no FHIBE version, so none is recorded")
        if self.absent:
            lines.append(f"columns of the known release that are absent: {', '.join(self.absent)}")
        if self.extra:
            lines.append(f"columns that are not known here were left aside: {', '.join(self.extra)}")
        for column, counts in sorted(self.labels.items()):
            shown = ", ".join(repr(value) for value, _ in counts.most_common(3))
            lines.append(f"column {column}: {counts.total()} value(s) outside the known vocabulary, such as {shown}")
        if self.ages:
            shown = ", ".join(repr(value) for value in sorted(self.ages)[:3])
            lines.append(f"column age: {self.ages.total()} value(s) without an age group, such as {shown}")
        if self.places:
            lines.append(f"column location_country: {self.places.total()} value(s) name no country, kept as written")
        return tuple(lines)


def columns_report(release: Release, header: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the known columns that `header` lacks, and its columns that are not known."""
    expected = [*vocab.VOCABULARIES, "location_country"]
    if release.form != FACE_ALIGNED:
        expected.append("person_bbox")
    known = {*vocab.DOWNSAMPLED_HEADER, *vocab.FACE_HEADER, *_EXPECTED_EXTRAS}
    present = set(header)
    absent = tuple(name for name in expected if name not in present)
    return absent, tuple(name for name in header if name not in known)
