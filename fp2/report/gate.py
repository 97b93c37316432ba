"""Conditions that a run has to meet, for continuous integration, and reports on them as JUnit XML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from fp2.report.reading import cut_label, number, plain
from fp2.report.section import Section, findings_of
from fp2.report.values import Finding


@dataclass(frozen=True)
class Limits:
    """The conditions; None is not checked.

    Attributes
    ----------
    max_disparity : float, optional
        What the intervals of the primary scorer's disparities (`Finding.size`) have to lie below.
    min_subjects : int, optional
        Fewest subjects of any group.
    max_refusal_gap : float, optional
        Largest difference of refusal rates between two groups of a cut.
    allow_biased : bool
        Whether groups may differ (`Finding.differs`).
    allow_partial : bool
        Whether planned answers may be missing.
    allow_untested : int
        How many conditions at most may be left untested.
    """

    max_disparity: float | None = None
    min_subjects: int | None = None
    max_refusal_gap: float | None = None
    allow_biased: bool = False
    allow_partial: bool = False
    allow_untested: int = 0


LARGEST = "the interval of every disparity lies below --max-disparity"
SMALLEST = "no group below --min-subjects"
REFUSALS = "no difference of refusal rates above --max-refusal-gap"


@dataclass(frozen=True)
class Check:
    """One condition on one thing.

    Attributes
    ----------
    kind, condition : str
        The kind of condition, and what it requires.
    name : str
        What it was checked on.
    passed : bool
        Whether it is met.
    message : str
        The numbers in a sentence.
    tested : bool
        Whether it could be checked; untested ones are counted, and more than `Limits.allow_untested` fail the gate.
    """

    kind: str
    condition: str
    name: str
    passed: bool
    message: str
    tested: bool = True

    @property
    def failed(self) -> bool:
        """Whether the condition was checked and is not met."""
        return self.tested and not self.passed


def check(results: Mapping[str, Any], limits: Limits, sections: Sequence[Section] = ()) -> list[Check]:
    """Return every condition checked on the results of a run.

    Parameters
    ----------
    results : mapping
    limits : Limits
    sections : sequence of Section
        Those of the run's protocol, whose findings are checked; that of the disparities is added.

    Returns
    -------
    list of Check
        A condition that nothing in the results could be checked for is not met, and says so; the last one is that
        others could be checked.
    """
    findings = [finding for _, finding in findings_of(sections, results)]
    found = [_complete(results)] if not limits.allow_partial else []
    if not limits.allow_biased:
        checks = [
            Check(one.kind, one.condition, one.name, not one.differs, one.message, tested=one.differs is not None)
            for one in findings
        ]
        found += _required(checks, "verdict", "groups are compared by a test", "differences between groups")
    if (largest := limits.max_disparity) is not None:
        found += _required(_disparities(findings, largest), "disparity", LARGEST, "disparities of the primary scorer")
    if (least := limits.min_subjects) is not None:
        found += _required(_sizes(results, least), "subjects", SMALLEST, "numbers of subjects by group")
    if (gap := limits.max_refusal_gap) is not None:
        found += _required(_refusals(results, gap), "refusals", REFUSALS, "refusal rates of two groups")
    return [*found, *_untested(found, limits.allow_untested)]


def _untested(checks: Sequence[Check], allowed: int) -> Iterator[Check]:
    """Yield one condition on those that could not be tested; nothing where all could."""
    names = list(dict.fromkeys(one.name for one in checks if not one.tested))
    n = sum(not one.tested for one in checks)
    if n:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        message = f"{n} of {len(checks)} conditions could not be tested, --allow-untested is {allowed}: {shown}"
        yield Check("untested", "conditions could be tested", "the run", n <= allowed, message)


def _required(checks: Iterable[Check], kind: str, condition: str, what: str) -> list[Check]:
    """Return the checks, and one that is not met if none of them could be made."""
    found = list(checks)
    if not any(one.tested for one in found):
        reason = "none could be tested" if found else "the run has none"
        found.append(Check(kind, condition, "the run", False, f"{what}: {reason}"))
    return found


def _complete(results: Mapping[str, Any]) -> Check:
    answers = results["answers"]
    message = f"{answers['answered']:,} of {answers['planned']:,} answers"
    return Check("complete", "the run is complete", "all answers", bool(results["complete"]), message)


def _disparities(findings: Iterable[Finding], limit: float) -> Iterator[Check]:
    """Yield one condition per disparity: the upper end of its interval, or without one itself, is at most the limit."""
    for one in findings:
        if one.size is None:
            continue
        row = one.row or {}
        low, high, least = row.get("ci_low"), row.get("ci_high"), row.get("mde80")
        interval = "without an interval" if high is None else f"interval {number(low)} to {number(high)}"
        message = f"disparity {number(one.size)}, {interval}; below {limit:g} is required"
        if least is not None and least > limit:
            message += f", and only a difference of {number(least)} would have been found with 80 % power"
        passed = (one.size if high is None else high) < limit
        yield Check("disparity", LARGEST, one.name, passed, message, tested=row.get("status", "ok") == "ok")


def _sizes(results: Mapping[str, Any], least: int) -> Iterator[Check]:
    for cut, groups in results["dataset"]["groups"].items():
        for group, size in groups.items():
            n, name = size["n_subjects"], f"{plain(group)} ({cut_label(cut)})"
            yield Check("subjects", SMALLEST, name, n >= least, f"{n} subjects, at least {least} are required")


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
            yield Check("refusals", REFUSALS, f"by {cut_label(cut)}", gap <= limit, message)


def summary(checks: Sequence[Check]) -> str:
    """Return in words how many conditions are met, and how many could not be tested."""
    tested = [one for one in checks if one.tested]
    passed, untested = sum(one.passed for one in tested), len(checks) - len(tested)
    if untested:
        left = len(tested) - passed
        return f"of {len(checks)} conditions, {passed} are met, {left} are not and {untested} could not be tested"
    return f"{passed} of {len(tested)} conditions are met"


def to_junit(checks: Sequence[Check], name: str) -> str:
    """Return the checks as JUnit XML: a test case each, failed if a condition is not met, skipped if not tested."""
    failures, skipped = sum(one.failed for one in checks), sum(not one.tested for one in checks)
    suite = ElementTree.Element(
        "testsuite", name=name, tests=str(len(checks)), failures=str(failures), errors="0", skipped=str(skipped)
    )
    for one in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=f"fp2.{one.kind}", name=one.name)
        if one.failed:
            ElementTree.SubElement(case, "failure", message=one.message).text = one.message
        elif not one.tested:
            ElementTree.SubElement(case, "skipped", message=one.message)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def to_markdown(checks: Sequence[Check], name: str) -> str:
    """Return a summary in Markdown: the conditions that are not met, and how many there are."""
    from fp2.report.text import escape_markdown

    failed = [one for one in checks if one.failed]
    lines = [f"## {escape_markdown(name)}: {'failed' if failed else 'passed'}", "", f"{summary(checks)}."]
    if failed:
        lines += ["", "| condition | on | found |", "|---|---|---|"]
        cells = ((escape_markdown(cell) for cell in (one.condition, one.name, one.message)) for one in failed)
        lines += [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(lines) + "\n"
