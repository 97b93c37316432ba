"""The benchmark of a GRAS run's disk and memory works, at a size whose numbers mean nothing but their proportion."""

from __future__ import annotations

import json

import pytest

from benchmarks.gras_storage import main


def test_a_small_run_is_measured_and_small(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("analysis.min_subjects=2", "probe.options.permutations=20", "probe.options.bootstrap=20", "report=none")
    assert main(["--images", "100", "--traits", "20", *words]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["images"], found["questions"], found["answers"]) == (100, 100, 10_000)
    assert (found["first_cached"], found["again_cached"]) == (0, 10_000)
    assert found["disk_bytes"] == found["store_bytes"] + found["shard_bytes"]
    assert found["shard_bytes"] < 30 * 10_000  # 28 bytes of numbers an answer, before compression
    assert found["store_bytes"] < 60 * 10_000  # with the pages that an almost empty store has anyway
