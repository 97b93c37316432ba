"""`fp2 gate`: exit status, reports, and what it checks of every protocol."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench import Bench, fp2, load_config, results_of
from commands.test_runs import RELEASED, printed

from fp2.runs.logged import load_run_sections


def test_a_sweep_whose_only_run_did_not_finish_fails_the_gate(
    bench: Bench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "sweep" / "0").mkdir(parents=True)
    found = json.loads(printed(capsys, "gate", str(tmp_path / "sweep"), "--json", *bench.paths, status=1))
    assert not found["passed"]
    assert [check["kind"] for check in found["checks"]] == ["finished"]


def test_the_gate_has_an_exit_status_and_writes_reports(
    runs: tuple[Bench, Any, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bench, strong, plain = runs
    assert "conditions are met" in printed(capsys, "gate", plain.run_id, "--min-subjects", "18", *bench.paths)
    junit, markdown = tmp_path / "new" / "gate.xml", tmp_path / "gate.md"
    reports = ("--junit", str(junit), "--markdown", str(markdown))
    out = printed(capsys, "gate", strong.run_id, *reports, *bench.paths, status=1)
    assert 'not met: no verdict "biased"\n  valence of trust by gender: biased, disparity' in out
    suite = ElementTree.parse(junit).getroot()
    failures = suite.findall("testcase/failure")
    assert suite.get("failures") == str(len(failures)) == "1"
    assert len(suite.findall("testcase")) == int(suite.get("tests") or 0) == 7
    assert '| no verdict "biased" | valence of trust by gender |' in markdown.read_text(encoding="utf-8")
    for limit, kind in (("--max-disparity=0.001", "disparity"), ("--min-subjects=19", "subjects")):
        words = ("gate", strong.run_id, "--allow-biased", limit, "--json", *bench.paths)
        found = json.loads(printed(capsys, *words, status=1))
        assert not found["passed"]
        assert {check["kind"] for check in found["checks"] if not check["passed"]} == {kind}
    refusals = ("gate", strong.run_id, "--allow-biased", "--max-refusal-gap", "0.5", *bench.paths)
    assert "7 conditions" not in printed(capsys, *refusals)


def verdicts(rows: list[dict[str, Any]]) -> tuple[int, int]:
    """How many rows are biased, and how many were tested."""
    return sum(row["verdict"] == "biased" for row in rows), sum(row["status"] == "ok" for row in rows)


@pytest.mark.parametrize("name", ["twins", "fhibe_clip", "fhibe_scores", "default"])
def test_the_gate_checks_every_row_of_the_protocols_family(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    results = results_of(RELEASED / name)
    rows = {
        "twins": lambda: results["matched"]["rows"],
        "fhibe_clip": lambda: results["fhibe_clip"]["disparities"],
        "fhibe_scores": lambda: [
            row["ours"] for one in results["fhibe_scores"]["outcomes"] for row in one["benchmark"]["rows"]
        ],
        "default": lambda: results["disparities"],
    }[name]()
    biased, tested = verdicts(rows)
    untested = len(rows) - tested
    found = json.loads(printed(capsys, "gate", str(RELEASED / name), "--json", status=int(biased + untested > 0)))
    assert [check["passed"] for check in found["checks"] if check["kind"] == "untested"] == [False] * (untested > 0)
    checks = [check for check in found["checks"] if check["kind"] == "verdict"]
    assert len(checks) == len(rows)
    assert sum(not check["passed"] for check in checks) == biased
    assert sum(check["tested"] for check in checks) == tested > 0
    assert len({check["name"] for check in checks}) == len(checks)
    sized = [row for row in rows if row.get("scorer", "valence") == "valence" and row["status"] == "ok"]
    largest = max(row["raw"] if row.get("ci_high") is None else row["ci_high"] for row in sized)
    words = ("gate", str(RELEASED / name), "--allow-biased", "--allow-untested", str(untested), "--max-disparity")
    printed(capsys, *words, str(largest + 0.001), status=0)
    printed(capsys, *words, str(largest), status=1)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("diversity", (), "differences between groups: the run has none"),
        ("gras", (), "differences between groups: none could be tested"),  # 0.3.0 corrected no test over traits
        ("gras", ("--allow-biased", "--max-disparity=1"), "disparities of the primary scorer: the run has none"),
        ("diversity", ("--allow-biased", "--max-refusal-gap=1"), "refusal rates of two groups: the run has none"),
    ],
)
def test_a_condition_that_nothing_was_checked_for_is_not_met(
    name: str, options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in printed(capsys, "gate", str(RELEASED / name), *options, status=1)
    assert "1 of 1 conditions" in printed(capsys, "gate", str(RELEASED / name), "--allow-biased")


def test_a_disparity_passes_only_if_its_whole_interval_lies_below_the_limit() -> None:
    from fp2.methods.gate.conditions import LARGEST, Limits, check

    results = results_of(RELEASED / "default")
    row = next(row for row in results["disparities"] if row["scorer"] == "valence" and row["status"] == "ok")
    row.update(raw=0.1, ci_low=0.05, ci_high=0.3, mde80=0.25)
    one = {**results, "disparities": [row]}
    sections = load_run_sections(RELEASED / "default", load_config([]), results["run_id"])

    def checked(limit: float) -> Any:
        return next(check for check in check(one, Limits(limit), sections) if check.condition == LARGEST)

    assert not checked(0.2).passed
    assert "only a difference of 0.250 would have been found" in checked(0.2).message
    assert not checked(0.3).passed
    assert checked(0.31).passed
    assert "would have been found" not in checked(0.31).message


def test_a_run_whose_protocol_is_not_installed_is_not_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RELEASED / "twins", folder)
    config = (folder / "config.yaml").read_text(encoding="utf-8")
    assert "  protocol: fingerprint" in config
    (folder / "config.yaml").write_text(config.replace("  protocol: fingerprint", "  protocol: absent_one"))
    assert fp2("gate", str(folder)) == 2
    assert "absent_one" in capsys.readouterr().err


def test_a_partial_run_does_not_pass(runs: tuple[Bench, Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    from fp2.methods.gate.conditions import Limits, check

    results = {**results_of(runs[2].folder), "complete": False}
    assert [one.kind for one in check(results, Limits()) if not one.passed] == ["complete"]
    assert all(one.passed for one in check(results, Limits(allow_partial=True)))


def test_markdown_and_xml_are_escaped() -> None:
    from fp2.methods.gate.conditions import Check, to_junit, to_markdown

    bad = [Check("verdict", "none", "a|b <script>", False, "x & y")]
    assert "<script>" not in to_markdown(bad, "run")
    assert ElementTree.fromstring(to_junit(bad, "run")).find("testcase") is not None
