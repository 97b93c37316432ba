"""Adjusted disparities: is there a gap where other attributes and image facts are held constant (`analysis.adjust`)?

The unit is the subject: its mean over images, its shares in the groups, and its covariates. An attribute enters as the
share of the subject's images with each level; an attribute whose values are all numbers, or an image fact, as its mean.
A gap that vanishes here is one that the covariates account for, which does not make it harmless; one that stays is not
due to them, as far as the linear model goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    ATTRIBUTE_PREFIX,
    STEP_DOWN,
    Block,
    Cell,
    Column,
    ComparedRun,
    Cut,
    Estimate,
    Fp2Error,
    Kind,
    Part,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Verdict,
    Weight,
    cut_label,
    first_of,
    json_ready,
    members,
    number,
    outcome_columns,
    probability,
    probe_labels,
    scorer_label,
    verdict_words,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from fp2.extension import FloatArray
    from fp2.methods.adjusted.model import Adjusted, Design, Interaction

PERMUTATIONS = 2_000
"""The Monte-Carlo error of an adjusted p of 0.05 is 0.005; step-down max-T needs no more for a larger family."""
OTHER = "(other)"


class AdjustedDisparities(Supplement):
    """The disparities of the primary scorer, with covariates held constant."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `adjusted`, or None without `analysis.adjust`."""
        wanted = list(dict.fromkeys(run.config.analysis.adjust))
        if not wanted or not run.disparities:
            return None
        n = min(PERMUTATIONS, run.comparison.n_permutations)
        verdicts = {(row["probe"], row["scorer"], row["cut"]): row["verdict"] for row in run.disparities}
        rows, fits = [], []
        for cut in run.cuts:
            if not (names := [name for name in wanted if name not in cut.by]):
                continue
            probes, panel, left_out = compare(run, cut, names, n)
            for probe, fit in zip(probes, panel, strict=True):
                numbers = {name: getattr(fit, name) for name in ("raw", "gap", "ci_low", "ci_high", "p_value")}
                low, high = fit.pair or (None, None)
                rows.append(
                    {
                        "probe": probe,
                        "cut": cut.name,
                        "covariates": names,
                        "status": fit.status,
                        "n_subjects": fit.n_subjects,
                        "n_left_out": left_out,
                        **json_ready(numbers),
                        "lower_group": low,
                        "higher_group": high,
                        "groups": [asdict(group) for group in fit.groups],
                        "balance": [asdict(entry) for entry in fit.balance],
                        "unadjusted_verdict": verdicts[probe, run.comparison.primary, cut.name],
                    }
                )
            fits += panel
        if not rows:
            return None
        adjusted = step_down([(fit.max_t, fit.permuted) for fit in fits])
        for row, p in zip(rows, adjusted, strict=True):
            row.update(adjusted_p=p, significant=p is not None and p <= run.comparison.alpha, family_size=len(rows))
        return {
            "scorer": run.comparison.primary,
            "covariates": wanted,
            "family": "all rows of this block, step-down max-T",
            "correction": STEP_DOWN,
            "n_permutations": n,
            "alpha": run.comparison.alpha,
            "rows": rows,
        }


def step_down(tests: Sequence[tuple[float | None, np.ndarray | None]]) -> list[float | None]:
    """Return step-down max-T p-values of (statistic, its permutations); None where there is none."""
    import numpy as np

    from fp2.extension import step_down_max_t

    testable = [(k, t, permuted) for k, (t, permuted) in enumerate(tests) if t is not None and permuted is not None]
    out: list[float | None] = [None] * len(tests)
    if testable:
        p = step_down_max_t(np.array([t for _, t, _ in testable]), np.stack([table for *_, table in testable], axis=1))
        for (k, _, _), value in zip(testable, p, strict=True):
            out[k] = float(value)
    return out


def compare(run: ComparedRun, cut: Cut, covariates: Sequence[str], n: int) -> tuple[list[str], list[Adjusted], int]:
    """Return the probes, their adjusted comparison, and how many subjects lack a covariate and are left out."""
    from fp2.methods.adjusted.model import adjusted_panel

    probes, values, design, left_out = _subjects(run, cut, covariates)
    return probes, adjusted_panel(values, design, replace(run.comparison, n_permutations=n)), left_out


def interactions(run: ComparedRun, cut: Cut, n: int) -> tuple[list[str], list[Interaction | None]]:
    """Return the probes, and the test that the means of an intersection follow from main effects and covariates."""
    from fp2.methods.adjusted.model import interaction_panel

    covariates = [name for name in run.config.analysis.adjust if name not in cut.by]
    probes, values, design, _ = _subjects(run, cut, covariates)
    return probes, interaction_panel(values, design, replace(run.comparison, n_permutations=n))


