"""The benchmark of prefix sharing, tried out with tiny models: its arithmetic, its comparison and its verdicts."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from bench import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"


@pytest.fixture(scope="module")
def parts() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    import prefix_sharing

    yield prefix_sharing
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def result(parts: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("bench")
    bench = parts.Bench(
        folder, parts.draw_people(folder, 3), 1, sampled=4, tiny=True, timed=2, growing=4,
        questions=parts.yes_no_questions(4), probes=parts.probes(),
    )  # fmt: skip
    return parts.run(bench, ["qwen_like", "smolvlm_like"], None)


def test_ours_says_what_the_naive_loop_says(result: dict[str, Any]) -> None:
    assert result["identical_answers"]
    assert result["max_abs_dlogit"] < 1e-4
    for found in result["models"].values():
        assert found["sharing"] == "tree"
        assert min(found["p_yes"]["control_wrong_picture"], found["p_yes"]["control_rolled_prompts"]) > 1e-3


def test_arithmetic_is_what_torch_counts(result: dict[str, Any]) -> None:
    for found in result["models"].values():
        assert found["flops_formula_over_counted"] == pytest.approx(1.0, rel=1e-6)
        assert 1 < found["generate_flop_limit"] < 6
        assert 1 < found["flop_limit_of_naive_with_last_logits_only"] < found["flop_limit"] < 20


def test_every_number_is_named(result: dict[str, Any]) -> None:
    for name in ("p_yes_qwen_like", "p_yes_smolvlm_like", "generate_six_probes"):
        share = result[f"{name}_share_of_limit"]
        assert share == pytest.approx(result[name] / result[f"{name}_flop_limit"])
    others = result["models"]["qwen_like"]["others"]
    assert others["decision_pipeline"]["seconds_per_image"] > 0
    assert "glance" in others["glance_vlm"]["not_measured"]


def test_verdict(parts: Any, result: dict[str, Any]) -> None:
    good = {**result, "void": False, **{name: 1000.0 for name in parts.TARGETS}}
    assert parts.failures(good) == []
    for wrong, word in (
        ({"void": True, "calibration_spread": 0.5}, "void"),
        ({"p_yes_qwen_like": 29.9}, "less than 30"),
        ({"max_abs_dlogit": 2e-4}, "differ"),
        ({"identical_answers": False}, "differ"),
    ):
        (said,) = parts.failures({**good, **wrong})
        assert word in said


def test_tree_and_pairs_by_hand(parts: Any) -> None:
    text = parts.flops.TextFlops(per_token=100.0, per_pair=1.0, per_output=10.0)
    costs = parts.flops.score_costs(text, 1000.0, [(1, 2, 3, 4), (1, 2, 3, 5, 6), (1, 2, 7)])
    # naive: whole prompts of 4, 5 and 3 tokens; shared: 2 in common, then 3, 4, 5, 6 and 7 with 3, 4, 4, 5, 3 keys
    assert costs.naive == 3 * 1000 + 12 * (100 + 10) + 16 + 25 + 9
    assert costs.shared == 1000 + 2 * 100 + 4 + 5 * 100 + 19 + 3 * 10
