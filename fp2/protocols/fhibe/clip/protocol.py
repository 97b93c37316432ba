"""FHIBE's CLIP analysis: which labels pictures are given, by what people said of themselves, in each image variant.

The paper (Xiang et al. 2025, Methods "CLIP", Fig. 3) gives conditional probabilities: the share of a group's images
with a label. That share stands in each row as `share_images`. Beside it is `rate`, the mean over people of each one's
own share, with an interval that knows that several images come from one person, and a permutation test of whole people.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.config import variants_of
from fp2.cuts import Cut, memberships
from fp2.errors import Fp2Error
from fp2.protocols.base import Inputs, Show
from fp2.protocols.fhibe.clip.options import ClipOptions, Table, read_options
from fp2.protocols.fingerprint.comparison import ComparisonOptions, GroupComparison
from fp2.protocols.fingerprint.settings import ComparedRun, Comparison
from fp2.stats.adjustment import adjust, default_permutations
from fp2.stats.disparities import disparity_panel
from fp2.stats.proportions import proportions_by_group
from fp2.tables import ATTRIBUTE_PREFIX, ORIGINAL, attribute_columns

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.data.stimuli import Stimulus
    from fp2.probes.battery import Battery
    from fp2.stats.rows import DisparityRow

WRONG = "(not the right label)"
USUAL = 10_000  # permutations


class FhibeClip(GroupComparison):
    """Zero-shot labels of a dual encoder."""

    name = "fhibe_clip"
    scoring = "optional"
    several_variants = True
    supplements = ()
    sections = ("fp2.protocols.fhibe.clip.section:ClipSection",)

    @classmethod
    def from_config(cls, config: Config) -> FhibeClip:
        """Return the protocol; `for_battery` reads its options, which name questions and labels."""
        return cls(ComparisonOptions())

    def for_battery(self, battery: Battery) -> FhibeClip:
        """Return the protocol with the battery's options."""
        if not battery.classes:
            raise Fp2Error("no question offers wordings of labels", where=f"battery '{battery.name}'")
        return FhibeClip(read_options(battery))

    def attributes(self) -> set[str]:
        """Return the attributes of the tables and of the right labels."""
        return set(self.options.attributes)

    def stimuli(self, inputs: Inputs, show: Show) -> Iterator[tuple[pd.DataFrame, str, list[Stimulus]]]:
        """Yield every image in each of the battery's variants."""
        from fp2.data.stimuli import beside

        variants = variants_of(inputs.config.probe)
        if not variants:
            yield from super().stimuli(inputs, show)
        for variant in variants:
            shown = show(inputs.people, variant)
            shown = shown if variant.kind == ORIGINAL else [beside(picture) for picture in shown]
            yield inputs.people, variant.kind, shown

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the tables of labels."""
        return {self.name: clip_block(run, self.options)}


def clip_block(run: ComparedRun, options: ClipOptions) -> dict[str, Any]:
    """Return the `fhibe_clip` part of the results.

    `tables`: per question, variant and combination of attributes, the groups with `n_subjects`, `n_images` and one
    entry per label (`share_images, rate, ci_low, ci_high`); the label `(not the right label)` is the error rate, where
    the right one is known. Groups below the least number of people have sizes only. `disparities`: per outcome of each
    table, what `fp2.stats.disparity` says, corrected by Holm's method over all of one variant.
    """
    world = _World(run.people, merged(run.people, options), options, run.battery, run.comparison)
    labels = label_table(run.answers, run.battery)
    variants = list(dict.fromkeys(labels["variant"]))
    tables, rows = [], []
    for variant in variants:
        found: list[_Compared] = []
        for table in options.tables:
            made, compared = _table(labels[labels["variant"] == variant], table, world, variant)
            tables.append(made)
            found += compared
        rows += _adjusted(found, run.comparison)
    return {
        "variants": variants,
        "questions": {name: list(run.battery.classes[name]) for name in run.battery.classes},
        "neutral": dict(options.neutral),
        "smallest_effect": options.smallest_effect,
        "tables": tables,
        "disparities": rows,
        "accuracy": _accuracy(labels, world),
        **_summary(tables, rows),
    }


@dataclass(frozen=True)
class _World:
    """Who is compared and how: the people as the data tell them, and with the values of attributes put together."""

    told: pd.DataFrame
    people: pd.DataFrame
    options: ClipOptions
    battery: Battery
    comparison: Comparison

    def right(self, question: str) -> pd.DataFrame | None:
        """Return `image_id, subject_id, right` (None where it is not known), None where no attribute tells it."""
        truth = self.options.truths.get(question)
        column = ATTRIBUTE_PREFIX + truth.attribute if truth else ""
        if truth is None or column not in self.told:
            return None
        import pandas as pd

        right = pd.Series([truth.of(cell) for cell in self.told[column]], index=self.told.index, dtype=object)
        return self.told[["image_id", "subject_id"]].assign(right=right)


def merged(people: pd.DataFrame, options: ClipOptions) -> pd.DataFrame:
    """Return the people with the values of `options.merge` put together; values that are in no group are dropped."""
    import pandas as pd

    changed: dict[str, Any] = {}
    for attribute, groups in options.merge.items():
        column = ATTRIBUTE_PREFIX + attribute
        if column in people:
            cells = [_merge(cell, groups) for cell in people[column]]
            changed[column] = pd.Series(cells, index=people.index, dtype=object)
    return people.assign(**changed)


def _merge(cell: Sequence[str], groups: Any) -> list[str]:
    found = [group for value in cell for group, held in groups.items() if any(_is(value, one) for one in held)]
    return list(dict.fromkeys(found))


def _is(value: str, held: str) -> bool:
    return value.startswith(held[:-1]) if held.endswith("*") else value == held


def label_table(answers: pd.DataFrame, battery: Battery) -> pd.DataFrame:
    """Return the answered rows with the `label` that each wording stands for."""
    import pandas as pd

    label_of = {
        (question, wording): label
        for question, labels in battery.classes.items()
        for label, wordings in labels.items()
        for wording in wordings
    }
    answered = answers[(answers["status"] == "answered") & answers["question_id"].isin(list(battery.classes))]
    pairs = zip(answered["question_id"], answered["text"], strict=True)
    labels = [label_of.get(pair) for pair in pairs]
    return answered.assign(label=pd.Series(labels, index=answered.index, dtype=object))


@dataclass(frozen=True)
class _Compared:
    """One outcome of one table, compared between its groups."""

    question: str
    by: tuple[str, ...]
    variant: str
    label: str
    row: DisparityRow


def _table(labels: pd.DataFrame, table: Table, world: _World, variant: str) -> tuple[dict[str, Any], list[_Compared]]:
    """Return one table, and the comparison of each of its outcomes."""
    head = {"question": table.question, "by": list(table.by), "variant": variant}
    lacking = [name for name in table.by if name not in attribute_columns(world.people)]
    if lacking:
        return {**head, "rows": [], "reason": f"the data set does not tell {', '.join(lacking)}"}, []
    outcomes = _outcomes(labels, table, world)
    groups = memberships(world.people, Cut("_".join(table.by), table.by))
    entries = groups.merge(outcomes, on=["image_id", "subject_id"])
    if entries.empty:
        return {**head, "rows": [], "reason": "nobody has a value and an answer"}, []
    names = [name for name in outcomes.columns if name not in ("image_id", "subject_id")]
    shown = [_group(str(group), part, names, world.comparison) for group, part in entries.groupby("group", sort=True)]
    return {**head, "rows": shown, "reason": None}, _compared(entries, names, table, variant, world)


def _outcomes(labels: pd.DataFrame, table: Table, world: _World) -> pd.DataFrame:
    """Return `image_id, subject_id` and one 0/1 column per label, and one for a label that is not the right one."""
    own = labels[labels["question_id"] == table.question][["image_id", "subject_id", "label"]]
    columns = {label: (own["label"] == label).astype(float) for label in world.battery.classes[table.question]}
    made = own.assign(**columns)
    right = world.right(table.question)
    if right is not None:
        made = made.merge(right, on=["image_id", "subject_id"])
        made[WRONG] = (made["label"] != made["right"]).astype(float).where(made["right"].notna())
        made = made.drop(columns="right")
    return made.drop(columns="label")


def _group(group: str, part: pd.DataFrame, names: list[str], comparison: Comparison) -> dict[str, Any]:
    n = int(part["subject_id"].nunique())
    head = {"group": group, "n_subjects": n, "n_images": len(part)}
    if n < comparison.min_subjects:
        return {**head, "labels": []}
    return {**head, "labels": [entry for name in names if (entry := _share(part, name, comparison)) is not None]}


def _share(part: pd.DataFrame, name: str, comparison: Comparison) -> dict[str, Any] | None:
    """Return one label's share of a group, None where too few people have a known outcome."""
    values = part[name].to_numpy(dtype=float)
    groups = np.full(len(part), "g", dtype=object)
    found = proportions_by_group(
        values, groups, part["subject_id"].to_numpy(dtype=object), alpha=comparison.alpha,
        min_subjects=comparison.min_subjects,
    ).groups  # fmt: skip
    if not found:
        return None
    one = found[0]
    return {
        "label": name, "share_images": float(np.nanmean(values)), "rate": one.rate, "ci_low": one.ci_low,
        "ci_high": one.ci_high, "n_images": one.n_images, "n_subjects": one.n_subjects,
    }  # fmt: skip


