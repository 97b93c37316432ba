"""Attention priority: which of two people in one image is described first, and with more words.

Every image is shown unchanged and mirrored. Each answer is one comparison of the person on the left of the original (A)
with the other (B). Both people get values of their own for the comparison of groups
(`fp2.protocols.fingerprint.disparities`): being first, and the share of words. The regression is that of the
Fingerprint² page: log(words A / words B) on log(area A / area B) and demographics, and the same for being first (a
linear probability model). Demographic terms are group indicators of A minus those of B. The position term is whether A
is shown on the left, which the mirrored copy balances.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    LEFT,
    MIRRORED,
    ORIGINAL,
    ComparedRun,
    ComparisonSettings,
    FloatArray,
    Fp2Error,
    GroupComparison,
    Inputs,
    Requirements,
    Show,
    SupplementEntry,
    engine_class,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Battery, Config, Cut, Scorer, Stimulus

FIRST, SHARE = "first_mention", "word_share"
POSITION, AREA, CONSTANT = "shown on the left", "area (log ratio)", "constant"
OTHER = "(smaller groups)"


class Attention(GroupComparison):
    """Descriptions of two people in one image."""

    name = "attention"
    requires = Requirements(n_people=2, special_case_of="fingerprint", copies=2, takes_analysis=("published",))
    states = replace(GroupComparison.states, sections=("fp2.methods.attention.section:AttentionSection",))
    supplements = (
        SupplementEntry(
            "attention_ratio",
            "fp2.methods.attention.attention_ratio:AttentionRatio",
            "fp2.methods.attention.attention_ratio:AttentionRatioSection",
            fits=lambda job, tables: job.config.analysis.published,
        ),
    )

    def check_battery(self, battery: Battery, config: Config) -> None:
        """Raise for image variants, and for the simulator, which has no images of two people."""
        if config.variant.kind != ORIGINAL:
            raise Fp2Error("images of two people are shown unchanged and mirrored", where="variant", fix="Omit it")
        if engine_class(asdict(config.engine)).planted:
            raise Fp2Error("a simulator has no images of two people", where="model", fix="Use model=peeps_vlm")

    def stimuli(self, inputs: Inputs, show: Show) -> Iterator[tuple[pd.DataFrame, str, list[Stimulus]]]:
        """Yield every image once unchanged, and once mirrored."""
        from fp2.extension import mirrored, one_row_each

        rows = one_row_each(inputs.people)
        shown = show(rows, inputs.config.variant)
        yield rows, inputs.config.variant.kind, shown
        yield rows, MIRRORED, [mirrored(stimulus) for stimulus in shown]

    def assign_scores(self, scores: pd.DataFrame, people: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
        """Return the scores of both people in each image."""
        return per_person(scores, people)

    def own_blocks(self, run: ComparedRun) -> dict[str, Any]:
        """Return the regressions of word counts and of order of mention."""
        return {"attention": attention_block(run.scores, run.people, run.cuts, run.comparison)}


def per_person(scores: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of both people; a scorer's value is of the person who was shown on the left.

    `people` has the two rows of each image with their `side` (`fp2.data.sampling.two_person`).
    """
    both = scores.drop(columns="subject_id").merge(people[["image_id", "subject_id", "side"]], on="image_id")
    shown_left = (both["side"] == LEFT) != (both["variant"] == MIRRORED)
    both["value"] = both["value"].where(shown_left, 1 - both["value"])
    return both[scores.columns]


