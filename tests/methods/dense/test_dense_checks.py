"""The check of a run with dense answers: a sound run passes, and damage to shards and store is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from bench import Bench, fp2

from fp2.runs.checks import check_run
from fp2.store.rows import ResponseStore

DENSE = ("probe=gras", "probe.traits={kind: 2.6, cruel: -2.9}", "scorer=none", "probe.options.permutations=99")


def failed(bench: Bench, folder: Path) -> dict[str, str]:
    """Return what fails, by check."""
    findings = check_run(folder, bench.config(*DENSE))
    return {finding.check: "; ".join(finding.failures) for finding in findings if finding.failures}


def test_a_sound_run_passes_and_damage_is_found(bench: Bench) -> None:
    folder = bench.run(*DENSE).folder
    findings = check_run(folder, bench.config(*DENSE))
    assert [(finding.failures, finding.notes) for finding in findings] == [((), ())] * 6
    assert fp2("check", str(folder), *bench.paths) == 0
    shard = folder / "responses" / "part-00000.parquet"
    frame = pd.read_parquet(shard)
    frame.loc[5, "p_yes"] = np.float32(0.125)
    frame.to_parquet(shard)
    failures = failed(bench, folder)
    assert failures.keys() == {"passport", "store"}
    assert "1 of 720 answers in the shards are not those of the store" in failures["store"]
    with ResponseStore(bench.store) as store:
        store.connection.execute("DELETE FROM blocks WHERE context IN (SELECT context FROM blocks LIMIT 2)")
    assert "the store lacks 20 of 720 answers" in failed(bench, folder)["store"]