def _compared(entries: pd.DataFrame, names: list[str], table: Table, variant: str, world: _World) -> list[_Compared]:
    comparison = world.comparison
    family = sum(len(world.battery.classes[one.question]) + 1 for one in world.options.tables)
    # settings below the usual number are the user's own choice, for a quick look
    least = default_permutations(family, comparison.alpha) if comparison.n_permutations >= USUAL else 0
    panel = disparity_panel(
        entries[names].to_numpy(dtype=float),
        entries["group"].to_numpy(dtype=object),
        entries["subject_id"].to_numpy(dtype=object),
        images=entries["image_id"].to_numpy(dtype=object),
        higher_is_better=[name != WRONG for name in names],
        value_ranges=[(0.0, 1.0)] * len(names),
        yes_no=[True] * len(names),
        smallest_effects=[world.options.smallest_effect] * len(names),
        n_permutations=max(comparison.n_permutations, least),
        n_bootstrap=comparison.n_bootstrap,
        seed=comparison.seed,
        alpha=comparison.alpha,
        min_subjects=comparison.min_subjects,
    )
    return [
        _Compared(table.question, table.by, variant, name, row) for name, row in zip(names, panel.rows, strict=True)
    ]


def _adjusted(found: list[_Compared], comparison: Comparison) -> list[dict[str, Any]]:
    rows = adjust([one.row for one in found], comparison.correction, comparison.alpha)
    return [
        {
            "question": one.question, "by": list(one.by), "variant": one.variant, "label": one.label,
            "family_size": len(found), **row.to_dict(),
        }
        for one, row in zip(found, rows, strict=True)
    ]  # fmt: skip


def _accuracy(labels: pd.DataFrame, world: _World) -> list[dict[str, Any]]:
    """Return per question with a known right label, per variant and right label: the share that is labelled right."""
    out = []
    for question in world.options.truths:
        told = world.right(question)
        if told is None:
            continue
        own = labels[labels["question_id"] == question].merge(told.dropna(), on=["image_id", "subject_id"])
        for (variant, right), part in own.groupby(["variant", "right"], sort=False):
            hit = part.assign(hit=(part["label"] == right).astype(float))
            share = _share(hit, "hit", world.comparison)
            if share is not None:
                out.append({"question": question, "variant": str(variant), **share, "label": str(right)})
    return out


def _summary(tables: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what MLflow charts and what the passport holds: the largest gap per question and grouping."""
    metrics: dict[str, float] = {}
    found = []
    for row in rows:
        if row["raw"] is None:
            continue
        metrics[f"{row['variant']}.{row['question']}.{'_'.join(row['by'])}.{row['label']}.raw"] = row["raw"]
        if row["significant"] and row["variant"] == ORIGINAL:
            found.append({key: row[key] for key in ("question", "by", "label", "raw", "adjusted_p", "verdict")})
    return {"metrics": metrics, "headline": {"tables": len(tables), "differences": found}}
