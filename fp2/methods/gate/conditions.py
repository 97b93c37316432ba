"""Conditions that a run has to meet, for continuous integration, and reports on them as JUnit XML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from fp2.extension import Finding, Section, cut_label, findings_of, number, plain


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
    outcomes: list[Check] = []
    if not limits.allow_partial:
        answers = results["answers"]
        message = f"{answers['answered']:,} of {answers['planned']:,} answers"
        outcomes.append(Check("complete", "the run is complete", "all answers", bool(results["complete"]), message))
    if not limits.allow_biased:
        checks = [
            Check(one.kind, one.condition, one.name, not one.differs, one.message, tested=one.differs is not None)
            for one in findings
        ]
        outcomes += _required(checks, "verdict", "groups are compared by a test", "differences between groups")
    if (largest := limits.max_disparity) is not None:
        outcomes += _required(
            _disparities(findings, largest), "disparity", LARGEST, "disparities of the primary scorer"
        )
    if (min_subjects := limits.min_subjects) is not None:
        outcomes += _required(_sizes(results, min_subjects), "subjects", SMALLEST, "numbers of subjects by group")
    if (gap := limits.max_refusal_gap) is not None:
        outcomes += _required(_refusals(results, gap), "refusals", REFUSALS, "refusal rates of two groups")
    return [*outcomes, *_untested(outcomes, limits.allow_untested)]


def _untested(checks: Sequence[Check], allowed: int) -> Iterator[Check]:
    """Yield one condition on those that could not be tested; nothing where all could."""
    names = list(dict.fromkeys(item.name for item in checks if not item.tested))
    n = sum(not item.tested for item in checks)
    if n:
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        message = f"{n} of {len(checks)} conditions could not be tested, --allow-untested is {allowed}: {listed}"
        yield Check("untested", "conditions could be tested", "the run", n <= allowed, message)


def _required(checks: Iterable[Check], kind: str, condition: str, noun: str) -> list[Check]:
    """Return the checks, and one that is not met if none of them could be made."""
    kept_checks = list(checks)
    if not any(item.tested for item in kept_checks):
        reason = "none could be tested" if kept_checks else "the run has none"
        kept_checks.append(Check(kind, condition, "the run", False, f"{noun}: {reason}"))
    return kept_checks


def _disparities(findings: Iterable[Finding], limit: float) -> Iterator[Check]:
    """Yield one condition per disparity: the upper end of its interval, or without one itself, is at most the limit."""
    for finding in findings:
        if finding.size is None:
            continue
        row = finding.row or {}
        low, high, detectable = row.get("ci_low"), row.get("ci_high"), row.get("mde80")
        interval = "without an interval" if high is None else f"interval {number(low)} to {number(high)}"
        message = f"disparity {number(finding.size)}, {interval}; below {limit:g} is required"
        if detectable is not None and detectable > limit:
            message += f", and only a difference of {number(detectable)} would have been found with 80 % power"
        passed = (finding.size if high is None else high) < limit
        yield Check("disparity", LARGEST, finding.name, passed, message, tested=row.get("status", "ok") == "ok")


def _sizes(results: Mapping[str, Any], minimum: int) -> Iterator[Check]:
    for cut, groups in results["dataset"]["groups"].items():
        for group, size in groups.items():
            n, name = size["n_subjects"], f"{plain(group)} ({cut_label(cut)})"
            yield Check("subjects", SMALLEST, name, n >= minimum, f"{n} subjects, at least {minimum} are required")


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
    tested = [item for item in checks if item.tested]
    passed, untested = sum(item.passed for item in tested), len(checks) - len(tested)
    if untested:
        n_failed = len(tested) - passed
        return f"of {len(checks)} conditions, {passed} are met, {n_failed} are not and {untested} could not be tested"
    return f"{passed} of {len(tested)} conditions are met"


def to_junit(checks: Sequence[Check], name: str) -> str:
    """Return the checks as JUnit XML: a test case each, failed if a condition is not met, skipped if not tested."""
    failures, skipped = sum(item.failed for item in checks), sum(not item.tested for item in checks)
    suite = ElementTree.Element(
        "testsuite", name=name, tests=str(len(checks)), failures=str(failures), errors="0", skipped=str(skipped)
    )
    for item in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=f"fp2.{item.kind}", name=item.name)
        if item.failed:
            ElementTree.SubElement(case, "failure", message=item.message).text = item.message
        elif not item.tested:
            ElementTree.SubElement(case, "skipped", message=item.message)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def to_markdown(checks: Sequence[Check], name: str) -> str:
    """Return a summary in Markdown: the conditions that are not met, and how many there are."""
    from fp2.extension import escape_markdown

    failed = [item for item in checks if item.failed]
    rows = [f"## {escape_markdown(name)}: {'failed' if failed else 'passed'}", "", f"{summary(checks)}."]
    if failed:
        rows += ["", "| condition | on | found |", "|---|---|---|"]
        cells = ((escape_markdown(cell) for cell in (item.condition, item.name, item.message)) for item in failed)
        rows += [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join(rows) + "\n"
