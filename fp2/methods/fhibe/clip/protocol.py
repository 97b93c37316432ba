"""FHIBE's CLIP analysis: zero-shot labels of images by the subjects' attributes, in each image variant.

Xiang et al. 2025 (Methods "CLIP", Fig. 3) report conditional probabilities: the share of a group's images with a label.
It is `share_images` of each row. Beside it is `rate`, the mean over subjects of each subject's own share, with an
interval that accounts for several images of one subject, and a test that permutes group labels across subjects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    ORIGINAL,
    ComparedRun,
    ComparisonSettings,
    Cut,
    Fp2Error,
    GroupComparison,
    Inputs,
    Outcome,
    Requirements,
    Show,
    adjust,
    attribute_columns,
    default_permutations,
    disparity_panel,
    memberships,
    variants_of,
)
from fp2.methods.fhibe.clip.options import ClipOptions, LabelTable
from fp2.methods.fhibe.proportions import proportions_by_group

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Battery, Config, DisparityRow, Stimulus

BLOCK = "fhibe_clip"
WRONG = "(not the right label)"
"""The outcome of an image that has any other label than the right one."""
KEYS = ["image_id", "subject_id"]
_FULL = 10_000  # permutations; fewer are the user's choice, for a quick look


class FhibeClip(GroupComparison):
    """Zero-shot labels of a dual encoder."""

    name = BLOCK
    Options = ClipOptions
    requires = Requirements(scoring="optional", several_variants=True)
    supplements = None
    states = replace(GroupComparison.states, sections=("fp2.methods.fhibe.clip.section:ClipSection",))

    def check_battery(self, battery: Battery, config: Config) -> None:
        """Raise for a battery without labels, and for options that do not fit its questions and labels."""
        if not battery.classes:
            raise Fp2Error("no question has wordings of labels", where=f"battery '{battery.name}'")
        self.options.check(battery)

    def attributes(self, config: Config) -> set[str]:
        """Return the attributes of the tables and of the right labels."""
        return set(self.options.attributes)

    def stimuli(self, inputs: Inputs, show: Show) -> Iterator[tuple[pd.DataFrame, str, list[Stimulus]]]:
        """Yield every image in each of the battery's variants."""
        from fp2.extension import with_variant_id

        variants = variants_of(inputs.config.probe)
        if not variants:
            yield from super().stimuli(inputs, show)
        for variant in variants:
            shown = show(inputs.people, variant)
            shown = shown if variant.kind == ORIGINAL else [with_variant_id(stimulus) for stimulus in shown]
            yield inputs.people, variant.kind, shown

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the tables of labels."""
        return {BLOCK: clip_block(run, self.options)}


def clip_block(run: ComparedRun, options: ClipOptions) -> dict[str, Any]:
    """Return the block `fhibe_clip`.

    Returns
    -------
    dict
        `tables`: per question, variant and combination of attributes, the groups with `n_subjects`, `n_images` and an
        entry per label (`share_images, rate, ci_low, ci_high`); the label `(not the right label)` is the error rate,
        if the right one is known. Groups with too few subjects have sizes only. `disparities`: per label of each
        table a disparity row, corrected over all rows of one variant. `accuracy`: per question, variant and right
        label the share that is labelled right.
    """
    setting = _Setting(run.people, merged(run.people, options), options, run.battery, run.comparison)
    labels = label_table(run.answers, run.battery)
    variants = list(dict.fromkeys(labels["variant"]))
    tables, rows = [], []
    for variant in variants:
        of_variant = labels[labels["variant"] == variant]
        compared: list[Compared] = []
        for table in options.tables:
            shown, of_table = _table(of_variant, table, setting, variant)
            tables.append(shown)
            compared += of_table
        adjusted = adjust([row for _, row in compared], run.comparison.correction, run.comparison.alpha)
        rows += [
            {**head, "family_size": len(compared), **row.to_dict()}
            for (head, _), row in zip(compared, adjusted, strict=True)
        ]
    metrics: dict[str, float] = {}
    differences = []
    for row in rows:
        if row["raw"] is None:
            continue
        metrics[f"{row['variant']}.{row['question']}.{'_'.join(row['by'])}.{row['label']}.raw"] = row["raw"]
        if row["significant"] and row["variant"] == ORIGINAL:
            differences.append({key: row[key] for key in ("question", "by", "label", "raw", "adjusted_p", "verdict")})
    return {
        "variants": variants,
        "questions": {name: list(labels) for name, labels in run.battery.classes.items()},
        "neutral": dict(options.neutral),
        "smallest_effect": options.smallest_effect,
        "tables": tables,
        "disparities": rows,
        "accuracy": _accuracy(labels, setting),
        "metrics": metrics,
        "headline": {"tables": len(tables), "differences": differences},
    }


@dataclass(frozen=True)
class _Setting:
    """What is compared: the people with the attributes of the data set, and with merged values; and how."""

    given: pd.DataFrame
    people: pd.DataFrame
    options: ClipOptions
    battery: Battery
    comparison: ComparisonSettings

    def right_labels(self, question: str) -> pd.DataFrame | None:
        """Return `image_id, subject_id, right` (None: not known); None if no attribute decides which label is right."""
        truth = self.options.truths.get(question)
        column = ATTRIBUTE_PREFIX + truth.attribute if truth else ""
        if truth is None or column not in self.given:
            return None
        import pandas as pd

        right = pd.Series([truth.of(cell) for cell in self.given[column]], index=self.given.index, dtype=object)
        return self.given[KEYS].assign(right=right)


def merged(people: pd.DataFrame, options: ClipOptions) -> pd.DataFrame:
    """Return the people with values merged into groups (`options.merge`); values in no group are dropped."""
    import pandas as pd

    changed: dict[str, Any] = {}
    for attribute, groups in options.merge.items():
        column = ATTRIBUTE_PREFIX + attribute
        if column in people:
            cells = [
                list(
                    dict.fromkeys(
                        group for value in cell for group, patterns in groups.items() if _fits(patterns, value)
                    )
                )
                for cell in people[column]
            ]
            changed[column] = pd.Series(cells, index=people.index, dtype=object)
    return people.assign(**changed)


def _fits(patterns: Sequence[str], value: str) -> bool:
    return any(value.startswith(text[:-1]) if text.endswith("*") else value == text for text in patterns)


def label_table(answers: pd.DataFrame, battery: Battery) -> pd.DataFrame:
    """Return the answered rows with the `label` of the wording that each image is most similar to."""
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


Compared = tuple[dict[str, Any], "DisparityRow"]
"""What a disparity row is of (question, attributes, variant, label), and the row before it is corrected."""


def _table(
    labels: pd.DataFrame, table: LabelTable, setting: _Setting, variant: str
) -> tuple[dict[str, Any], list[Compared]]:
    """Return one table, and the comparison of each of its labels."""
    head = {"question": table.question, "by": list(table.by), "variant": variant}
    lacking = [name for name in table.by if name not in attribute_columns(setting.people)]
    if lacking:
        return {**head, "rows": [], "reason": f"the data set has no {', '.join(lacking)}"}, []
    of_question = labels[labels["question_id"] == table.question][[*KEYS, "label"]]
    columns = {
        label: (of_question["label"] == label).astype(float) for label in setting.battery.classes[table.question]
    }
    outcomes = of_question.assign(**columns)
    right = setting.right_labels(table.question)
    if right is not None:
        outcomes = outcomes.merge(right, on=KEYS)
        outcomes[WRONG] = (outcomes["label"] != outcomes["right"]).astype(float).where(outcomes["right"].notna())
        outcomes = outcomes.drop(columns="right")
    outcomes = outcomes.drop(columns="label")
    groups = memberships(setting.people, Cut("_".join(table.by), table.by))
    entries = groups.merge(outcomes, on=KEYS)
    if entries.empty:
        return {**head, "rows": [], "reason": "no subject has a value and an answer"}, []
    names = [name for name in outcomes.columns if name not in KEYS]
    shares = [_shares(entries, name, setting.comparison) for name in names]
    rows = [
        {
            "group": str(group),
            "n_subjects": int(part["subject_id"].nunique()),
            "n_images": len(part),
            "labels": [share[str(group)] for share in shares if group in share],
        }
        for group, part in entries.groupby("group", sort=True)
    ]
    compared = zip(names, _compare(entries, names, setting), strict=True)
    return {**head, "rows": rows, "reason": None}, [({**head, "label": name}, row) for name, row in compared]


def _shares(entries: pd.DataFrame, name: str, comparison: ComparisonSettings) -> dict[str, dict[str, Any]]:
    """Return one label's share of each group in which enough subjects have a known outcome."""
    proportions = proportions_by_group(
        entries[name],
        entries["group"],
        entries["subject_id"],
        alpha=comparison.alpha,
        min_subjects=comparison.min_subjects,
    )
    of_images = entries.groupby("group")[name].mean()
    return {
        found.group: {
            "label": name,
            "share_images": float(of_images[found.group]),
            "rate": found.rate,
            "ci_low": found.ci_low,
            "ci_high": found.ci_high,
            "n_images": found.n_images,
            "n_subjects": found.n_subjects,
        }
        for found in proportions.groups
    }


