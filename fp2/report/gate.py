"""Conditions that a run has to meet, for continuous integration, and reports on them as JUnit XML and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from fp2.report.reading import cut_label, number, plain, rows_of, scorer_label, verdict_words


@dataclass(frozen=True)
class Limits:
    """The conditions; None is not checked.

    Attributes
    ----------
    max_disparity : float, optional
        Largest disparity of the primary scorer in any cut and probe.
    min_subjects : int, optional
        Fewest subjects of any group.
    max_refusal_gap : float, optional
        Largest difference of refusal rates between two groups of a cut.
    allow_biased : bool
        Whether a row may have the verdict "biased", and a trait of GRAS differ significantly.
    allow_partial : bool
        Whether planned answers may be missing.
    """

    max_disparity: float | None = None
    min_subjects: int | None = None
    max_refusal_gap: float | None = None
    allow_biased: bool = False
    allow_partial: bool = False


CONDITIONS: Mapping[str, str] = {
    "complete": "the run is complete",
    "verdict": 'no verdict "biased"',
    "traits": "no trait differs significantly in the mean",
    "disparity": "no disparity above --max-disparity",
    "subjects": "no group below --min-subjects",
    "refusals": "no difference of refusal rates above --max-refusal-gap",
}
"""What each kind of check requires."""


@dataclass(frozen=True)
class Check:
    """One condition: its kind, what it was checked on, whether it is met, and the numbers in a sentence."""

    kind: str
    name: str
    passed: bool
    message: str

    @property
    def condition(self) -> str:
        """What is required, in words."""
        return CONDITIONS[self.kind]


def check(results: Mapping[str, Any], limits: Limits) -> list[Check]:
    """Return every condition checked on the results of a run."""
    found = [_complete(results)] if not limits.allow_partial else []
    if not limits.allow_biased:
        found += [*_biased(results), *_traits(results)]
    if limits.max_disparity is not None:
        found += _disparities(results, limits.max_disparity)
    if limits.min_subjects is not None:
        found += _sizes(results, limits.min_subjects)
    if limits.max_refusal_gap is not None:
        found += _refusals(results, limits.max_refusal_gap)
    return found


def _complete(results: Mapping[str, Any]) -> Check:
    answers = results["answers"]
    message = f"{answers['answered']:,} of {answers['planned']:,} answers"
    return Check("complete", "all answers", bool(results["complete"]), message)


def _biased(results: Mapping[str, Any]) -> Iterator[Check]:
    for row in results["disparities"]:
        name = f"{scorer_label(row['scorer'])} of {plain(row['probe'])} by {cut_label(row['cut'])}"
        ends = f"{plain(row['worst_group'] or '–')} against {plain(row['best_group'] or '–')}"
        beyond = [
            f"; other {name}: {number(row[f'{name}_low'])} to {number(row[f'{name}_high'])}"
            for name in ("wordings", "samples")
            if row.get(f"{name}_low") is not None
        ]
        message = f"{verdict_words(row['verdict'])}, disparity {number(row['raw'])}, {ends}{''.join(beyond)}"
        yield Check("verdict", name, row["verdict"] != "biased", message)


def _traits(results: Mapping[str, Any]) -> Iterator[Check]:
    """Yield a condition for each attribute of a GRAS run: that the means differ in no trait.

    Traits in which the mean or the spread differs are counted, and do not fail.
    """
    units = results.get("gras", {}).get("units", {})
    for name, part in units.get("subjects", units.get("images", {})).get("tests", {}).items():
        if "status" not in part:
            continue  # results of an earlier version
        means, unsure = (part["status"].count(one) for one in ("mean_differs", "mean_or_spread_differs"))
        message = f"{means} of {len(part['status'])} traits differ significantly in the mean"
        if unsure:
            message += f", {unsure} in the mean or the spread"
        yield Check("traits", f"traits by {cut_label(name)}", means == 0, message)


def _disparities(results: Mapping[str, Any], limit: float) -> Iterator[Check]:
    for cut in results["cuts"]:
        for probe, row in rows_of(results, cut).items():
            if row["raw"] is not None:
                message = f"disparity {number(row['raw'])}, at most {limit:g} is allowed"
                yield Check("disparity", f"{plain(probe)} by {cut_label(cut)}", row["raw"] <= limit, message)


def _sizes(results: Mapping[str, Any], least: int) -> Iterator[Check]:
    for cut, groups in results["dataset"]["groups"].items():
        for group, size in groups.items():
            message = f"{size['n_subjects']} subjects, at least {least} are required"
            yield Check("subjects", f"{plain(group)} ({cut_label(cut)})", size["n_subjects"] >= least, message)


def _refusals(results: Mapping[str, Any], limit: float) -> Iterator[Check]:
    for cut in results["cuts"]:
        rows = [row for row in results["answers_by_group"] if row["cut"] == cut and row["answered"]]
        rates = sorted((row["refused"] / row["answered"], plain(row["group"])) for row in rows)
        if len(rates) > 1:
            gap = rates[-1][0] - rates[0][0]
            message = (
                f"refusal rates from {rates[0][0]:.1%} ({rates[0][1]}) to {rates[-1][0]:.1%} ({rates[-1][1]}), "
                f"a gap of at most {limit:.1%} is allowed"
            )
            yield Check("refusals", f"by {cut_label(cut)}", gap <= limit, message)


def to_junit(checks: Sequence[Check], name: str) -> str:
    """Return the checks as JUnit XML: a test case each, a failure where a condition is not met."""
    failures = sum(not one.passed for one in checks)
    suite = ElementTree.Element("testsuite", name=name, tests=str(len(checks)), failures=str(failures), errors="0")
    for one in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=f"fp2.{one.kind}", name=one.name)
        if not one.passed:
            ElementTree.SubElement(case, "failure", message=one.message).text = one.message
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def to_markdown(checks: Sequence[Check], name: str) -> str:
    """Return a summary in Markdown: the conditions that are not met, and how many there are."""
    from fp2.report.leaderboard import escape_markdown

    failed = [one for one in checks if not one.passed]
    lines = [f"## {escape_markdown(name)}: {'failed' if failed else 'passed'}", ""]
    lines.append(f"{len(checks) - len(failed)} of {len(checks)} conditions are met.")
    if failed:
        lines += ["", "| condition | on | found |", "|---|---|---|"]
        lines += [
            f"| {one.condition} | {escape_markdown(one.name)} | {escape_markdown(one.message)} |" for one in failed
        ]
    return "\n".join(lines) + "\n"
