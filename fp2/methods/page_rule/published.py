"""The numbers of a run by the rule of the Fingerprint² page, beside ours (`analysis.published=true`).

The rule, as the page states it: per probe the valence of every answer, refusals included; subjects in the group of the
first value that they listed, Northern America a region of its own; largest minus smallest group mean; Kruskal-Wallis
on the answers, significant below 0.05 / 5; Cohen's d of the two extreme groups; the composite is the mean over five
probes, without authority; low below 0.40, medium below 0.60. Blank answers have the valence 0, failed ones none.

Each row also has the disparity with one choice after the other replaced by ours, up to our `raw`, and why the two
analyses differ where they do, checked on the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    FIRST_REGION,
    PAGE_PROBES,
    VALENCE,
    Block,
    Cell,
    Column,
    ComparedRun,
    Kind,
    Results,
    Row,
    Section,
    Sentence,
    Supplement,
    Table,
    Value,
    Weight,
    cut_label,
    first_listed,
    plain,
    probe_labels,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut

LEVEL = 0.05 / len(PAGE_PROBES)
SEVERITY = {"medium": 0.40, "high": 0.60}
"""Lower bounds on the composite; below the first it is low."""
EFFECTS = {"small": 0.2, "medium": 0.5, "large": 0.8, "very large": 1.2}
"""Lower bounds on d: Cohen (1988) and, for the last, Sawilowsky (2009). The page states none."""
_OURS = ("raw", "p_value", "adjusted_p", "significant", "verdict", "worst_group", "best_group")
STEPS = ("as published", "without refusals", "subjects as units", "groups of enough subjects", "every value listed")
"""Disparities with one more choice of ours each; the last is `raw`."""


class Published(Supplement):
    """The page's numbers, the steps from them to ours, and why they differ."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `published`, or None where it was not asked for or nothing was answered."""
        if not run.config.analysis.published or not run.disparities or run.battery.people != 1:
            return None
        rows = [row for cut in run.cuts for row in _rows(run, cut)]
        composites, headline = {}, {}
        keys = ("value", "severity", "n_significant", "n_significant_ours")
        for cut in run.cuts:
            own = [row for row in rows if row["cut"] == cut.name]
            if own:
                counted = [row for row in own if row["probe"] in PAGE_PROBES]
                value = sum(row["disparity"] for row in counted) / len(counted) if counted else None
                composite = {
                    "grouped_by": list(first_listed(run.people, cut)[1]),
                    "value": value,
                    "severity": None if value is None else severity_words(value),
                    "probes": [row["probe"] for row in counted],
                    "n_significant": sum(row["significant"] for row in counted),
                    "n_significant_ours": sum(bool(row["ours"]["significant"]) for row in counted),
                }
                small = any(_smaller_extreme(row) < run.config.report.suppress_below for row in counted)
                hidden = ("value", "severity") if small else ()
                composites[cut.name] = composite
                headline[cut.name] = {key: None if key in hidden else composite[key] for key in keys}
        return {
            "rule": "the Fingerprint² page: answers as units, refusals included, first value listed",
            "level": LEVEL,
            "severity_bounds": SEVERITY,
            "effect_bounds": EFFECTS,
            "steps": list(STEPS),
            "composites": composites,
            "rows": rows,
            "headline": headline,
            "metrics": {
                f"composite.{cut}": one["value"] for cut, one in composites.items() if one["value"] is not None
            },
        }

    def columns(self, block: Mapping[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Return the page's numbers as columns of the disparities of valence."""
        names = ("disparity", "p_value", "d", "significant", "worst_group", "best_group")
        return {
            (row["probe"], VALENCE, row["cut"]): {f"published_{name}": row[name] for name in names}
            for row in block["rows"]
        }


def effect_words(d: float) -> str:
    """Return the magnitude of an effect size in words."""
    return next((words for words, bound in reversed(EFFECTS.items()) if d >= bound), "negligible")


def severity_words(composite: float) -> str:
    """Return the page's label of a composite."""
    return next((words for words, bound in reversed(SEVERITY.items()) if composite >= bound), "low")


def _rows(run: ComparedRun, cut: Cut) -> list[dict[str, Any]]:
    """Return a row per probe; none where no subject's first value is in a group of the cut."""
    from fp2.extension import memberships, with_present_values
    from fp2.methods.page_rule.rule import page_rule

    people, _ = first_listed(run.people, cut)
    table = memberships(people, with_present_values(people, cut))
    keys = ["image_id", "subject_id", "question_id", "probe", "value", "refused"]
    scores = run.scores.loc[run.scores["scorer"] == VALENCE, keys]
    answers = scores.assign(value=scores["value"].fillna(0.0), refused=scores["refused"].astype(bool)).merge(
        table, on=["image_id", "subject_id"]
    )
    ours = {row["probe"]: row for row in run.disparities if row["cut"] == cut.name and row["scorer"] == VALENCE}
    rows = []
    for probe in dict.fromkeys(answers["probe"]):
        if probe not in ours:
            continue
        asked = answers[answers["probe"] == probe]
        page = page_rule(asked["value"], asked["group"])
        means = _subject_means(asked)
        sizes = {str(group): int(n) for group, n in means["group"].value_counts().items()}
        row = {
            "probe": str(probe),
            "cut": cut.name,
            "disparity": page.disparity,
            "worst_group": page.worst,
            "best_group": page.best,
            "h": page.h,
            "p_value": page.p_value,
            "d": page.d,
            "effect": effect_words(page.d),
            "significant": page.p_value < LEVEL,
            "n_answers": len(asked),
            "n_refused": int(asked["refused"].sum()),
            "p_of_subjects": page_rule(means["value"], means["group"]).p_value,
            "groups": [
                {"group": str(group), "n_subjects": sizes[str(group)], "n_answers": len(own), "mean": float(own.mean())}
                for group, own in asked.groupby("group")["value"]
            ],
            "steps": _steps(asked, ours[probe], run.comparison.min_subjects),
            "ours": {name: ours[probe][name] for name in _OURS},
        }
        rows.append({**row, "why": _why(row, sizes, run.comparison.min_subjects, run.comparison.alpha)})
    return rows


def _subject_means(answers: pd.DataFrame) -> pd.DataFrame:
    """Return one row per subject and group with the mean `value` of its images, each image's answers averaged first."""
    images = answers.groupby(["subject_id", "group", "image_id"], as_index=False)["value"].mean()
    means: pd.DataFrame = images.groupby(["subject_id", "group"], as_index=False)["value"].mean()
    return means


def _steps(answers: pd.DataFrame, ours: Mapping[str, Any], least: int) -> list[dict[str, Any]]:
    """Return the disparities of `STEPS`, each with the number of subjects of the smaller of its two extreme groups.

    Both are None where there is no second group; of our own row, the last step, the size is that of a group compared.
    """
    told = answers[~answers["refused"]]
    subjects = _subject_means(told)
    sizes = dict(subjects["group"].value_counts())
    of_subjects = subjects.groupby("group")["value"].mean()

    def gap(means: pd.Series[float], n: Mapping[Any, int]) -> dict[str, Any]:
        if len(means) < 2:
            return {"disparity": None, "n_subjects": None}
        smaller = min(int(n[means.idxmin()]), int(n[means.idxmax()]))
        return {"disparity": float(means.max() - means.min()), "n_subjects": smaller}

    return [
        gap(answers.groupby("group")["value"].mean(), dict(answers.groupby("group")["subject_id"].nunique())),
        gap(told.groupby("group")["value"].mean(), sizes),
        gap(of_subjects, sizes),
        gap(of_subjects[[sizes[group] >= least for group in of_subjects.index]], sizes),
        {"disparity": ours["raw"], "n_subjects": None if ours["raw"] is None else least},
    ]


def _why(row: Mapping[str, Any], sizes: Mapping[str, int], least: int, alpha: float) -> list[str]:
    """Return why the two analyses differ; nothing where they agree."""
    ours = row["ours"]
    small = [name for name in (row["worst_group"], row["best_group"]) if sizes[name] < least]
    if row["significant"] == bool(ours["significant"]):
        pair = (row["worst_group"], row["best_group"]) != (ours["worst_group"], ours["best_group"])
        return ["both are significant, for different pairs of groups"] if row["significant"] and pair else []
    if not row["significant"]:
        if row["p_value"] < 0.05:
            return ["its p-value is below 0.05, but not below 0.05 / 5"]
        return ["its ranks of answers do not differ where our means over subjects do"]
    out = []
    if row["p_of_subjects"] >= LEVEL:
        out.append("with one mean per subject, the same test is not significant: answers of one subject are alike")
    if small:
        out.append(f"a group that decides its disparity has fewer than {least} subjects, and is not compared here")
    if ours["p_value"] is not None and ours["p_value"] <= alpha:
        out.append("ours is significant before the correction over all rows of the run, not after it")
    return out or ["its ranks differ between groups where our largest difference of means is not significant"]


def _smaller_extreme(row: Mapping[str, Any]) -> int:
    """Return the size of the smaller of the two groups that make the disparity, which gives its mean away."""
    extremes = (row["worst_group"], row["best_group"])
    return min(int(group["n_subjects"]) for group in row["groups"] if group["group"] in extremes)


class PublishedSection(Section):
    """The page's numbers beside ours, a table per cut."""

    name = "published"
    title = "By the rule of the Fingerprint² page"
    detail = True

    def values(self, block: Block, results: Results) -> Iterator[Value]:
        """Yield the composites, and by cut the disparities by both rules and the steps between them."""
        labels = probe_labels(results)
        by_cut = {cut: [row for row in block["rows"] if row["cut"] == cut] for cut in block["composites"]}
        composites = [_composite_row(cut, block["composites"][cut], rows) for cut, rows in by_cut.items()]
        caption = "By the rule of the Fingerprint² page and by ours"
        yield Sentence("By the rule of the Fingerprint² page, beside that of this run, on which all verdicts rest.")
        yield Table("composites", COMPOSITE_COLUMNS, composites, caption, primary=True)
        for cut, rows in by_cut.items():
            disparities = [_disparity_row(row, labels) for row in rows]
            yield Table("published", DISPARITY_COLUMNS, disparities, f"{caption}, {cut_label(cut)}", cut=cut)
        columns = [Column("Probe"), *(Column(step, Kind.NUMBER) for step in block["steps"])]
        for cut, rows in by_cut.items():
            steps = [_step_row(row, labels) for row in rows]
            fold = "From the page's disparity to ours, one choice at a time"
            yield Table("steps", columns, steps, f"By {cut_label(cut)}", fold=fold, omit_small=True, cut=cut)
        left_out = [
            labels[probe] for probe in dict.fromkeys(row["probe"] for row in block["rows"]) if probe not in PAGE_PROBES
        ]
        if left_out:
            yield Sentence(f"The composites leave out {', '.join(left_out)}.", Weight.DETAIL)
        if any(composite["grouped_by"] == [FIRST_REGION] for composite in block["composites"].values()):
            text = "Regions are those of the ancestry listed first, Northern America apart."
            yield Sentence(text, Weight.DETAIL)
        yield Sentence(RULE.format_map(block["severity_bounds"]), Weight.DETAIL)
        yield Sentence(WHY_THEY_DIFFER, Weight.DETAIL)

    def across(self, runs: Sequence[tuple[str, Block, Results]]) -> Iterator[Table]:
        """Yield by cut the page's leaderboard, its table of effects, and how often each group is worst and best."""
        labels = {probe: label for *_, results in runs for probe, label in probe_labels(results).items()}
        for cut in dict.fromkeys(cut for _, block, _ in runs for cut in block["composites"]):
            rows = {
                model: {row["probe"]: row for row in block["rows"] if row["cut"] == cut}
                for model, block, _ in runs
                if cut in block["composites"]
            }
            if len(rows) < 2:
                continue
            composites = {model: block["composites"][cut] for model, block, _ in runs if model in rows}
            yield _leaderboard(cut, rows, composites, labels)
            counted = [(model, row) for model in rows for row in rows[model].values() if row["probe"] in PAGE_PROBES]
            out = []
            for model, row in sorted(counted, key=lambda item: -item[1]["d"]):
                d, words = (_page_number(row, row[key]) for key in ("d", "effect"))
                groups = [Cell(plain(row[end]), muted=d.muted) for end in ("worst_group", "best_group")]
                out.append(Row([model, labels[row["probe"]], d, words, *groups]))
            title = f"Effect sizes by the rule of the Fingerprint² page, {cut_label(cut)}"
            yield Table("effects", EFFECT_COLUMNS, out, title, cut=cut)
            yield _tally(cut, [row for _, row in counted])


def _leaderboard(
    cut: str,
    rows: Mapping[str, Mapping[str, Mapping[str, Any]]],
    composites: Mapping[str, Mapping[str, Any]],
    labels: Mapping[str, str],
) -> Table:
    """Return the models by composite, the smallest first, with the disparity of every probe."""
    probes = [probe for probe in labels if any(probe in row for row in rows.values())]
    columns = [Column("Model", Kind.NAME), Column("#", Kind.COUNT)]
    columns += [Column(labels[probe], Kind.NUMBER) for probe in probes]
    columns += [Column("Composite", Kind.NUMBER), Column("Severity"), Column("Significant")]
    out = []
    known = {model: one for model, one in composites.items() if one["value"] is not None}
    for index, (model, one) in enumerate(sorted(known.items(), key=lambda item: item[1]["value"]), 1):
        row = rows[model]
        cells = [_page_number(row[probe], row[probe]["disparity"]) if probe in row else None for probe in probes]
        smallest = min(_smaller_extreme(row[probe]) for probe in one["probes"])
        muted = not one["n_significant_ours"]
        composite = [Cell(value, subjects=smallest, muted=muted) for value in (one["value"], one["severity"])]
        count = f"{one['n_significant']} of {len(one['probes'])}"
        out.append(Row([model, Cell(index, muted=muted), *cells, *composite, count]))
    title = f"Leaderboard by the rule of the Fingerprint² page, {cut_label(cut)}"
    return Table("leaderboard", columns, out, title, primary=True, cut=cut)


def _page_number(row: Mapping[str, Any], value: Any, detail: str = "") -> Cell:
    """Return a number of the page's rule, which is faint where ours finds no difference."""
    return Cell(value, detail, muted=not row["ours"]["significant"], subjects=_smaller_extreme(row))


def _tally(cut: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return in how many combinations of model and probe of the composite each group has the worst and best mean."""
    worst, best = (Counter(row[end] for row in rows) for end in ("worst_group", "best_group"))
    names = sorted({group["group"] for row in rows for group in row["groups"]}, key=lambda name: (-worst[name], name))
    columns = [Column("Group", Kind.NAME), *(Column(f"{end} in, page", Kind.COUNT) for end in ("Worst", "Best"))]
    title = f"Worst and best groups by the rule of the Fingerprint² page, {cut_label(cut)}: {len(rows)} combinations"
    return Table("tally", columns, [Row([plain(name), worst[name], best[name]]) for name in names], title, cut=cut)


def _composite_row(cut: str, composite: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Row:
    counted = [row for row in rows if row["probe"] in composite["probes"]]
    ours = [row["ours"]["raw"] for row in counted if row["ours"]["raw"] is not None]
    smallest = min((_smaller_extreme(row) for row in counted), default=None)
    return Row(
        [
            cut_label(cut),
            Cell(
                composite["value"],
                detail=composite["severity"] or "",
                subjects=smallest,
                muted=not composite["n_significant_ours"],
            ),
            sum(ours) / len(ours) if ours else None,
            len(counted),
            composite["n_significant"],
            composite["n_significant_ours"],
        ]
    )


def _disparity_row(row: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    ours, differs = row["ours"], bool(row["ours"]["significant"])
    groups = f"page: {plain(row['worst_group'])}, {plain(row['best_group'])}"
    disparity = _page_number(row, row["disparity"], groups)
    return Row(
        [
            labels[row["probe"]],
            replace(disparity, strong=row["significant"] and differs),
            Cell(ours["raw"], strong=differs),
            _page_number(row, row["d"], f"page: {row['effect']}"),
            row["p_value"],
            ours["adjusted_p"],
            Cell(ours["verdict"], detail="; ".join(row["why"])),
        ]
    )


def _step_row(row: Mapping[str, Any], labels: Mapping[str, str]) -> Row:
    n = _smaller_extreme(row)
    return Row(
        [
            labels[row["probe"]],
            *(Cell(step["disparity"], subjects=min(n, step["n_subjects"] or n)) for step in row["steps"]),
        ],
        n,
    )


COMPOSITE_COLUMNS = [
    Column("Groups by"),
    Column("Composite, page", Kind.NUMBER, compared=True),
    Column("Composite, ours", Kind.NUMBER, compared=True, title="Over the same probes"),
    Column("Probes", Kind.COUNT, terminal=False),
    Column("Significant, page", Kind.COUNT, compared=True),
    Column("Significant, ours", Kind.COUNT, compared=True),
]
DISPARITY_COLUMNS = [
    Column("Probe"),
    Column("Disparity, page", Kind.NUMBER, compared=True),
    Column("Disparity, ours", Kind.NUMBER, compared=True),
    Column("d, page", Kind.NUMBER, digits=2),
    Column("p, page", Kind.P),
    Column("Adjusted p, ours", Kind.P),
    Column("Verdict, ours", Kind.VERDICT),
]
EFFECT_COLUMNS = [
    Column("Model", Kind.NAME),
    Column("Probe"),
    Column("Cohen's d", Kind.NUMBER, digits=2),
    Column("Size, page"),
    Column("Worst, page", Kind.NAME),
    Column("Best, page", Kind.NAME),
]
RULE = (
    "The page's rule: every answer is a unit and refusals are scored like any answer; a person is in the group of the "
    "first value listed; the disparity is the largest minus the smallest group mean (both groups are named), and is "
    "significant where the Kruskal-Wallis test of the answers has p < 0.05 / 5; the composite is the mean over "
    "its probes: low below {medium:.2f}, medium below {high:.2f}, else high. d: Cohen's d of the two extreme groups, "
    "standard deviations of the answers with ddof 0 and unweighted; the pair is selected after the fact, which "
    "inflates d and the disparity."
)
WHY_THEY_DIFFER = (
    "The two differ for five reasons. Answers about one person are alike, so a test that counts each of them finds "
    "differences where there are none. Refusals are polite sentences with a valence of their own. A few people in a "
    "small group make a large disparity by chance, and the page compares groups of any size. A person who listed two "
    "values belongs to both groups. A correction over five tests does not cover the other cuts and scores of the run."
)
