"""The same questions with full-size architectures on a GPU: random weights, bfloat16.

Qwen2.5-VL-3B's shapes at 1,280 image tokens and SmolVLM2-2.2B's at 13 tiles. Ours only is timed on whole images; the
naive loop on a few questions. bfloat16 rounds differently in every batch shape, so the answers are compared loosely:
exactness is what the float32 run on a CPU proves.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fp2.tables import Question
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
        "models": {},
    }
    for name, size in (SMALL if tiny else FULL).items():
        built = checkpoints.save(folder / name, [q.text for q in (*asked, *words)], size, seed, device, "bfloat16")
        result["models"][name] = _measure(built, device, pictures, asked, words, n_naive)
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
    naive = Naive.load(folder, torch.bfloat16, device)
    reference, path = Reference(naive.processor.tokenizer), rest[0]
    naive.logits(path, asked[0].text)
    naive.seconds.clear()
    sample = asked[:: max(1, len(asked) // n)][:n]
    logs = [reference.logs(naive.logits(path, question.text)) for question in sample]
    prompts, config = naive.prompt_ids(path, [q.text for q in asked]), naive.model.config
    costs = flops.score_costs(
        flops.TextFlops.of(config.text_config),
        flops.vision_flops(config, naive.inputs(path, asked[0].text)),
        prompts,
    )
    questions_a_second = len(scored) / scoring
    return {
        "parameters": naive.model.num_parameters(),
        "image_tokens": sum(token == config.image_token_id for token in prompts[0]),
        "p_yes_images_per_second": len(rest) / scoring,
        "p_yes_questions_per_second": questions_a_second,
        "p_yes_ratio": statistics.mean(naive.seconds) * questions_a_second,
        "p_yes_flop_limit": costs.limit,
        "hours_for_gras": GRAS_PROMPTS / questions_a_second / 3600,
        "answers_in_words_per_second": len(said) / saying,
        "tokens_per_answer": statistics.mean(answer.tokens for answer in said.values()),
        "hours_for_the_page": PAGE_RESPONSES / (len(said) / saying) / 3600,
        "max_abs_dlogit_bfloat16": differences([scored[path.stem, q.question_id] for q in sample], logs),
        "sharing": ours.engine.runtime()["sharing"],
        "sampled_questions": len(sample),
        "pictures": len(rest),
    }
