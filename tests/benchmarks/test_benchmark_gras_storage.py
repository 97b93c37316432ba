"""The benchmark of a GRAS run's disk and memory, at small sizes: bytes an answer are those of the paper's size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from bench import REPOSITORY

from benchmarks.gras_storage import ANSWERS, DISK_LIMIT, MEMORY_LIMIT, limits

WORDS = ["analysis.min_subjects=2", "probe.options.permutations=20", "probe.options.bootstrap=20", "report=none"]
BOTH = f"""
import json
from benchmarks.gras_storage import measure
for images, traits in ((100, 20), (200, 100)):
    print(json.dumps(measure(images, traits, {WORDS})))
"""


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    """10,000 and then 100,000 answers, in a process whose memory nothing else has swollen."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", BOTH], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_every_answer_is_asked_once_and_found_again(measured: list[dict[str, Any]]) -> None:
    assert [(found["images"], found["questions"], found["answers"]) for found in measured] == [
        (100, 100, 10_000), (200, 500, 100_000),
    ]  # fmt: skip
    for found in measured:
        assert (found["first_cached"], found["again_cached"]) == (0, found["answers"])
        assert found["disk_bytes"] == found["store_bytes"] + found["shard_bytes"]
        assert found["within_limits"]


def test_an_answer_takes_26_bytes_of_the_store_and_24_of_the_shards(measured: list[dict[str, Any]]) -> None:
    """28 bytes of numbers before compression; a store without answers has 41 kB of pages, and arrays fill whole ones.

    Only the larger run has arrays of the paper's size; 100 questions need 2.7 kB of a page of 4.
    """
    small, large = measured
    assert large["store_bytes"] < 26 * large["answers"] + 100_000
    assert large["shard_bytes"] < 24 * large["answers"] + 20_000
    assert small["store_bytes"] < 41 * small["answers"] + 140_000
    assert small["shard_bytes"] < 24 * small["answers"] + 20_000


def test_memory_grows_by_numbers_and_not_by_objects(measured: list[dict[str, Any]]) -> None:
    """Seven float32, kept a few times over, and read again by the check; an object for each would be 1,000 and more."""
    small, large = measured
    grown = 1e6 * (large["peak_rss_mb"] - small["peak_rss_mb"])
    assert grown < 800 * (large["answers"] - small["answers"])


def test_the_limits_shrink_with_the_size() -> None:
    assert limits(ANSWERS) == pytest.approx((DISK_LIMIT, MEMORY_LIMIT))
    disk, memory = limits(ANSWERS // 100)
    assert disk < DISK_LIMIT / 50
    assert memory < MEMORY_LIMIT / 3
