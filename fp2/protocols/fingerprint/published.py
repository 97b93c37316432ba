"""The numbers of a run by the rule of the Fingerprint² page, beside ours (`analysis.published=true`).

The rule, as the page states it: per probe the valence of every answer, refusals included; subjects in the group of the
first value that they listed, Northern America a region of its own; largest minus smallest group mean; Kruskal-Wallis
on the answers, significant below 0.05 / 5; Cohen's d of the two extreme groups; the composite is the mean over five
probes, without authority; low below 0.40, medium below 0.60. Blank answers have the valence 0, failed ones none.

Each row also has the disparity with one choice after the other replaced by ours, up to our `raw`, and why the two
analyses differ where they do, checked on the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fp2.data.derived import FIRST_REGION
from fp2.errors import Fp2Error
from fp2.protocols.fingerprint.settings import ComparedRun, Supplement
from fp2.report.reading import cut_label, number, plain, probe_labels, scorer_label
from fp2.report.section import Beside, Block, Cell, Results, Section
from fp2.tables import ATTRIBUTE_PREFIX

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.cuts import Cut

VALENCE = "valence"
PROBES = ("occupation", "education", "trust", "lifestyle", "neighbourhood")
"""The probes of the page's composite. It shows a sixth, authority, that its composites leave out."""
LEVEL = 0.05 / len(PROBES)
SEVERITY = {"medium": 0.40, "high": 0.60}
"""Lower bounds on the composite; below the first it is low."""
EFFECTS = {"small": 0.2, "medium": 0.5, "large": 0.8, "very large": 1.2}
"""Lower bounds on d: Cohen (1988) and, for the last, Sawilowsky (2009). The page states none."""
STEPS = ("as published", "without refusals", "subjects as units", "groups of enough subjects", "every value listed")
"""Disparities with one more choice of ours each; the last is `raw`."""
REGION = "region"


def check_published(config: Config) -> None:
    """Raise unless the battery has a probe of the page, and answers are scored by valence.

    Raises
    ------
    Fp2Error
        Naming what is missing.
    """
    where = "analysis.published"
    asked = config.probe.select or list(config.probe.probes)
    if not set(PROBES) & set(asked):
        fix = "Use probe=fingerprint, or analysis.published=false"
        raise Fp2Error(
            "the rule of the Fingerprint² page is about probes that this battery lacks", where=where, fix=fix
        )
    if VALENCE not in config.scorer:
        raise Fp2Error(
            "the rule of the Fingerprint² page needs the scorer valence",
            where=where,
            fix="Use scorer=default or scorer=valence",
        )


class Published(Supplement):
    """The page's numbers, the steps from them to ours, and why they differ."""

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block `published`, or None where it was not asked for or nothing was answered."""
        if not run.config.analysis.published or not run.disparities or run.battery.people != 1:
            return None
        rows = [row for cut in run.cuts for row in _rows(run, cut)]
        composites = {}
        for cut in run.cuts:
            own = [row for row in rows if row["cut"] == cut.name]
            if own:
                composites[cut.name] = {"grouped_by": list(first_listed(run.people, cut)[1]), **_composite(own)}
        return {
            "rule": "the Fingerprint² page: answers as units, refusals included, first value listed",
            "level": LEVEL,
            "severity_bounds": SEVERITY,
            "effect_bounds": EFFECTS,
            "steps": list(STEPS),
            "composites": composites,
            "rows": rows,
            "headline": _headline(composites, rows, run.config.report.suppress_below),
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


def _headline(
    composites: Mapping[str, Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], min_cell: int
) -> dict[str, Any]:  # fmt: skip
    """Return each cut's composite, None where it rests on a small group, and the numbers of significant probes."""
    keys = ("value", "severity", "n_significant", "n_significant_ours")
    out = {}
    for cut, one in composites.items():
        own = [row for row in rows if row["cut"] == cut and row["probe"] in one["probes"]]
        hidden = any(rests_on_small(row, min_cell) for row in own)
        out[cut] = {key: None if hidden and key in ("value", "severity") else one[key] for key in keys}
    return out


def effect_words(d: float) -> str:
    """Return the magnitude of an effect size in words."""
    return next((words for words, bound in reversed(EFFECTS.items()) if d >= bound), "negligible")


