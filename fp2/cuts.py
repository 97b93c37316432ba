"""Cuts: groups of subjects by one attribute, by an intersection of several, or by several cuts in one run.

A subject may have several values of an attribute, and is then in each of their groups; an intersection has every
combination of values (the Cartesian product), as in FHIBE's evaluation. A subject without a value is in no group.
Values can be selected, merged and renamed first (`cut.groups`); a subject counts once in a group of several of its
values. pandas is imported only where a table is made, because this module is used while the config is composed.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fp2.errors import Fp2Error, nearest
from fp2.tables import ATTRIBUTE_PREFIX, COARSE_PLACE, HOUR, MUST_NOT_LEAVE, attribute_columns, with_values

if TYPE_CHECKING:
    import pandas as pd

JOIN = "_x_"
LABEL_JOIN = " x "
GROUP_FORMS = (
    "Select with cut.groups={region: [Asia, Europe]}, merge with cut.groups={region: {Eurasia: [Asia, Europe]}}"
)
BOTH_FORMS = "Write cut.by=[a,b] for one intersection, cut.each=[a,b] for several cuts in one run"


@dataclass(frozen=True)
class Cut:
    """A grouping by one attribute, or by the combinations of several.

    `groups` selects values of an attribute: pairs of (attribute, values). `merged` merges and renames values: pairs of
    (attribute, pairs of (group, values)).
    """

    name: str
    by: tuple[str, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    merged: tuple[tuple[str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = ()

    def __post_init__(self) -> None:
        """Raise Fp2Error for a cut without an attribute, or with one twice."""
        if not self.by:
            raise Fp2Error(f"cut {self.name!r} names no attribute", fix=BOTH_FORMS)
        if len(set(self.by)) < len(self.by):
            raise Fp2Error(f"cut {self.name!r} names an attribute twice")


def parse_cut(
    text: str, known_attributes: Collection[str] | None = None, suggested: Collection[str] | None = None
) -> Cut:
    """Return the cut with a name such as `region_x_skin_tone`.

    If the attributes are known, the name is split into those only, so that an attribute may contain `_x_`; `suggested`
    are those that an error may name (by default all).
    """
    pieces = text.split(JOIN)
    if known_attributes is None:
        groups_of_cut = pieces
    elif (known_parts := _split_known(pieces, known_attributes)) is not None:
        groups_of_cut = known_parts
    else:
        unknown = next((piece for piece in pieces if piece not in known_attributes), text)
        raise _unknown_attribute(unknown, text, known_attributes if suggested is None else suggested)
    if not all(groups_of_cut):
        raise Fp2Error(f"cut {text!r} has an empty part", fix="An intersection is written attribute_x_attribute")
    return Cut(text, tuple(groups_of_cut))


def _split_known(pieces: list[str], attributes: Collection[str]) -> list[str] | None:
    """Return `pieces` joined into known attributes, shortest first, or None if that is not possible."""
    if not pieces:
        return []
    for n_first in range(1, len(pieces) + 1):
        first = JOIN.join(pieces[:n_first])
        if first in attributes and (rest := _split_known(pieces[n_first:], attributes)) is not None:
            return [first, *rest]
    return None


def _unknown_attribute(name: str, cut: str, suggested: Collection[str]) -> Fp2Error:
    """Return the error for an attribute that the data set lacks; those that cannot be a cut are not suggested."""
    fix = nearest(name, set(suggested) - MUST_NOT_LEAVE)
    return Fp2Error(f"the data set has no attribute {name!r}", where=f"cut {cut}", fix=fix)


def resolve_cuts(
    spec: Mapping[str, Any], known_attributes: Collection[str] | None = None, suggested: Collection[str] | None = None
) -> tuple[Cut, ...]:
    """Return the cuts of a config node with the keys `name`, `by`, `each` and `groups`.

    `by` is one cut (the intersection of all that it lists); `each` is a list of cuts, each an attribute, a name such
    as `pronoun_x_age`, or a list. `groups` maps attributes to a list of the values to select, or to a mapping from
    groups to the values that are merged in them; values that the mapping does not list remain groups of their own. An
    entry of a list may be such a mapping too. If all cuts are by one attribute, its name may be left out. `suggested`
    are the attributes that an error may name, such as those with values (by default all that are known).
    """
    by, each = _names(spec.get("by")), spec.get("each")
    if bool(by) == bool(each):
        message = "the cut has both by and each" if by else "the cut has neither by nor each"
        raise Fp2Error(message, where="cut", fix=BOTH_FORMS)
    cuts = [Cut(str(spec.get("name") or JOIN.join(by)), by)] if by else []
    for item in _items(each or ()):
        is_name, names = isinstance(item, str), _names(item)
        cuts.append(parse_cut(item, known_attributes, suggested) if is_name else Cut(JOIN.join(names), names))
    if len({cut.name for cut in cuts}) < len(cuts):
        raise Fp2Error("a cut is listed twice", where="cut.each")
    if known_attributes is not None:
        for cut in cuts:
            check_attributes(cut, known_attributes, suggested)
    groups = spec.get("groups")
    return _with_groups(cuts, groups, known_attributes or ()) if groups else tuple(cuts)


def _items(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def _names(value: object) -> tuple[str, ...]:
    return () if not value else tuple(str(name) for name in _items(value))


def _with_groups(cuts: Sequence[Cut], groups: object, attributes: Collection[str]) -> tuple[Cut, ...]:
    """Return the cuts, each with the selected and merged values of its attributes."""
    if not isinstance(groups, Mapping):
        raise Fp2Error("the groups are not a mapping", where="cut.groups", fix=GROUP_FORMS)
    cut_by = {attribute for cut in cuts for attribute in cut.by}
    spec = {str(key): value for key, value in groups.items()}
    if len(cut_by) == 1:  # its name may be left out; a key that is another attribute, or looks like it, is a name
        name = next(iter(cut_by)).casefold()
        if not any(key in attributes or difflib.get_close_matches(key.casefold(), [name], cutoff=0.75) for key in spec):
            spec = dict.fromkeys(cut_by, spec)
    for attribute in spec:
        if attribute not in cut_by:
            raise Fp2Error(f"no cut uses {attribute!r}", where="cut.groups", fix=nearest(attribute, cut_by))
    read = {attribute: _groups_of(attribute, values) for attribute, values in spec.items()}
    selected_of = {attribute: selected for attribute, (selected, _) in read.items() if selected is not None}
    merged = {attribute: members for attribute, (_, members) in read.items() if members}
    return tuple(
        Cut(
            cut.name,
            cut.by,
            tuple((name, selected_of[name]) for name in cut.by if name in selected_of),
            tuple((name, merged[name]) for name in cut.by if name in merged),
        )
        for cut in cuts
    )


def _groups_of(attribute: str, spec: object) -> tuple[tuple[str, ...] | None, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return the values selected (None for all), and the merged groups with their values."""
    where = f"cut.groups.{attribute}"
    entries = [spec] if isinstance(spec, Mapping) else _items(spec if spec is not None else [])
    merged: dict[str, tuple[str, ...]] = {}
    values: list[str] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            values.append(str(entry))
            continue
        for group, listed in entry.items():
            if isinstance(listed, Mapping) or listed is None or not (members := _names(listed)):
                raise Fp2Error(f"the group {str(group)!r} lists no value", where=where, fix=GROUP_FORMS)
            if not str(group).strip() or str(group) in merged:
                raise Fp2Error(f"the group {str(group)!r} is named twice or has no name", where=where)
            merged[str(group)] = members
            values += members
    if not values:
        raise Fp2Error(f"no value of {attribute!r} is selected", where="cut.groups")
    if twice := next((value for index, value in enumerate(values) if value in values[:index]), None):
        raise Fp2Error(f"{twice!r} is listed twice", where=where, fix="A value belongs to one group")
    groups = tuple(sorted((group, tuple(sorted(members))) for group, members in merged.items()))
    return None if isinstance(spec, Mapping) else tuple(values), groups


