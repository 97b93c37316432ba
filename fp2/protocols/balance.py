"""Balance: whether the groups of a cut also differ in other attributes, and so may be confounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fp2.notes import Note, NoteKind, Stage
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.results import BalanceRow
    from fp2.stats.association import Association

DEMOGRAPHIC = ("region", "pronoun", "gender", "race", "age", "skin_tone", "location_un_region")
"""Attributes that a cut is compared with where the data set has them, besides those of the other cuts."""
CONFOUNDED = 0.3
"""Corrected Cramer's V from which on a pair is called confounded (Cohen 1988: medium)."""
SMALL_CELL = 10
AS_FIRST: Final = "as_of_first_run"
"""Key of an entry that was taken over from the first run, because the tables lack one of its attributes."""


def balance_block(people: pd.DataFrame, cuts: Sequence[Cut]) -> list[BalanceRow]:
    """Return one entry per cut attribute and other attribute, strongest association first.

    Each has `cut, attribute, other, n_subjects` (with both labels), `cramers_v` (bias-corrected, Bergsma 2013),
    `confounded`, and the table of subjects: `rows`, `columns`, `counts` (None where a cell has 1 to 9 subjects).
    """
    from fp2.stats.association import balance_table

    attributes = dict.fromkeys(name for cut in cuts for name in cut.by)
    names = [*attributes, *(name for name in _known(people) if name not in attributes)]
    columns = {name: people[ATTRIBUTE_PREFIX + name].tolist() for name in names}
    associations = {
        frozenset((pair.first, pair.second)): pair
        for pair in balance_table(columns, people["subject_id"].to_numpy(dtype=object), threshold=CONFOUNDED)
    }
    entries = []
    for cut in cuts:
        for attribute in cut.by:
            for other in names:
                if other not in cut.by:
                    entries.append(_entry(cut.name, attribute, other, associations[frozenset((attribute, other))]))
    return _sorted(entries)


def later_block(current: Sequence[BalanceRow], cuts: Sequence[Cut], before: Sequence[BalanceRow]) -> list[BalanceRow]:
    """Return the entries of a run that is computed again from its tables, which keep only the attributes of its cuts.

    `current` are those of the tables; pairs that they lack are taken over from `before` and marked with `AS_FIRST`.
    """
    entries_now = {(entry["cut"], entry["attribute"], entry["other"]) for entry in current}
    entries = list(current)
    for cut in cuts:
        for entry in before:
            key = (cut.name, entry["attribute"], entry["other"])
            if entry["attribute"] in cut.by and entry["other"] not in cut.by and key not in entries_now:
                entries_now.add(key)
                entries.append({**entry, "cut": cut.name, AS_FIRST: True})
    return _sorted(entries)


def _sorted(entries: list[BalanceRow]) -> list[BalanceRow]:
    return sorted(entries, key=lambda entry: -(entry["cramers_v"] or 0.0))


def _known(people: pd.DataFrame) -> list[str]:
    """Return the demographic attributes with any value."""
    columns = attribute_columns(people)
    return [name for name in DEMOGRAPHIC if name in columns and people[ATTRIBUTE_PREFIX + name].map(len).any()]


def _entry(cut: str, attribute: str, other: str, pair: Association) -> BalanceRow:
    turned = pair.first != attribute
    counts = list(zip(*pair.table, strict=True)) if turned else pair.table
    labels = (pair.second_labels, pair.first_labels) if turned else (pair.first_labels, pair.second_labels)
    return {
        "cut": cut,
        "attribute": attribute,
        "other": other,
        "n_subjects": pair.n_subjects,
        "cramers_v": pair.v_corrected,
        "confounded": pair.confounded,
        "rows": list(labels[0]),
        "columns": list(labels[1]),
        "counts": [[(round(cell, 2) if cell == 0 or cell >= SMALL_CELL else None) for cell in row] for row in counts],
    }


ASSOCIATED = NoteKind(
    "confounded",
    Stage.TABLES,
    "{attribute} and {other} are associated in these images (Cramer's V {cramers_v:.2f}): a difference between groups "
    "of one may be due to the other.",
)
UNKNOWN = NoteKind(
    "association_unknown",
    Stage.TABLES,
    "No subject's {attribute} is known together with {others}: whether they are confounded cannot be checked.",
)
OF_FIRST_RUN = NoteKind(
    "association_of_first_run",
    Stage.TABLES,
    "The association of {attribute} with {others} is that of the first run: the tables of this run keep only the "
    "attributes of the cuts.",
)


def balance_warnings(block: Sequence[BalanceRow]) -> list[Note]:
    """Return a note per confounded pair, per attribute with unknown associations, and per one taken over."""
    notes: list[Note] = []
    pairs_stated: set[frozenset[str]] = set()
    unknown: list[tuple[str, str]] = []
    first: list[tuple[str, str]] = []
    for entry in block:
        pair = frozenset((entry["attribute"], entry["other"]))
        if pair in pairs_stated:
            continue
        pairs_stated.add(pair)
        names = (entry["attribute"].replace("_", " "), entry["other"].replace("_", " "))
        if entry["confounded"]:
            notes.append(ASSOCIATED(attribute=names[0], other=names[1], cramers_v=entry["cramers_v"]))
        elif not entry["n_subjects"]:
            unknown.append(names)
        if entry.get(AS_FIRST):
            first.append(names)
    notes += [UNKNOWN(attribute=name, others=other_names) for name, other_names in _by_first(unknown)]
    return notes + [OF_FIRST_RUN(attribute=name, others=other_names) for name, other_names in _by_first(first)]


def _by_first(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return every pair once, under the names that occur in most of them."""
    remaining, by_name = list(pairs), []
    while remaining:
        counts = Counter(name for pair in remaining for name in pair)
        name = counts.most_common(1)[0][0]
        by_name.append((name, [pair[1 - pair.index(name)] for pair in remaining if name in pair]))
        remaining = [pair for pair in remaining if name not in pair]
    return by_name
