"""How much faster many questions about one image are answered when what they have in common is computed once.

Two models of realistic size with random weights (`prefix_sharing_parts/checkpoints.py`), on disk, float32, one thread.
Ours is `HfEngine` as a run uses it; naive is the loop of the published scripts: processor and one full forward pass (or
one `generate`) per question. 500 yes/no questions an image (100 traits in 5 templates) and the six probes. Naive is
timed on a seeded sample of the questions, half of it before and half after ours, and scaled linearly; the answers to
the sample are compared. `*_flop_limit` is the same ratio counted in floating-point operations (`flops.py`).

Times are processor time (on a machine with a GPU: wall time). The result is void (exit status 3, and the word) when a
matrix product timed in between varies by more than a fifth.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from prefix_sharing_parts import checkpoints, flops, others
from prefix_sharing_parts.calibration import Calibration
from prefix_sharing_parts.naive import Naive
from prefix_sharing_parts.ours import Ours, Reference, differences
from prefix_sharing_parts.questions import draw_people, probes, task, yes_no_questions
from prefix_sharing_parts.verdict import TARGETS, failures, rounded

from fp2.tables import Question

NEW_TOKENS = 40


@dataclass
class Bench:
    """What is measured, and with what."""

    folder: Path
    pictures: list[Path]
    threads: int
    sampled: int = 24
    seed: int = 0
    tiny: bool = False
    timed: int = 1
    """Images that the naive loop is timed on."""
    generated: int = 1
    """Images that the six probes are asked about."""
    growing: int = 40
    """Images that `growth` asks about."""
    calibration: Calibration = field(default_factory=Calibration)
    questions: tuple[Question, ...] = ()
    probes: tuple[Question, ...] = ()

    def build(self, name: str) -> Path:
        """Write the checkpoint `name` and return its folder."""
        texts = [question.text for question in (*self.questions, *self.probes)]
        sizes = checkpoints.TINY if self.tiny else checkpoints.SIZES
        return checkpoints.save(self.folder / name, texts, sizes[name])

    def sample(self, number: int) -> list[Question]:
        """Return the seeded sample of questions for image `number`, in random order."""
        rng = np.random.default_rng([self.seed, number])
        return [self.questions[k] for k in rng.choice(len(self.questions), self.sampled, replace=False)]


def score(bench: Bench, naive: Naive, ours: Ours) -> dict[str, Any]:
    """Ask all yes/no questions about each image; return ratios, differences and times.

    The engine is warm: it has loaded and checked itself with some questions about an image that is not counted.
    """
    ours.answers(task(bench.pictures[-1], bench.questions[::20]))
    start = ours.seconds.pop()
    reference = Reference(naive.processor.tokenizer)
    naive.seconds.clear()
    found, asked, given = {}, [], []
    for number, path in enumerate(bench.pictures[:-1]):
        sample = bench.sample(number) if number < bench.timed else []
        half = len(sample) // 2
        bench.calibration.sample()
        given += [reference.logs(naive.logits(path, question.text)) for question in sample[:half]]
        found |= ours.answers(task(path, bench.questions))
        given += [reference.logs(naive.logits(path, question.text)) for question in sample[half:]]
        asked += [(path.stem, question.question_id) for question in sample]
    bench.calibration.sample()
    answers = [found[key] for key in asked]
    per_question = mean(naive.seconds)
    per_picture = mean(ours.seconds)
    stems = [path.stem for path in bench.pictures[:-1]]
    other = dict(zip(stems, [*stems[1:], stems[0]], strict=True))
    return {
        "ratio": per_question * len(bench.questions) / per_picture,
        "max_abs_dlogit": differences(answers, given),
        "control_wrong_picture": differences([found[other[stem], name] for stem, name in asked], given),
        "control_rolled_prompts": differences([*answers[1:], answers[0]], given),
        "identical_answers": all(
            answer.text == ("Yes" if logs["logit_difference"] >= 0 else "No")
            for answer, logs in zip(answers, given, strict=True)
        ),
        "sampled_questions": len(given),
        "sampled_pictures": bench.timed,
        "naive_seconds_per_question": per_question,
        "ours_seconds_per_picture": list(ours.seconds),
        "later_over_first": median(ours.seconds[1:]) / ours.seconds[0],
        "start_seconds": start,
    }


def limits(bench: Bench, naive: Naive) -> dict[str, Any]:
    """Return the arithmetic of one image: sizes, the limit of scoring and of generating, and the formula's check."""
    texts, config = [question.text for question in bench.questions], naive.model.config
    prompts = naive.prompt_ids(bench.pictures[0], texts)
    text = flops.TextFlops.of(config.text_config)
    vision = flops.vision_flops(config, naive.inputs(bench.pictures[0], texts[0]))
    scored = flops.score_costs(text, vision, prompts)
    probes_ids = naive.prompt_ids(bench.pictures[0], [question.text for question in bench.probes])
    last_only = scored.naive - sum(len(prompt) - 1 for prompt in prompts) * text.per_output
    return {
        "parameters": naive.model.num_parameters(),
        "image_tokens": sum(token == config.image_token_id for token in prompts[0]),
        **flops.tree_sizes(prompts),
        "flop_limit": scored.limit,
        "flop_limit_of_naive_with_last_logits_only": last_only / scored.shared,
        "generate_flop_limit": flops.generate_costs(text, vision, probes_ids, NEW_TOKENS).limit,
        "flops_formula_over_counted": _formula_over_counted(naive, bench.pictures[0], texts[0]),
    }


