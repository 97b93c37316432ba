"""How much faster texts are generated when earlier answers to the same prompt draft the next ones.

The decoder of `prefix_sharing_parts/checkpoints.py` (random weights, float32) generates the six probes' answers about
images of one size, with drafts and without, in turns. Random weights say nothing, so the tokens are prescribed: each
text is an answer of the gold set of the scorers (`benchmarks/scorers/gold`), forced token by token through the `pick`
of the generation; the time of a pass does not depend on which tokens it has. Three sets of answers:

- `varied`: a different answer to a probe for every image;
- `repetitive`: each probe has 12 answers, drawn with weights 1, 1/2, 1/3 ...;
- `boilerplate`: each probe has 3 answers that decline, drawn with weights 1, 1/2, 1/3.

The ratio is the time of generation without drafts over that with them, the images' prefixes computed in both. Each
number of `--together` is measured, and the fastest with drafts is compared with the fastest without (`best`). Seconds
are of the processor for one thread on a CPU, which other work on the machine disturbs least, otherwise by the clock.
A draft is one chain of tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from prefix_sharing_parts import checkpoints
from prefix_sharing_parts.ours import Ours
from prefix_sharing_parts.questions import draw_people, probes, task

from fp2.methods.prefix_sharing.decoding import Drafts
from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix

if TYPE_CHECKING:
    import torch

    from fp2.engines.hf.encoding import EncodedPrompts

GOLD = Path(__file__).parent / "scorers" / "gold"
MAX_NEW = 64
Corpus = list[list[str]]
"""[images][probes] answers."""


def gold(probe: str, declining: bool | None = None) -> list[str]:
    """Return the different gold answers to a probe: all, or those that decline."""
    rows = [json.loads(line) for path in sorted(GOLD.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["probe"] == probe and len(row["text"].split()) > 3]
    return list(dict.fromkeys(row["text"] for row in rows if declining in (None, bool(row["refusal"]))))


def corpora(names: Sequence[str], n_images: int, seed: int = 0) -> dict[str, Corpus]:
    """Return the answers about `n_images` images for each set."""
    rng = np.random.default_rng(seed)

    def drawn(texts: list[str], n: int) -> list[str]:
        weights = 1 / np.arange(1, n + 1)
        return [texts[k] for k in rng.choice(n, n_images, p=weights / weights.sum())]

    columns = {
        "varied": [list(rng.permutation(gold(name))[:n_images]) for name in names],
        "repetitive": [drawn(list(rng.permutation(gold(name))), 12) for name in names],
        "boilerplate": [drawn(gold(name, declining=True), 3) for name in names],
    }
    return {name: [list(row) for row in zip(*texts, strict=True)] for name, texts in columns.items()}


def prescribed(texts: Sequence[Sequence[Sequence[int]]]) -> Callable[..., list[int]]:
    """Return a `Pick` that gives `texts` [images][prompts], token by token."""
    given: Counter[tuple[int, int]] = Counter()

    def pick(pairs: Sequence[tuple[int, int]], logits: torch.Tensor) -> list[int]:
        logits.argmax(dim=-1).tolist()  # what a greedy choice costs
        found = [texts[image][prompt][given[image, prompt]] for image, prompt in pairs]
        given.update(pairs)
        return found

    return pick


def generate(
    strategy: SharedPrefix,
    encoded: EncodedPrompts,
    texts: list[list[list[int]]],
    images: int,
    end: int,
    clock: Callable[[], float],
) -> Iterator[tuple[float, int]]:
    """Generate `texts` in batches of `images`; yield seconds and passes of each batch."""
    for start in range(0, len(texts), images):
        part = texts[start : start + images]
        calls, started = strategy.calls, clock()
        new = strategy.generate([encoded] * len(part), prescribed(part), {end}, MAX_NEW)
        yield clock() - started, strategy.calls - calls
        if new != part:
            raise RuntimeError("the texts that were generated are not those prescribed")


def measure(
    ours: Ours, encoded: EncodedPrompts, corpus: Corpus, images: int, clock: Callable[[], float]
) -> dict[str, Any]:
    """Return seconds, their ratio and the shares of drafts for one set of answers, `images` in a batch."""
    loaded = ours.engine._session.loaded
    tokenizer, facts = loaded.processor.tokenizer, loaded.facts
    end = int(tokenizer.eos_token_id)
    texts = [
        [[*tokenizer(text, add_special_tokens=False)["input_ids"], end][:MAX_NEW] for text in row] for row in corpus
    ]
    ways = {
        name: SharedPrefix(loaded.model, facts.text_model, ours.engine._session.limits) for name in ("plain", "drafted")
    }
    ways["plain"].drafts = Drafts(longest=0)
    running = {name: generate(way, encoded, texts, images, end, clock) for name, way in ways.items()}
    seconds, passes = {name: [] for name in ways}, dict.fromkeys(ways, 0)  # type: dict[str, list[float]], Any
    for _ in range(0, len(texts), images):
        for name, batches in running.items():
            spent, calls = next(batches)
            seconds[name].append(spent)
            passes[name] += calls
    drafts, tokens = ways["drafted"].drafts, sum(len(text) for row in texts for text in row)
    half = len(seconds["plain"]) // 2
    return {
        "seconds": {name: sum(spent) for name, spent in seconds.items()},
        "ratio": sum(seconds["plain"]) / sum(seconds["drafted"]),
        "ratio_second_half": sum(seconds["plain"][half:]) / sum(seconds["drafted"][half:]),
        "tokens": tokens,
        "passes": passes,
        "accepted_share_of_tokens": drafts.accepted / tokens,
        "accepted_share_of_proposed": drafts.accepted / drafts.proposed if drafts.proposed else None,
        "texts": len(texts) * len(texts[0]),
        "different_texts": len({tuple(text) for row in texts for text in row}),
    }


def best(found: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the fastest number of images together without and with drafts, and the ratio of their times."""
    fastest = {way: min(found, key=lambda n: float(found[n]["seconds"][way])) for way in ("plain", "drafted")}
    spent = {way: found[n]["seconds"][way] for way, n in fastest.items()}
    return {"together": fastest, "seconds": spent, "ratio": spent["plain"] / spent["drafted"]}


