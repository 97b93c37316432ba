"""A report at the scale of the Fingerprint² page is below 5 MB."""

from __future__ import annotations

from typing import Any

from report.test_page_size import MOST_BYTES, TEXT, runs  # noqa: F401

from fp2.methods.several_runs.sweep import SweepRun, sweep_results
from fp2.methods.several_runs.sweep_page import render_sweep
from fp2.report.samples import _MOST_CELLS


def test_a_report_of_five_runs(runs: list[dict[str, Any]]) -> None:  # noqa: F811
    block = sweep_results([SweepRun(run, None, "made up") for run in runs], [], 10)
    answers = [{"text": TEXT, "refused": False, "value": -0.1234}] * 5
    row = {"question": "q", "answers": answers, "groups": dict.fromkeys(runs[0]["cuts"], "Europe")}
    rows = [{"probe": runs[0]["probes"][n % 6]["id"], **row} for n in range(_MOST_CELLS // 5)]
    page = render_sweep(block, {"runs": [0, 1, 2, 3, 4], "rows": rows})
    assert page.count('data-scorer="scorer_3"') >= 6
    assert len(page.encode()) < MOST_BYTES