def _subjects(run: ComparedRun, cut: Cut, covariates: Sequence[str]) -> tuple[list[str], FloatArray, Design, int]:
    """Return probes, the means of the subjects with all covariates (S, m), their design, and how many lack one."""
    wide = outcome_columns(run.scores[run.scores["scorer"] == run.comparison.primary])
    wide = wide.droplevel("scorer", axis=1)
    table = members(run.people, cut)
    images = table.drop_duplicates(["image_id", "subject_id"])
    means = wide.reindex(list(zip(images["image_id"], images["subject_id"], strict=True)))
    values = means.groupby(images["subject_id"].to_numpy(dtype=object)).mean()
    design, complete = design_of(run, cut, covariates, table, list(values.index))
    design = replace(design, shares=design.shares[complete], covariates=design.covariates[complete])
    probes = [str(probe) for probe in wide.columns]
    return probes, values.to_numpy(dtype="float64")[complete], design, int((~complete).sum())


def design_of(
    run: ComparedRun, cut: Cut, covariates: Sequence[str], table: pd.DataFrame, subjects: list[Any]
) -> tuple[Design, np.ndarray]:
    """Return what is known of `subjects`, NaN for a missing covariate, and which of them have all covariates.

    `table`: the memberships of the cut.

    Raises
    ------
    Fp2Error
        If the table of people lacks a covariate.
    """
    import numpy as np

    from fp2.methods.adjusted.model import Design

    shares = _shares(table["subject_id"], table["image_id"], table["group"], subjects)
    groups = tuple(str(name) for name in shares.columns)
    people = run.people[run.people["subject_id"].isin(subjects)]
    columns, of_attribute = [], []
    complete = np.ones(len(subjects), dtype=bool)
    for name in covariates:
        if ATTRIBUTE_PREFIX + name not in people:
            fix = "Start a run with this analysis.adjust: its answers come from the store"
            raise Fp2Error(f"the table of people has no attribute {name!r}", where="analysis.adjust", fix=fix)
        covariate = _covariate(people, name, subjects, run.comparison.min_subjects)
        complete &= np.isfinite(covariate).all(axis=1)
        columns.append(covariate)
        of_attribute += [name] * covariate.shape[1]
    x = np.concatenate([*columns, np.zeros((len(subjects), 0))], axis=1)
    additive = _additive(run, cut, table, groups) if len(cut.by) > 1 else None
    return Design(shares.to_numpy(dtype="float64"), groups, x, tuple(of_attribute), additive), complete


def _shares(subjects: pd.Series, images: pd.Series, labels: pd.Series, order: list[Any]) -> pd.DataFrame:
    """Return each subject's shares of the labels, (subjects, labels); an image with k labels gives 1/k to each."""
    import pandas as pd

    table = pd.DataFrame({"subject": subjects, "image": images, "label": labels}).drop_duplicates()
    weight = 1 / table.groupby(["subject", "image"])["label"].transform("size")
    sums = table.assign(weight=weight).pivot_table(index="subject", columns="label", values="weight", aggfunc="sum")
    sums = sums.fillna(0.0).reindex(order)
    return sums.div(sums.sum(axis=1), axis=0)


def _covariate(people: pd.DataFrame, name: str, subjects: list[Any], min_subjects: int) -> np.ndarray:
    """Return the columns of one covariate, (subjects, columns), NaN where a subject has no value.

    Levels of fewer than `min_subjects` subjects are joined, and the level of the most subjects is the reference.
    """
    import numpy as np
    import pandas as pd

    cells = people[["subject_id", "image_id", ATTRIBUTE_PREFIX + name]].explode(ATTRIBUTE_PREFIX + name).dropna()
    label = cells[ATTRIBUTE_PREFIX + name].astype(str)
    numbers = pd.to_numeric(label, errors="coerce")
    if len(label) and numbers.notna().all() and label.nunique() > 2:
        means = numbers.groupby(cells["subject_id"]).mean().reindex(subjects)
        return means.to_numpy(dtype="float64")[:, None]
    sizes = cells.groupby(label)["subject_id"].nunique()
    label = label.where(label.map(sizes) >= min_subjects, OTHER)
    shares = _shares(cells["subject_id"], cells["image_id"], label, subjects)
    columns = [column for column in shares.columns if column != shares.sum().idxmax()]
    out: np.ndarray = shares[columns].to_numpy(dtype="float64")
    missing = shares.isna().all(axis=1).to_numpy()
    return np.where(missing[:, None], np.nan, out) if len(columns) else np.where(missing, np.nan, 0.0)[:, None][:, :0]


def _additive(run: ComparedRun, cut: Cut, table: pd.DataFrame, groups: Sequence[str]) -> np.ndarray:
    """Return which labels of the cut's attributes each of its groups has, (G, labels)."""
    import numpy as np

    from fp2.extension import combinations

    parts_of = dict(zip(table["group"], combinations(run.people, cut), strict=True))
    columns = []
    for index in range(len(cut.by)):
        values = [parts_of[group][index] for group in groups]
        columns += [[float(label == value) for label in values] for value in sorted(set(values))]
    return np.array(columns, dtype=np.float64).T