def check_attributes(cut: Cut, known_attributes: Collection[str], suggested: Collection[str] | None = None) -> None:
    """Raise Fp2Error for the first attribute of `cut` that is not known; `suggested` as in `resolve_cuts`."""
    for attribute in cut.by:
        if attribute not in known_attributes:
            raise _unknown_attribute(attribute, cut.name, known_attributes if suggested is None else suggested)


def check_publishable(cuts: Sequence[Cut]) -> None:
    """Raise Fp2Error for a cut by an attribute that must not leave the data folder: results name the groups."""
    check_may_leave((attribute for cut in cuts for attribute in cut.by), "cut")


def check_may_leave(attributes: Iterable[str], where: str) -> None:
    """Raise Fp2Error for the first of `attributes` whose values must not leave the data folder."""
    for attribute in attributes:
        if attribute in MUST_NOT_LEAVE:
            fix = f"Of places, times and cameras' models only these can: {', '.join(sorted(COARSE_PLACE | {HOUR}))}"
            raise Fp2Error(f"{attribute!r} must not leave the data folder, and cannot be a cut", where=where, fix=fix)


_PLAIN = re.compile(r"[\w.\-:/]+", re.ASCII)
_LISTED = re.compile(r"\[(?P<names>[^\[\]{}'\"]*)\]")