def _formula_over_counted(naive: Naive, picture: Path, text: str) -> float:
    """Return our count for one naive pass over torch's own; an image in tiles counts as its overview alone."""
    inputs = naive.inputs(picture, text, **({"do_image_splitting": False} if "idefics3" in _kind(naive) else {}))
    length, config = inputs["input_ids"].shape[1], naive.model.config
    ours = flops.vision_flops(config, inputs) + flops.TextFlops.of(config.text_config).prompt(length, length)
    return ours / flops.counted(naive.model, inputs)


def _kind(naive: Naive) -> str:
    return str(naive.model.config.model_type)


def generate(bench: Bench, naive: Naive, ours: Ours) -> dict[str, Any]:
    """Ask the six probes about each image, in words."""
    ours.answers(task(bench.pictures[-1], bench.probes))
    naive.seconds.clear()
    ours.seconds.clear()
    same, tokens, pictures = True, 0, bench.pictures[: bench.generated]
    for path in pictures:
        bench.calibration.sample()
        texts = [naive.generate(path, question.text, NEW_TOKENS) for question in bench.probes]
        answers = ours.answers(task(path, bench.probes))
        said = [answers[path.stem, question.question_id] for question in bench.probes]
        same &= [answer.text for answer in said] == texts
        tokens += sum(answer.tokens for answer in said)
    bench.calibration.sample()
    return {
        "ratio": sum(naive.seconds) / sum(ours.seconds),
        "identical_answers": same,
        "pictures": len(pictures),
        "tokens_per_answer": tokens / (len(pictures) * len(bench.probes)),
        "naive_seconds_per_picture": sum(naive.seconds) / len(pictures),
        "ours_seconds_per_picture": list(ours.seconds),
    }


