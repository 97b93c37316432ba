"""The error rates of the page's rule, in small: near its level for independent answers, far above it in clusters."""

from __future__ import annotations

import pytest

from benchmarks import page_rule


def test_clusters_and_refusals_raise_the_error_rate(capsys: pytest.CaptureFixture[str]) -> None:
    independent, clustered, _, refused = page_rule.WORLDS
    rates = [page_rule.measure(world, 20, seed=1)[0] for world in (independent, clustered, refused)]
    assert rates[0] < 0.05
    assert rates[1] > 0.15
    assert rates[2] > 0.4
    page_rule.main(["--runs", "1"])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(page_rule.WORLDS)