def main(words: Sequence[str] | None = None) -> int:
    """Print the ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=48, help="images to answer about")
    parser.add_argument("--together", type=int, nargs="+", default=[1, 2, 4], help="images in one batch")
    parser.add_argument("--answers", nargs="+", default=["varied", "repetitive", "boilerplate"], help="sets of answers")
    parser.add_argument("--model", default="smolvlm_like", help="one of prefix_sharing_parts/checkpoints.py")
    parser.add_argument("--tiny", action="store_true", help="a tiny model: runs every part; its numbers mean nothing")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one line")
    chosen = parser.parse_args(words)
    clock = time.process_time if (chosen.device, chosen.threads) == ("cpu", 1) else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        questions = probes()
        sizes = checkpoints.TINY if chosen.tiny else checkpoints.SIZES
        known = [question.text for question in questions] + [t for q in questions for t in gold(q.probe)]
        checkpoint = checkpoints.save(Path(folder) / chosen.model, known, sizes[chosen.model])
        ours = Ours(checkpoint, chosen.threads, chosen.device)
        picture = draw_people(Path(folder) / "people", 1)[0]
        (group,) = ours.engine._session.build_inputs(task(picture, questions)).groups
        answers = corpora([question.probe for question in questions], chosen.images)
        found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in chosen.answers}
        for together in chosen.together:
            for name, measured in found.items():
                measured[together] = measure(ours, group.encoded, answers[name], together, clock)
                print(f"{name}, {together} together: {measured[together]['seconds']}", file=sys.stderr)
    shown = {name: {**measured, "best": best(measured)} for name, measured in found.items()}
    print(json.dumps({"model": chosen.model, **shown}, indent=None if chosen.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