def _compare(entries: pd.DataFrame, names: list[str], setting: _Setting) -> Sequence[DisparityRow]:
    """Return the disparity row of each label."""
    comparison = setting.comparison
    family = sum(len(setting.battery.classes[table.question]) + 1 for table in setting.options.tables)
    least = default_permutations(family, comparison.alpha) if comparison.n_permutations >= _FULL else 0
    return disparity_panel(
        entries[names].to_numpy(dtype=float),
        entries["group"].to_numpy(dtype=object),
        entries["subject_id"].to_numpy(dtype=object),
        [
            Outcome(
                higher_is_better=name != WRONG,
                value_range=(0.0, 1.0),
                yes_no=True,
                smallest_effect=setting.options.smallest_effect,
            )
            for name in names
        ],
        replace(comparison, n_permutations=max(comparison.n_permutations, least)),
        images=entries["image_id"].to_numpy(dtype=object),
    ).rows


def _accuracy(labels: pd.DataFrame, setting: _Setting) -> list[dict[str, Any]]:
    """Return per question, variant and right label the share that is labelled right, if the right label is known."""
    out = []
    for question in setting.options.truths:
        right_labels = setting.right_labels(question)
        if right_labels is None:
            continue
        of_question = labels[labels["question_id"] == question].merge(right_labels.dropna(), on=KEYS)
        for (variant, right), entries in of_question.groupby(["variant", "right"], sort=False):
            hit = entries.assign(hit=(entries["label"] == right).astype(float), group=str(right))
            for share in _shares(hit, "hit", setting.comparison).values():
                out.append({"question": question, "variant": str(variant), **share, "label": str(right)})
    return out