class AdjustedSection(Section):
    """A table per cut: the gap before and after adjustment, and the balance of the covariates."""

    name = "adjusted"
    title = "Adjusted disparities"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield which gaps stay and which do not with the covariates held constant, and by cut both gaps."""
        labels, held = probe_labels(results), ", ".join(cut_label(name) for name in block["covariates"])
        rows = block["rows"]
        stay = [row for row in rows if row["significant"]]
        before = [row for row in rows if row["unadjusted_verdict"] in (Verdict.BIASED, Verdict.SIGNIFICANT_BUT_SMALL)]
        gone = [row for row in before if not row["significant"]]
        for outcome, chosen in (("still different", stay), ("no longer found", gone)):
            if chosen:
                gaps = [f"{labels[r['probe']]} by {cut_label(r['cut'])} {number(r['gap'])}" for r in chosen]
                yield Sentence(f"With {held} held constant, {outcome}: {first_of(gaps)}.")
        if not (stay or gone):
            p = min((row["adjusted_p"] for row in rows if row["adjusted_p"] is not None), default=None)
            smallest = f"(smallest adjusted p {probability(p)})"
            yield Sentence(f"With {held} held constant: {Verdict.NO_DIFFERENCE_FOUND.label} {smallest}.")
        for cut in dict.fromkeys(row["cut"] for row in rows):
            of_cut = [row for row in rows if row["cut"] == cut]
            compared: Mapping[str, Any] = next((line for line in of_cut if line["status"] == "ok"), of_cut[0])
            covariates = ", ".join(cut_label(name) for name in compared["covariates"])
            left_out = compared["n_left_out"]
            caption = f"By {cut_label(cut)}, with {covariates} held constant"
            caption += f"; {left_out} subjects without a covariate are left out" if left_out else ""
            yield Table("adjusted", GAP_COLUMNS, [_gap_row(line, labels) for line in of_cut], caption, cut=cut)
            if compared["balance"]:
                balance = [
                    Row([cut_label(entry["attribute"]), entry["before"], entry["after"], entry["products"]])
                    for entry in compared["balance"]
                ]
                means = [
                    Row([g["group"], g["n_subjects"], g["effective_n"], g["mean"], g["adjusted"]], g["n_subjects"])
                    for g in compared["groups"]
                ]
                yield Part(
                    f"Balance of the covariates between the groups ({labels[compared['probe']]})",
                    [
                        Table("balance", BALANCE_COLUMNS, balance, cut=cut),
                        Table("adjusted_means", MEAN_COLUMNS, means, omit_small=True, cut=cut),
                    ],
                    folded=True,
                    cut=cut,
                )
        yield Sentence(HOW_TO_READ.format_map({**block, "scorer": scorer_label(block["scorer"])}), Weight.DETAIL)


def _gap_row(row: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    status, muted = row["status"], not row["significant"]
    reason = "" if status == "ok" else NOT_COMPARED.get(status) or verdict_words(status)
    return Row(
        [
            labels[row["probe"]],
            row["raw"],
            Cell(Estimate(row["gap"], row["ci_low"], row["ci_high"]) if status == "ok" else None, detail=reason),
            row["adjusted_p"],
            Cell(row["lower_group"], muted=muted),
            Cell(row["higher_group"], muted=muted),
            row["unadjusted_verdict"],
        ]
    )


NOT_COMPARED = {"not_separable": "the covariates determine the groups: not separable"}
GAP_COLUMNS = [
    Column("Probe"),
    Column("Raw gap", Kind.NUMBER),
    Column("Adjusted gap", Kind.ESTIMATE),
    Column("Adjusted p", Kind.P),
    Column("Lower", Kind.NAME),
    Column("Higher", Kind.NAME),
    Column("Verdict without adjustment", Kind.VERDICT),
]
BALANCE_COLUMNS = [
    Column("Covariate"),
    Column("Before", Kind.NUMBER, digits=2),
    Column("After", Kind.NUMBER, digits=2),
    Column("After, products", Kind.NUMBER, digits=2),
]
MEAN_COLUMNS = [
    Column("Group", Kind.NAME),
    Column("Subjects", Kind.COUNT, public=True),
    Column("Effective", Kind.NUMBER, digits=1),
    Column("Mean", Kind.NUMBER),
    Column("Adjusted", Kind.NUMBER),
]
HOW_TO_READ = (
    "Adjusted: group means of {scorer} that subjects with average covariates would have in a linear model, subjects as "
    "units. A gap that vanishes is one that the covariates account for, which does not make it harmless; an attribute "
    "of the cut itself is not held constant. Raw and adjusted gap are of the same subjects; {n_permutations:,} "
    "Freedman-Lane permutations of residuals across subjects; family: {family}. Balance: largest standardised "
    "difference of the covariate's means between two groups; products: of squares and products of covariates, which "
    "the linear model does not hold constant. Effective: Kish's number of subjects under the implied weights."
)
