"""The sizes of the groups of a cut: who is in no group or in several, and which groups are too small to be compared."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fp2.cuts import Cut, memberships, of_sets, varying
from fp2.errors import Fp2Error
from fp2.notes import Note, NoteKind, Stage
from fp2.tables import MUST_NOT_LEAVE, with_values

if TYPE_CHECKING:
    import pandas as pd


_SPELLING = re.compile(r"[\s_.,\-]+")


def _membership(cut: str, n_subjects: int, without_value: int, in_several: int) -> str:
    sentences = (
        [f"{without_value:,} of {n_subjects:,} subjects have no value and are in no group"] if without_value else []
    )
    if in_several:
        sentences.append(f"{in_several:,} of {n_subjects:,} subjects are in several groups and count in each")
    return f"Cut {cut}: {'; '.join(sentences)}."


def _too_small(cut: str, least: int, sizes: Mapping[str, int], needed: int | None) -> str:
    sizes_text = ", ".join(f"{name} {n}" for name, n in list(sizes.items())[:8]) + (", ..." if len(sizes) > 8 else "")
    remedy = "there is no second group"
    if needed is not None:
        remedy = f"about {needed:,} subjects in the same proportions would be enough, or lower analysis.min_subjects"
    return f"Cut {cut}: no comparison, since fewer than two groups have {least} subjects ({sizes_text}): {remedy}."


def _alike(cut: str, groups: Sequence[str]) -> str:
    names = " and ".join(map(repr, groups))
    return f"Cut {cut}: {names} are probably one group; cut.groups merges them."


ALIKE = NoteKind("alike_groups", Stage.TABLES, _alike)
MEMBERSHIP = NoteKind("group_membership", Stage.TABLES, _membership)
SMALL_GROUPS = NoteKind("small_groups", Stage.ANALYSIS, _too_small)


def cut_notes(people: pd.DataFrame, cuts: Sequence[Cut]) -> list[Note]:
    """Return a note for each cut in which subjects are in no group or in several, and for groups with one name.

    Names are one if they differ in case, spaces and punctuation only. Of counterfactual sets nothing is returned: their
    images are in different groups on purpose.
    """
    notes, total, without = [], people["subject_id"].nunique(), without_value(people, cuts)
    for cut in () if of_sets(people) else cuts:
        table = memberships(people, replace(cut, groups=())).drop_duplicates(["subject_id", "group"])
        lacking, several = without[cut.name], int((table.groupby("subject_id")["group"].size() > 1).sum())
        spellings: dict[str, list[str]] = {}
        for group in sorted(set(memberships(people, cut)["group"])):
            spellings.setdefault(_SPELLING.sub("", group.casefold()) or group, []).append(group)
        notes += [ALIKE(cut=cut.name, groups=groups) for groups in spellings.values() if len(groups) > 1]
        if lacking or several:
            notes.append(MEMBERSHIP(cut=cut.name, n_subjects=total, without_value=lacking, in_several=several))
    return notes


def without_value(people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[str, int]:
    """Return cut -> number of subjects without a value, who are in no group; nothing of counterfactual sets."""
    total = people["subject_id"].nunique()
    return {
        cut.name: total - memberships(people, replace(cut, groups=()))["subject_id"].nunique()
        for cut in (() if of_sets(people) else cuts)
    }


def small_groups(people: pd.DataFrame, cuts: Sequence[Cut], least: int) -> list[Note]:
    """Return a note for each cut of which fewer than two groups have `least` subjects: sizes, and what would do."""
    notes = []
    for cut, groups in group_sizes(people, cuts).items():
        sizes = sorted(
            ((size["n_subjects"], name) for name, size in groups.items()), key=lambda pair: (-pair[0], pair[1])
        )
        total = people["subject_id"].nunique()
        if not sizes:
            values = sorted(set(with_values(people)) - MUST_NOT_LEAVE)
            fix = f"Attributes with values: {', '.join(values) or 'none'}. See: fp2 data verify"
            raise Fp2Error(f"none of the {total:,} subjects has a value", where=f"cut {cut}", fix=fix)
        if len(sizes) > 1 and sizes[1][0] >= least:
            continue
        needed = math.ceil(total * least / sizes[1][0]) if len(sizes) > 1 else None
        notes.append(SMALL_GROUPS(cut=cut, least=least, sizes={name: n for n, name in sizes}, needed=needed))
    return notes


def group_sizes(people: pd.DataFrame, cuts: Sequence[Cut]) -> dict[str, dict[str, dict[str, int]]]:
    """Return cut -> group -> number of subjects and of images (of counterfactual sets: those that vary in the cut)."""
    sizes: dict[str, dict[str, dict[str, int]]] = {}
    for cut in cuts:
        grouped = memberships(varying(people, cut), cut).groupby("group", sort=True)
        sizes[cut.name] = {
            str(group): {"n_subjects": members["subject_id"].nunique(), "n_images": members["image_id"].nunique()}
            for group, members in grouped
        }
    return sizes
