"""Prefix sharing of a hybrid cache, of a mixture of experts, and of the reasonings of a model that reasons.

Random checkpoints from the library's own classes (`families_parts/build.py`), widened to about ten million parameters,
float32, one thread. `p_yes`: yes/no questions about an image, by what the family shares and by one full forward pass
each. `reasonings`: sampled texts of six questions, by one shared prefix and by one full prompt each. `flop_limit` is
the same ratio in floating-point operations, as torch counts them in both. Each ratio is the median of pairs that are
timed in turns.

    python -m benchmarks.prefix_families            # --tiny tries everything out and measures nothing
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
FAMILIES = {"qwen3_5": "hybrid cache", "qwen3_vl_moe": "mixture of experts"}
SCALE, QUESTIONS, PROBES, TRACES, TOKENS, PAIRS = 6, 50, 6, 5, 12, 2


def measure(kind: str, folder: Path, *, tiny: bool) -> dict[str, Any]:
    """Return the ratios of one family."""
    from families_parts import build, check
    from prefix_sharing_parts.questions import yes_no_questions

    from fp2.engines.hf.generation import BatchLimits, Sampler
    from fp2.engines.hf.session import make_strategy
    from fp2.engines.hf.whole_prompts import WholePrompts
    from fp2.tables import Decoding

    path, backend = build.save(kind, folder, scale=1 if tiny else SCALE, gain=1.0)
    loaded, _ = check._askable(path, backend)
    texts = [question.text for question in yes_no_questions(QUESTIONS // 5)][: 10 if tiny else QUESTIONS]
    encoded = check.encoded(loaded, path, texts, build.picture(0, (364, 504)))
    few = check.encoded(loaded, path, texts[:: len(texts) // PROBES][:PROBES], build.picture(0, (364, 504)))
    level = loaded.facts.expected
    shared = make_strategy(level, loaded, BatchLimits(96, 512))
    alone = WholePrompts(loaded.model, share_features=False, limits=BatchLimits(1, 512))
    wanted = [(prompt, ()) for prompt in range(len(encoded.suffixes))]

    def score(strategy: Any) -> dict[int, Any]:
        return {
            place: row
            for _, places, rows in strategy.logits([encoded], wanted)
            for place, row in zip(places, rows[0], strict=True)
        }

    def generate(strategy: Any) -> Any:
        copies = replace(few, suffixes=few.suffixes * TRACES)
        sampler = Sampler(Decoding(temperature=1.0), lambda pair: pair[1])
        return strategy.generate([copies], sampler, set(), 4 if tiny else TOKENS)

    ours, plain = score(shared), score(alone)
    error = max(float((ours[place] - plain[place]).abs().max()) for place in plain)
    return {
        "family": kind,
        "what": FAMILIES[kind],
        "shares": level,
        "parameters": loaded.model.num_parameters(),
        "tokens": {"common": len(encoded.prefix), "prompt": len(encoded.tokens(0))},
        "max_abs_dlogit": error,
        "p_yes": {"questions": len(texts), **_ratio(lambda: score(alone), lambda: score(shared), 1 if tiny else PAIRS)},
        "reasonings": {
            "of": f"{TRACES} texts of {PROBES} questions",
            "prefixes": _prefixes(shared, generate),
            "same_texts": generate(shared) == generate(alone),
            **_ratio(lambda: generate(alone), lambda: generate(shared), 1 if tiny else PAIRS),
        },
    }


def _prefixes(strategy: Any, generate: Callable[[Any], Any]) -> int:
    """Return how often the image is computed for all texts."""
    original, count = strategy._prefill, []
    strategy._prefill = lambda given: count.append(1) or original(given)
    generate(strategy)
    del strategy._prefill
    return len(count)


def _ratio(slow: Callable[[], Any], fast: Callable[[], Any], pairs: int) -> dict[str, Any]:
    """Return the ratio of times, the ratio of operations, and the range of the former."""
    from torch.utils.flop_counter import FlopCounterMode

    operations, seconds = [], [[], []]
    for run in (slow, fast):
        with FlopCounterMode(display=False) as counter:
            run()
        operations.append(counter.get_total_flops())
    for _ in range(pairs):
        for place, run in enumerate((slow, fast)):
            started = time.perf_counter()
            run()
            seconds[place].append(time.perf_counter() - started)
    ratios = sorted(one / other for one, other in zip(*seconds, strict=True))
    limit = operations[0] / operations[1]
    return {
        "ratio": median(ratios),
        "range": [ratios[0], ratios[-1]],
        "flop_limit": limit,
        "seconds": [median(each) for each in seconds],
    }


def main(words: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", nargs="+", choices=tuple(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--json", action="store_true", help="print one JSON line (always)")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args(words)
    import torch
    from families import usable_torchvision
    from prefix_sharing_parts.verdict import rounded

    usable_torchvision()
    torch.set_num_threads(1)
    result: dict[str, Any] = {"benchmark": "prefix_families", "torch": torch.__version__}
    for kind in args.families:
        with tempfile.TemporaryDirectory() as folder:
            result[kind] = rounded(measure(kind, Path(folder), tiny=args.tiny))
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