def quoted(text: str) -> str:
    """Return a value as Hydra's grammar reads it, whatever is in it: in single quotes unless it is plain."""
    return text if _PLAIN.fullmatch(text) else in_quotes(text)


def in_quotes(text: str) -> str:
    """Return a text in single quotes, as Hydra's grammar reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _readable(override: str) -> str:
    """Return an override of the cut with the names of its attributes quoted, and as a list where Hydra needs one."""
    key, separator, value = override.partition("=")
    name = key.lstrip("+")
    if not separator or name not in ("cut", "cut.by", "cut.each") or value[:1] in ("", "'", '"', "{", "$"):
        return override
    listed = _LISTED.fullmatch(value)
    if name == "cut":
        plain = value == "null" or "(" in value or value.startswith("[")
        return override if plain else f"{key}={','.join(quoted(piece.strip()) for piece in value.split(','))}"
    if listed is None:
        return override if value.startswith("[") or value == "null" else f"{key}=[{quoted(value)}]"
    names = listed["names"].split(",") if listed["names"].strip() else []
    return f"{key}=[{','.join(quoted(piece.strip()) for piece in names)}]"


def expand_overrides(overrides: Sequence[str]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Return command-line overrides that Hydra can compose, and the `cut` config nodes to register for them.

    `cut=a_x_b` (also in a sweep, `cut=a,a_x_b`) names a node without a YAML file, which is returned under its name.
    `cut.by=` or `cut.each=` alone replaces the cut of the YAML file: the other key and the name are set to null; one
    attribute needs no brackets. Names of attributes that Hydra cannot read are quoted.
    """
    overrides = [_readable(word) for word in overrides]
    values = {
        key.lstrip("+"): value for key, separator, value in (text.partition("=") for text in overrides) if separator
    }
    choice = values.get("cut", "")
    if choice.startswith(("[", "(", "{")):
        raise Fp2Error(f"cut={choice} would use one cut only", fix=BOTH_FORMS)
    nodes = {
        name: {"name": name, "by": list(parse_cut(name).by), "each": None, "groups": None}
        for name in (piece.strip(" '") for piece in choice.split(","))
        if JOIN in name
    }
    keys = [key for key in ("by", "each") if values.get(f"cut.{key}", "null") != "null"]
    if len(keys) == 2:
        raise Fp2Error("cut.by and cut.each are both given", fix=BOTH_FORMS)
    extra = []
    if keys:
        other = "each" if keys == ["by"] else "by"
        extra = [f"cut.{key}=null" for key in (other, "name") if f"cut.{key}" not in values]
    return [*overrides, *extra], nodes