def growth(bench: Bench) -> dict[str, Any]:
    """Ask a tiny model about many different images, one after the other: later ones must not take longer."""
    from PIL import Image

    texts = [question.text for question in bench.questions]
    folder = checkpoints.save(bench.folder / "growth", texts, checkpoints.TINY_QWEN)
    ours, rng = Ours(folder, bench.threads), np.random.default_rng(bench.seed)
    paths = [bench.folder / f"noise_{number}.png" for number in range(bench.growing + 4)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (112, 112, 3), dtype=np.uint8)).save(path)
    tasks = [task(path, bench.questions[::10]) for path in paths]
    for one in tasks:
        ours.answers(one)
    took = ours.seconds[4:]
    part = max(1, len(took) // 4)
    return {
        "pictures": bench.growing,
        "last_over_first": median(took[-part:]) / median(took[:part]),
    }


def measure(bench: Bench, name: str, glance_python: str | None) -> dict[str, Any]:
    """Return everything measured on one model."""
    folder = bench.build(name)
    naive, ours = Naive.load(folder), Ours(folder, bench.threads, max_new_tokens=NEW_TOKENS)
    found = {**limits(bench, naive), "p_yes": score(bench, naive, ours)}
    found["sharing"] = ours.engine.runtime()["sharing"]
    if name == "qwen_like":
        found["generate"] = generate(bench, naive, ours)
        found["others"] = {}
        n, texts = len(bench.questions), [question.text for question in bench.sample(0)]
        naive_seconds = found["p_yes"]["naive_seconds_per_question"] * n
        pipeline = others.decision_pipeline(naive.model, folder, bench.pictures[0], texts[:2], n)
        del naive, ours
        glance = others.glance(
            glance_python, folder, bench.pictures[0], [q.text for q in bench.questions[::5]], n, bench.threads
        )
        bench.calibration.sample()
        for other, result in {"decision_pipeline": pipeline, "glance_vlm": glance}.items():
            if "seconds_per_image" in result:
                result["times_naive"] = naive_seconds / result["seconds_per_image"]
                result["ours_times_this"] = result["seconds_per_image"] / mean(
                    found["p_yes"]["ours_seconds_per_picture"]
                )
            found["others"][other] = result
    return found


def run(bench: Bench, names: Sequence[str], glance_python: str | None) -> dict[str, Any]:
    """Measure and return the result in the shape that is printed."""
    import torch
    import transformers

    started = time.perf_counter()
    torch.set_num_threads(bench.threads)
    bench.calibration.sample()
    models = {name: measure(bench, name, glance_python) for name in names}
    result: dict[str, Any] = {"benchmark": "prefix_sharing", "device": "cpu", "dtype": "float32"}
    for name, found in models.items():
        _ratio(result, f"p_yes_{name}", found["p_yes"]["ratio"], found["flop_limit"])
    if "qwen_like" in models:
        found = models["qwen_like"]
        _ratio(result, "generate_six_probes", found["generate"]["ratio"], found["generate_flop_limit"])
    scored = [found["p_yes"] for found in models.values()]
    result["max_abs_dlogit"] = max(found["max_abs_dlogit"] for found in scored)
    result["identical_answers"] = all(
        found["identical_answers"] for found in [*scored, *(m["generate"] for m in models.values() if "generate" in m)]
    )
    result["targets"] = {name: TARGETS[name] for name in TARGETS if name in result}
    result |= {"growth": growth(bench), "models": models, "threads": bench.threads}
    result["versions"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    result["calibration_spread"] = bench.calibration.spread
    result["void"] = bench.calibration.void
    result["seconds"] = time.perf_counter() - started
    return result


def _ratio(result: dict[str, Any], name: str, ratio: float, limit: float) -> None:
    result |= {name: ratio, f"{name}_flop_limit": limit, f"{name}_share_of_limit": ratio / limit}


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's settings."""
    import os

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print nothing but one JSON object")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--models", nargs="+", choices=tuple(checkpoints.SIZES), default=list(checkpoints.SIZES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sample", type=int, default=24, help="questions a picture that the naive loop is timed on")
    parser.add_argument("--pictures", type=int, default=2, help="pictures that ours is timed on, one more to warm up")
    parser.add_argument("--naive-pictures", type=int, default=1, help="of these, pictures that naive is timed on")
    parser.add_argument("--traits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tiny", action="store_true", help="tiny models: tries everything out, measures nothing")
    parser.add_argument(
        "--glance-python",
        default=os.environ.get("GLANCE_PYTHON"),
        help="interpreter of an environment with glance-vlm (or GLANCE_PYTHON)",
    )
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print; return 0, 1 (a target missed) or 3 (void)."""
    args = parse(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.device == "cuda":
            from prefix_sharing_parts.gpu import measure_full_size

            print(json.dumps(rounded(measure_full_size(folder, tiny=args.tiny, seed=args.seed))))
            return 0
        bench = Bench(
            folder,
            draw_people(folder, args.pictures + 1),
            args.threads,
            args.sample,
            args.seed,
            args.tiny,
            questions=yes_no_questions(args.traits),
            probes=probes(),
        )
        result = rounded(run(bench, args.models, args.glance_python))
    wrong = failures(result)
    if not args.json:
        for name in result["targets"]:
            limit, share = result[f"{name}_flop_limit"], result[f"{name}_share_of_limit"]
            print(f"{name}: {result[name]} times as fast; limit by FLOPs {limit}, of which {share:.0%}")
        print("\n".join(wrong) or "every target is met, with identical answers")
    print(json.dumps(result))
    return 3 if result["void"] else int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