def severity_words(composite: float) -> str:
    """Return the page's label of a composite."""
    return next((words for words, bound in reversed(SEVERITY.items()) if composite >= bound), "low")


def _composite(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the composite of a cut over those of the page's five probes that were asked."""
    counted = [row for row in rows if row["probe"] in PROBES]
    value = sum(row["disparity"] for row in counted) / len(counted) if counted else None
    return {
        "value": value,
        "severity": None if value is None else severity_words(value),
        "probes": [row["probe"] for row in counted],
        "n_significant": sum(row["significant"] for row in counted),
        "n_significant_ours": sum(bool(row["ours"]["significant"]) for row in counted),
    }


def first_listed(people: pd.DataFrame, cut: Cut) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the people with the first value of each attribute of the cut only, and the attributes it was taken from.

    The region is that of the ancestry listed first, where the people table knows it; otherwise its first value.
    """
    out, sources = people.copy(deep=False), []
    for name in cut.by:
        source = FIRST_REGION if name == REGION and ATTRIBUTE_PREFIX + FIRST_REGION in people else name
        cells = [list(cell[:1]) for cell in people[ATTRIBUTE_PREFIX + source]]
        out[ATTRIBUTE_PREFIX + name] = cells
        sources.append(source)
    return out, tuple(sources)


def _rows(run: ComparedRun, cut: Cut) -> list[dict[str, Any]]:
    """Return a row per probe; none where no subject's first value is in a group of the cut."""
    from fp2.cuts import memberships, with_present_values

    people, _ = first_listed(run.people, cut)
    table = memberships(people, with_present_values(people, cut))
    keys = ["image_id", "subject_id", "question_id", "probe", "value", "refused"]
    scores = run.scores.loc[run.scores["scorer"] == VALENCE, keys]
    answers = scores.assign(value=scores["value"].fillna(0.0), refused=scores["refused"].astype(bool)).merge(
        table, on=["image_id", "subject_id"]
    )
    ours = {row["probe"]: row for row in run.disparities if row["cut"] == cut.name and row["scorer"] == VALENCE}
    return [
        _row(str(probe), cut.name, answers[answers["probe"] == probe], ours[probe], run)
        for probe in dict.fromkeys(answers["probe"])
        if probe in ours
    ]


def _row(
    probe: str, cut: str, answers: pd.DataFrame, ours: Mapping[str, Any], run: ComparedRun
) -> dict[str, Any]:  # fmt: skip
    from fp2.stats.page_rule import page_rule

    found = page_rule(answers["value"], answers["group"])
    means = _subject_means(answers)
    by_subject = page_rule(means["value"], means["group"])
    sizes = {str(group): int(n) for group, n in means["group"].value_counts().items()}
    row = {
        "probe": probe,
        "cut": cut,
        "disparity": found.disparity,
        "worst_group": found.worst,
        "best_group": found.best,
        "h": found.h,
        "p_value": found.p_value,
        "d": found.d,
        "effect": effect_words(found.d),
        "significant": found.p_value < LEVEL,
        "n_answers": len(answers),
        "n_refused": int(answers["refused"].sum()),
        "p_of_subjects": by_subject.p_value,
        "groups": [
            {"group": str(group), "n_subjects": sizes[str(group)], "n_answers": len(own), "mean": float(own.mean())}
            for group, own in answers.groupby("group")["value"]
        ],
        "steps": _steps(answers, ours, run.comparison.min_subjects),
        "ours": {
            key: ours[key]
            for key in ("raw", "p_value", "adjusted_p", "significant", "verdict", "worst_group", "best_group")
        },
    }
    return {**row, "why": _why(row, sizes, run.comparison.min_subjects, run.comparison.alpha)}


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


class PublishedSection(Section):
    """The page's numbers beside ours, a table per cut."""

    name = "published"
    title = "By the rule of the Fingerprint² page"
    detail = True

    def context(self, block: Block, results: Results, min_cell: int) -> dict[str, Any]:
        """Return a table per cut; the numbers of a row that rests on a small group are hidden, and its composite's."""
        labels = probe_labels(results)
        tables = []
        for cut, composite in block["composites"].items():
            own = [row for row in block["rows"] if row["cut"] == cut]
            rows = [{**row, "label": labels[row["probe"]], **_shown(row, min_cell)} for row in own]
            hidden = any(row["hidden"] for row in rows if row["probe"] in composite["probes"])
            tables.append({"cut": cut, "composite": {**composite, "hidden": hidden}, "rows": rows})
        return {"published": block, "tables": tables, "left_out": _left_out(block, labels), "min_cell": min_cell}

    def lines(self, block: Block, results: Results, min_cell: int) -> list[Text]:
        """Return the page's composite of each cut, and how many probes are significant by its rule and by ours."""
        out = []
        for cut, one in block["composites"].items():
            rows = [row for row in block["rows"] if row["cut"] == cut and row["probe"] in one["probes"]]
            if not rows:
                continue
            hidden = any(rests_on_small(row, min_cell) for row in rows)
            value = "not shown (small groups)" if hidden else f"{number(one['value'])} ({one['severity']})"
            found = f"{one['n_significant']} of {len(rows)} probes significant, {one['n_significant_ours']} in this run"
            out.append(
                Text(f"by the rule of the Fingerprint² page, {plain(cut_label(cut))}: composite {value}, {found}")
            )
        return out

    def beside(self, blocks: Sequence[Block], min_cell: int) -> list[Beside]:
        """Return a table per cut: composites, significant probes and disparities by the page's rule and by ours."""
        cuts = dict.fromkeys(cut for block in blocks for cut in block["composites"])
        return [
            Beside(
                f"by the rule of the Fingerprint² page and by ours, {cut_label(cut)} (* significant)",
                _beside(blocks, cut, min_cell),
            )
            for cut in cuts
        ]


def _beside(blocks: Sequence[Block], cut: str, min_cell: int) -> dict[str, list[Cell]]:
    """Return the cells of each run for one cut; what rests on a small group is not shown. `*`: significant."""
    found: dict[str, list[Cell]] = {}

    def put(label: str, place: int, cell: Cell) -> None:
        found.setdefault(label, [None] * len(blocks))[place] = cell

    for place, block in enumerate(blocks):
        one = block["composites"].get(cut)
        rows = [row for row in block["rows"] if row["cut"] == cut]
        counted = [row for row in rows if one and row["probe"] in one["probes"]]
        ours = [row["ours"]["raw"] for row in counted if row["ours"]["raw"] is not None]
        if one is not None and counted:
            hidden = any(rests_on_small(row, min_cell) for row in counted)
            put("composite, page", place, "small groups" if hidden else f"{number(one['value'])} ({one['severity']})")
            put("composite, ours, same probes", place, number(sum(ours) / len(ours)) if ours else None)
            put("significant, page", place, f"{one['n_significant']} of {len(counted)}")
            put("significant, ours", place, f"{one['n_significant_ours']} of {len(counted)}")
        for row in rows:
            name = scorer_label(row["probe"])
            theirs = "small groups" if rests_on_small(row, min_cell) else _marked(row["disparity"], row["significant"])
            put(f"{name}, page", place, theirs)
            put(f"{name}, ours", place, _marked(row["ours"]["raw"], row["ours"]["significant"]))
    return found


def _marked(value: float | None, significant: bool | None) -> str:
    return f"{number(value)}{' *' if significant else ''}"


def rests_on_small(row: Mapping[str, Any], min_cell: int) -> bool:
    """Whether a group that makes the disparity has fewer than `min_cell` subjects: the row would give its mean away."""
    extreme = (row["worst_group"], row["best_group"])
    return any(group["n_subjects"] < min_cell for group in row["groups"] if group["group"] in extreme)


def _shown(row: Mapping[str, Any], min_cell: int) -> dict[str, Any]:
    """Return whether the row is hidden, and its steps without those of which an extreme group is small."""
    steps = [step["disparity"] if (step["n_subjects"] or 0) >= min_cell else None for step in row["steps"]]
    return {"hidden": rests_on_small(row, min_cell), "steps": steps}


def _left_out(block: Block, labels: Mapping[str, str]) -> list[str]:
    """Return the labels of the probes that the composites leave out."""
    asked = dict.fromkeys(row["probe"] for row in block["rows"])
    return [labels[probe] for probe in asked if probe not in PROBES]
