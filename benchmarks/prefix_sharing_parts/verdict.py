"""Whether a result is sound and meets its targets."""

from __future__ import annotations

from typing import Any

TARGETS = {"p_yes_qwen_like": 30.0, "p_yes_smolvlm_like": 100.0, "generate_six_probes": 3.0}
TOLERANCE = 1e-4


def failures(result: dict[str, Any]) -> list[str]:
    """Return what is wrong with a result, in words; nothing if it is sound and meets every target."""
    wrong = []
    if result["void"]:
        wrong.append(f"void: a matrix product took up to {result['calibration_spread']:.0%} longer than at best")
    if not result["identical_answers"] or result["max_abs_dlogit"] > TOLERANCE:
        wrong.append(f"answers differ: up to {result['max_abs_dlogit']:.2g} in the logits")
    for name, found in result["models"].items():
        heard = min(found["p_yes"]["control_wrong_picture"], found["p_yes"]["control_rolled_prompts"])
        if heard < 10 * TOLERANCE:
            wrong.append(f"{name}: a wrong picture or prompt changes the logits by {heard:.2g} only: no proof")
    wrong += [
        f"{name} is {result[name]:.1f}, less than {target:g}"
        for name, target in result["targets"].items()
        if result[name] < target
    ]
    return wrong


def rounded(value: Any) -> Any:
    """Return `value` with every number rounded to four significant digits."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