def comparisons(scores: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per description of an image (scores as `per_person` returns them).

    Columns: `image_id, variant, question_id, a, b` (subjects), `position` (0.5 where A is shown left, else -0.5),
    `area` (log ratio of the boxes' areas), `first` (1 where A is described first), `words` (log ratio of the words for
    A and B; missing unless both are named by their sides). Outcomes of refused and unparsed descriptions are missing.
    """
    import pandas as pd

    names = [name for name in people.columns if name.startswith(ATTRIBUTE_PREFIX)]
    paired = people.assign(size=people["box_w"] * people["box_h"])[["image_id", "subject_id", "size", "side", *names]]
    sides = [paired[(paired["side"] == LEFT) == is_left].drop(columns="side") for is_left in (True, False)]
    pairs = sides[0].merge(sides[1], on="image_id", suffixes=("_a", "_b"))
    renamed = {f"{name}_{who}": f"{who}_{name.removeprefix(ATTRIBUTE_PREFIX)}" for name in names for who in "ab"}
    pairs = pairs.rename(columns={"subject_id_a": "a", "subject_id_b": "b", **renamed})
    pairs = pairs.assign(area=np.log(pairs["size_a"] / pairs["size_b"])).drop(columns=["size_a", "size_b"])
    left = pairs[["image_id", "a"]].rename(columns={"a": "subject_id"})
    mine = scores.merge(left, on=["image_id", "subject_id"])
    keys = ["image_id", "variant", "question_id"]
    first = mine[mine["scorer"] == FIRST].assign(first=lambda rows: rows["value"].mask(rows["refused"].astype(bool)))
    share = mine[mine["scorer"] == SHARE]
    known = share["value"].notna() & ~share["refused"].astype(bool)
    words = share.assign(
        words=[
            _log_ratio(details, variant) if ok else np.nan
            for details, variant, ok in zip(share["details"], share["variant"], known, strict=True)
        ]
    )
    table = pd.merge(first[[*keys, "first"]], words[[*keys, "words"]], on=keys, how="outer").merge(pairs, on="image_id")
    return table.assign(position=np.where(table["variant"] == MIRRORED, -0.5, 0.5))


def _log_ratio(details: str, variant: str) -> float:
    counts = json.loads(details)
    ratio = float(np.log(counts["left_words"] / counts["right_words"]))
    return -ratio if variant == MIRRORED else ratio


@dataclass(frozen=True)
class _Terms:
    """The design matrix of one regression: names of its columns, the attribute of each (or ""), dropped columns."""

    names: tuple[str, ...]
    of: tuple[str, ...]
    values: FloatArray
    references: Mapping[str, str]
    dropped: tuple[str, ...]


def attention_block(
    scores: pd.DataFrame, people: pd.DataFrame, cuts: Sequence[Cut], comparison: ComparisonSettings
) -> dict[str, Any]:
    """Return the block `attention` (scores as `per_person` returns them).

    The demographics are the attributes of the cuts. Groups of fewer than `comparison.min_subjects` subjects are pooled;
    the largest group of an attribute is its reference. Each attribute has a joint Wald test, corrected over the
    attributes of one outcome by Holm's method.
    """
    from fp2.extension import with_merged_values

    people = with_merged_values(people, cuts)
    table = comparisons(scores, people)
    attributes = list(dict.fromkeys(name for cut in cuts for name in cut.by))
    values = table["first"].where(table["position"] > 0, 1 - table["first"])
    wide = table.pivot_table(index=["image_id", "question_id"], columns="variant", values="first")
    both = wide.dropna() if wide.shape[1] == 2 else wide.iloc[:0]
    return {
        "n_pictures": int(people["image_id"].nunique()),
        "n_descriptions": len(table),
        "first_known": int(table["first"].notna().sum()),
        "both_named": int(table["words"].notna().sum()),
        "left_first": float(values.mean()) if values.notna().any() else None,
        "same_person_first_when_mirrored": float((both.iloc[:, 0] == both.iloc[:, 1]).mean()) if len(both) else None,
        "regressions": [
            _regression(table, outcome, words, attributes, people, comparison)
            for outcome, words in (("words", "log(words of A / words of B)"), ("first", "A is described first"))
        ],
    }


def _regression(
    table: pd.DataFrame,
    outcome: str,
    words: str,
    attributes: Sequence[str],
    people: pd.DataFrame,
    c: ComparisonSettings,
) -> dict[str, Any]:
    from fp2.extension import adjust_p_values
    from fp2.methods.attention.dyads import dyad_fit

    whole = table[outcome].notna()
    for name in attributes:
        whole &= (table[f"a_{name}"].map(len) > 0) & (table[f"b_{name}"].map(len) > 0)
    rows = table[whole]
    terms = _terms(rows, attributes, people, c.min_subjects)
    head: dict[str, Any] = {
        "outcome": outcome,
        "meaning": words,
        "n_descriptions": len(rows),
        "n_pictures": int(rows["image_id"].nunique()),
        "left_out": int(table[outcome].notna().sum()) - len(rows),
        "references": dict(terms.references),
        "dropped": list(terms.dropped),
        "errors_by": None,
        "terms": [],
        "attributes": [],
    }
    # a robust variance needs many more images than terms: below this no estimate is given
    if head["n_pictures"] < 2 * len(terms.names) + 10 or rows[outcome].nunique() < 2:
        constant = rows[outcome].nunique() < 2
        reason = "the outcome is constant" if constant and len(rows) else "too few images for the terms"
        return {**head, "reason": reason}
    try:
        who = (rows[name].to_numpy(dtype=object) for name in ("image_id", "a", "b"))
        fit = dyad_fit(rows[outcome].to_numpy(dtype=float), terms.values, *who)
    except ValueError as error:
        return {**head, "reason": str(error)}
    found = [fit.term(index, 1 - c.alpha) for index in range(len(terms.names))]
    lines = [
        {"term": name, "attribute": of or None, **dict(zip(_FIELDS, values, strict=True))}
        for name, of, values in zip(terms.names, terms.of, found, strict=True)
        if name != CONSTANT
    ]
    names = [name for name in dict.fromkeys(terms.of) if name]
    raw = [fit.joint_p([index for index, of in enumerate(terms.of) if of == name]) for name in names]
    tests = [
        {"attribute": name, "p_value": p, "adjusted_p": q, "significant": q is not None and q <= c.alpha}
        for name, p, q in zip(names, raw, adjust_p_values(raw), strict=True)
    ]
    return {**head, "errors_by": fit.by, "terms": lines, "attributes": tests, "reason": None}


_FIELDS = ("estimate", "standard_error", "ci_low", "ci_high", "p_value")


def _terms(rows: pd.DataFrame, attributes: Sequence[str], people: pd.DataFrame, least: int) -> _Terms:
    """Return the design matrix; a column that is a linear combination of those before it is dropped and named."""
    names, of = [CONSTANT, POSITION, AREA], ["", "", ""]
    columns = [np.ones(len(rows)), rows["position"].to_numpy(dtype=float), rows["area"].to_numpy(dtype=float)]
    references: dict[str, str] = {}
    dropped: list[str] = []
    combined: list[str] = []
    for name in attributes:
        entries = people[["subject_id", ATTRIBUTE_PREFIX + name]].explode(ATTRIBUTE_PREFIX + name).dropna()
        sizes = entries.groupby(ATTRIBUTE_PREFIX + name)["subject_id"].nunique()
        large = [str(group) for group in sizes.index[sizes >= least]]
        small = int((sizes < least).sum())
        kept = [*large, *([OTHER] if small else [])]
        references[name] = reference = str(sizes.idxmax()) if len(sizes) else ""
        found = [(group, _difference(rows, name, group, kept)) for group in kept if group != reference]
        found = [(group, column) for group, column in found if np.any(column)]
        if not found:
            pooled = f" (groups of fewer than {least} subjects are pooled)" if OTHER in kept else ""
            dropped.append(f"{name.replace('_', ' ')}: it does not differ within any image{pooled}")
        for group, column in found:
            if len(rows) and np.linalg.matrix_rank(np.column_stack([*columns, column])) <= len(columns):
                combined.append(f"{name.replace('_', ' ')} {group}")
                continue
            names.append(group)
            of.append(name)
            columns.append(column)
    if combined:
        dropped.append(f"{', '.join(combined)}: linear combinations of the terms before them")
    return _Terms(tuple(names), tuple(of), np.column_stack(columns), references, tuple(dropped))


def _difference(rows: pd.DataFrame, name: str, group: str, kept: Sequence[str]) -> FloatArray:
    """Return for each row the indicator of A minus that of B."""
    a, b = ([_belongs(cell, group, kept) for cell in rows[f"{who}_{name}"]] for who in "ab")
    difference: FloatArray = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return difference


def _belongs(cell: Sequence[str], group: str, kept: Sequence[str]) -> bool:
    return any(value not in kept for value in cell) if group == OTHER else group in cell