def memberships(people: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """Return one row per (row of `people`, group): `image_id, subject_id, group`, in the order of `people`.

    The group of an intersection is its values joined with " x ". Rows that lack a value are left out, and so
    are values that `cut.groups` does not select.
    """
    import pandas as pd

    rows = [
        (image_id, subject_id, LABEL_JOIN.join(combination))
        for image_id, subject_id, values in zip(
            people["image_id"], people["subject_id"], _values(people, cut), strict=True
        )
        for combination in itertools.product(*values)
    ]
    return pd.DataFrame(rows, columns=["image_id", "subject_id", "group"], dtype="str")


def with_merged_values(people: pd.DataFrame, cuts: Sequence[Cut]) -> pd.DataFrame:
    """Return the people with the merged values of the cuts in place of their own, each once."""
    out = people.copy(deep=False)
    for name, groups in (pair for cut in cuts for pair in cut.merged):
        group_of = {value: group for group, values in groups for value in values}
        column = ATTRIBUTE_PREFIX + name
        out[column] = [_grouped(cell, group_of) for cell in people[column]]
    return out


def of_sets(people: pd.DataFrame) -> bool:
    """Whether the images belong to counterfactual sets."""
    return bool(people["set_id"].notna().any())


def varying(people: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """Return the rows of the sets whose images are in two or more groups of the cut; without sets, all rows."""
    if not of_sets(people):
        return people
    table = memberships(people, cut).merge(people[["image_id", "subject_id", "set_id"]], on=["image_id", "subject_id"])
    versions = table.groupby("set_id")["group"].nunique()
    return people[people["set_id"].isin(versions.index[versions >= 2])].reset_index(drop=True)


def combinations(people: pd.DataFrame, cut: Cut) -> list[tuple[str, ...]]:
    """Return the values of the group of each row of `memberships`, one per attribute of the cut."""
    return [combination for values in _values(people, cut) for combination in itertools.product(*values)]


def _values(people: pd.DataFrame, cut: Cut) -> list[tuple[list[str], ...]]:
    """Return the distinct values of each attribute of `cut` for each row of `people`, selected and merged."""
    check_attributes(cut, attribute_columns(people), with_values(people))
    selected_of, merged = dict(cut.groups), dict(cut.merged)
    columns = []
    for attribute in cut.by:
        cells = [list(dict.fromkeys(cell)) for cell in people[ATTRIBUTE_PREFIX + attribute]]
        group_of = {value: group for group, values in merged.get(attribute, ()) for value in values}
        if attribute in selected_of or group_of:
            present = {value for cell in cells for value in cell}
            for value in (*selected_of.get(attribute, ()), *group_of):
                if value not in present:
                    fix = nearest(value, present)
                    raise Fp2Error(f"no subject has {attribute} {value!r}", where="cut.groups", fix=fix)
            selected = set(selected_of.get(attribute, present))
            cells = [_grouped([value for value in cell if value in selected], group_of) for cell in cells]
        columns.append(cells)
    return list(zip(*columns, strict=True))


def _grouped(values: Iterable[str], group_of: Mapping[str, str]) -> list[str]:
    """Return the values with merged ones replaced by their group, each once."""
    return list(dict.fromkeys(group_of.get(value, value) for value in values))


def with_present_values(people: pd.DataFrame, cut: Cut) -> Cut:
    """Return the cut without the selected and merged values that no row has, as where only some rows are looked at."""
    present = {name: {value for cell in people.get(ATTRIBUTE_PREFIX + name, ()) for value in cell} for name in cut.by}

    def those_present(name: str, values: Iterable[str]) -> tuple[str, ...]:
        return tuple(value for value in values if value in present[name])

    groups = tuple((name, those_present(name, values)) for name, values in cut.groups)
    merged = tuple(
        (name, tuple((group, those_present(name, values)) for group, values in members)) for name, members in cut.merged
    )
    return replace(cut, groups=groups, merged=merged)
