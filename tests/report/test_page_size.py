"""Pages at the scale of the Fingerprint² page are below 5 MB: 3,000 images, six cuts, ten scorers."""

from __future__ import annotations

from typing import Any

import pytest
from report.conftest import make_results

from fp2.report.dashboard import render_dashboard
from fp2.report.leaderboard import summarise
from fp2.report.reading import MOST_CHARACTERS
from fp2.report.samples import _MANY

MOST_BYTES = 5e6
TEXT = "w" * MOST_CHARACTERS
N_SUBJECTS, N_IMAGES = 1000, 3000


def at_scale(name: str, seed: int) -> dict[str, Any]:
    """Made-up results with six cuts and ten scorers, in which every row has a value."""
    results = make_results(name, seed, 1.0)
    rows, scorers = results["disparities"], results["scorers"]
    for new, old in (("first_region", "region"), ("pronoun_x_age", "age")):
        rows += [{**row, "cut": new} for row in rows if row["cut"] == old]
        results["cuts"].append(new)
        results["composites"][new] = dict(results["composites"][old])
        results["dataset"]["groups"][new] = results["dataset"]["groups"][old]
        results["answers_by_group"] += [{**one, "cut": new} for one in results["answers_by_group"] if one["cut"] == old]
    for place in range(10 - len(scorers)):
        rows += [{**row, "scorer": f"scorer_{place}"} for row in rows if row["scorer"] == "valence"]
        scorers.append({**scorers[0], "name": f"scorer_{place}"})
    return results | {"n_subjects": N_SUBJECTS, "n_images": N_IMAGES}


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    return [at_scale(f"model_{seed}", seed) for seed in range(5)]


def test_a_dashboard(runs: list[dict[str, Any]]) -> None:
    results = runs[0]
    groups = dict.fromkeys(results["cuts"], "Latin America and the Caribbean")
    probes = [probe["id"] for probe in results["probes"]]
    sample = [
        {"probe": probe, "question": "q", "text": TEXT, "refused": False, "value": -0.1234, "groups": groups}
        for probe in probes
        for _ in range(_MANY)
    ]
    frequent = [{"probe": probe, "text": f"{n}{TEXT}", "count": 9} for probe in probes for n in range(9)]
    page = render_dashboard(results, frequent, [row for run in runs for row in summarise(run)], sample=sample)
    assert page.count("<table") >= 2 * 6 * 10
    assert len(page.encode()) < MOST_BYTES / 2  # the blocks of a run's supplements are not in these results
