"""The benchmarks of speed, tried out at a size at which their numbers mean nothing: they run, and name every number."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import analysis_speed, harness_overhead
from fp2.compose import load_config
from fp2.scorers.registry import build_scorers


@pytest.mark.thorough
def test_the_analysis_of_a_run_is_timed_with_its_supplements() -> None:
    rng = np.random.default_rng(1)
    config = load_config(
        ["analysis.permutations=199", "analysis.bootstrap=20", "scorer=[valence,refusal]", "analysis.primary=valence"]
    )
    scorers = build_scorers(config.scorer)
    found = analysis_speed.analysis(rng, config, scorers, images=240)
    assert (found["images"], found["subjects"], found["disparity_rows"]) == (240, 40, 4 * 6 * 2)
    assert found["permutations"] == 199
    assert set(found["blocks"]) >= {"missing"}
    assert 0 < found["blocks_share"] < 1
    assert found["ratio_to_plain"] > 1
    scored = analysis_speed.scoring(rng, scorers, 72)
    assert (scored["answers_scored"], scored["scoring_seconds"] >= 0) == (72, True)


@pytest.mark.thorough
def test_the_harness_is_timed_beside_the_bare_loop(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.nn.Module, "__call__", torch.nn.Module.__call__)  # put back what it replaces
    harness_overhead.main(["--json", "--people", "3", "--rounds", "1"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["answers"] == 18
    assert 0 < found["model_seconds"] < found["harness_seconds"]
    assert 0 < found["outside_model"] < 1


@pytest.mark.thorough
def test_questions_about_two_images_are_timed_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from benchmarks import items

    (ratio, limit), (change, most) = items.sharing(tmp_path, tiny=True).values()
    assert ratio > 1
    assert limit > 1
    assert change < most
