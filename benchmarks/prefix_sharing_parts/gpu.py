"""The same questions with full-size architectures on a GPU: random weights, bfloat16.

Qwen2.5-VL-3B's shapes at 1,280 image tokens and SmolVLM2-2.2B's at 13 tiles. Ours only is timed on whole images; the
naive loop on a few questions. bfloat16 rounds differently in every batch shape, so the answers are compared loosely:
exactness is what the float32 run on a CPU proves. Both are compared with the naive loop in float32 too. Beside them:
the share of the device's peak, as a large bfloat16 product reaches it; flash attention, where `flash_attn` is
installed; and what `torch.compile` with CUDA graphs gains on the naive forward pass, and on ours (the language model
that prefix sharing calls for the tree of questions).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix
from fp2.tables import Answer, Question
from prefix_sharing_parts import checkpoints, flops
from prefix_sharing_parts.naive import Naive
from prefix_sharing_parts.ours import Ours, Reference, differences
from prefix_sharing_parts.questions import draw_people, probes, task, yes_no_questions

GRAS_PROMPTS, PAGE_RESPONSES = 2_505_000, 90_000
QWEN_PIXELS = (896, 1120)  # width, height: 32 x 40 = 1,280 image tokens
NEW_TOKENS = 64

FULL = {"qwen_2_5_vl_3b": checkpoints.QWEN_3B, "smolvlm2_2_2b": checkpoints.SMOLVLM_2B}
SMALL = {"qwen_2_5_vl_3b": checkpoints.TINY_QWEN, "smolvlm2_2_2b": replace(checkpoints.TINY_SMOLVLM, tiles=4)}


def measure_full_size(
    folder: Path, *, device: str = "cuda", tiny: bool = False, seed: int = 0, n_pictures: int = 4, n_naive: int = 8
) -> dict[str, Any]:
    """Return images and questions a second, and the hours of the two large studies, for both architectures.

    `tiny` takes tiny models of the same layout, to try the way out on a CPU.
    """
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(f"torch {torch.__version__} sees no GPU: run without --device cuda")
    started = time.perf_counter()
    asked, words = yes_no_questions(2 if tiny else 100), probes()
    pictures = draw_people(folder, n_pictures + 1, size=(112, 140) if tiny else QWEN_PIXELS)
    result: dict[str, Any] = {
        "benchmark": "prefix_sharing",
        "device": torch.cuda.get_device_name() if device == "cuda" else device,
        "dtype": "bfloat16",
        "peak_tflops": _peak(device, 256 if tiny else 8192) / 1e12,
        "models": {},
    }
    for name, size in (SMALL if tiny else FULL).items():
        built = checkpoints.save(folder / name, [q.text for q in (*asked, *words)], size, seed, device, "bfloat16")
        result["models"][name] = _measure(built, device, pictures, asked, words, n_naive)
        model = result["models"][name]
        model["share_of_peak"] = model["p_yes_tflops"] / result["peak_tflops"]
        for weights in built.glob("*.safetensors"):
            weights.unlink()  # several gigabytes, and the next model needs the room
    result["seconds"] = time.perf_counter() - started
    return result


def _measure(
    folder: Path, device: str, pictures: Sequence[Path], asked: Sequence[Question], words: Sequence[Question], n: int
) -> dict[str, Any]:
    import torch

    ours = Ours(folder, threads=4, device=device, dtype="bfloat16", max_new_tokens=NEW_TOKENS)
    warm, rest = pictures[-1], pictures[:-1]
    ours.answers(task(warm, [*asked, *words]))
    ours.seconds.clear()
    scored = ours.answers(*(task(path, asked) for path in rest))
    said = ours.answers(*(task(path, words) for path in rest))
    scoring, saying = ours.seconds
    compiled_ours = _compiled_tree(ours, device, rest, asked, scored, scoring)
    naive = Naive.load(folder, torch.bfloat16, device)
    reference, path = Reference(naive.processor.tokenizer), rest[0]
    naive.logits(path, asked[0].text)
    naive.seconds.clear()
    sample = asked[:: max(1, len(asked) // n)][:n]
    logits = [naive.logits(path, question.text) for question in sample]
    naive_seconds = statistics.mean(naive.seconds)
    compiled_naive = _compiled_ratio(naive, path, sample[0].text, device)
    logs = [reference.logs(one) for one in logits]
    exact = Naive.load(folder, torch.float32, device)
    exact_logs = [reference.logs(exact.logits(path, question.text)) for question in sample]
    del exact
    prompts, config = naive.prompt_ids(path, [q.text for q in asked]), naive.model.config
    costs = flops.score_costs(
        flops.TextFlops.of(config.text_config),
        flops.vision_flops(config, naive.inputs(path, asked[0].text)),
        prompts,
    )
    questions_a_second = len(scored) / scoring
    found = [scored[path.stem, q.question_id] for q in sample]
    return {
        "parameters": naive.model.num_parameters(),
        "image_tokens": sum(token == config.image_token_id for token in prompts[0]),
        "p_yes_images_per_second": len(rest) / scoring,
        "p_yes_questions_per_second": questions_a_second,
        "p_yes_ratio": naive_seconds * questions_a_second,
        "p_yes_flop_limit": costs.limit,
        "p_yes_tflops": costs.shared * len(rest) / scoring / 1e12,
        "p_yes_flash_ratio": _flash_ratio(folder, device, warm, rest, asked, scoring),
        **compiled_ours,
        "naive_compiled_ratio": compiled_naive,
        "hours_for_gras": GRAS_PROMPTS / questions_a_second / 3600,
        "answers_in_words_per_second": len(said) / saying,
        "tokens_per_answer": statistics.mean(answer.tokens for answer in said.values()),
        "hours_for_the_page": PAGE_RESPONSES / (len(said) / saying) / 3600,
        "max_abs_dlogit_bfloat16": differences(found, logs),
        "max_abs_dlogit_float32": differences(found, exact_logs),
        "max_abs_dlogit_naive_float32": max(abs(a[k] - b[k]) for a, b in zip(logs, exact_logs, strict=True) for k in a),
        "sharing": ours.engine.runtime()["sharing"],
        "sampled_questions": len(sample),
        "pictures": len(rest),
    }


def _peak(device: str, size: int, turns: int = 20) -> float:
    """Return the operations a second of a product of two bfloat16 matrices of this size."""
    import torch

    one, other = (torch.randn(size, size, dtype=torch.bfloat16, device=device) for _ in range(2))
    seconds = _seconds(lambda: one @ other, device, turns)
    return 2 * size**3 / seconds


def _seconds(call: Callable[[], Any], device: str, turns: int) -> float:
    """Return the mean time of a call, after three that are not timed."""
    import torch

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        call()
    wait()
    started = time.perf_counter()
    for _ in range(turns):
        call()
    wait()
    return (time.perf_counter() - started) / turns


def _compiled(model: Any, device: str) -> Any:
    """Return the compiled model: with CUDA graphs on a GPU, traced only on a CPU."""
    import torch

    torch._dynamo.reset()  # past its limit of graphs, functions that models share would run uncompiled
    torch._dynamo.config.recompile_limit = 64
    options: dict[str, Any] = {"mode": "reduce-overhead"} if device == "cuda" else {"backend": "eager"}
    return torch.compile(model, **options)


def _compiled_ratio(naive: Naive, path: Path, text: str, device: str) -> float:
    """Return the time of a forward pass over that of the compiled one."""
    import torch

    inputs = naive.inputs(path, text)
    forward = _compiled(naive.model, device)
    with torch.no_grad():
        plain, faster = (_seconds(lambda model=model: model(**inputs), device, 5) for model in (naive.model, forward))
    return plain / faster


def _compiled_tree(
    ours: Ours,
    device: str,
    rest: Sequence[Path],
    asked: Sequence[Question],
    before: dict[tuple[str, str], Answer],
    seconds: float,
) -> dict[str, Any]:
    """Return the time of `rest` (`seconds`) over that with the tree pass compiled, and the largest change of P(Yes)."""
    strategy: Any = ours.engine._session._strategy
    if not isinstance(strategy, SharedPrefix):
        raise RuntimeError(f"{type(strategy).__name__} was selected, which has no tree of questions")
    plain, strategy.text = strategy.text, _compiled(strategy.text, device)
    for _ in range(4):  # compiled, warmed up, recorded, replayed: the last is timed
        after = ours.answers(*(task(path, asked) for path in rest))
    strategy.text = plain
    change = [abs((after[key].numbers or {})["p_yes"] - (before[key].numbers or {})["p_yes"]) for key in before]
    return {"p_yes_compiled_ratio": seconds / ours.seconds[-1], "p_yes_compiled_change": max(change)}


def _flash_ratio(
    folder: Path, device: str, warm: Path, rest: Sequence[Path], asked: Sequence[Question], seconds: float
) -> float | str:
    """Return our time over that with flash attention (which shares the image only), or why there is none."""
    from importlib.util import find_spec

    if device != "cuda" or find_spec("flash_attn") is None:
        return "flash_attn is not installed, or there is no GPU"
    ours = Ours(folder, threads=4, device=device, dtype="bfloat16", attention="flash_attention_2")
    ours.answers(task(warm, asked))
    ours.answers(*(task(path, asked) for path in rest))
    return seconds / ours.seconds[-1]
