"""Two ratios of asking about many images: several images in one pass, and images decoded beside the model.

    OMP_NUM_THREADS=1 python benchmarks/image_passes.py

- `several_images`: the time of one image a pass over that of as many as `engine.max_tokens` allows, for `--questions`
  yes/no questions about each image. In a pass the weights are read once for all of its images.
- `beside`: the time of decoding and encoding every image when the model needs it over that of doing it in a thread in
  advance, as the engine does, for JPEG images of 3,000 x 2,000 pixels.

Both are of the bundled model on one thread, in turns, each the shortest of `--turns`. The answers are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from PIL import Image
from prefix_sharing_parts.questions import draw_people, task, yes_no_questions

from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix
from fp2.tables import Decoding, ImageTask

MODEL = "pkg://fp2/models/peeps_vlm"
LARGE = (3000, 2000)


def one_by_one(items: Iterable[Any], depth: int) -> Iterator[Any]:
    """Yield `items` when they are asked for: what the engine's `prefetched` does in a thread, without one."""
    return iter(items)


def asked(engine: HfEngine, tasks: Sequence[ImageTask]) -> tuple[float, dict[tuple[str, str], Any]]:
    """Return the seconds that the tasks take, and the probability of Yes of each question."""
    started = time.perf_counter()
    found = [answer for batch in engine.answer(tasks) for answer in batch]
    took = time.perf_counter() - started
    return took, {(one.image_id, one.question_id): (one.numbers or {}).get("p_yes") for one in found}


def ratio(slow: Any, fast: Any, turns: int) -> dict[str, Any]:
    """Return the shortest times of two ways, their ratio, and the largest difference of their answers."""
    spent: tuple[list[float], list[float]] = ([], [])
    change = 0.0
    for _ in range(turns):
        (first, old), (second, new) = slow(), fast()
        spent[0].append(first)
        spent[1].append(second)
        change = max(change, *(abs(old[key] - new[key]) for key in old))
    one, other = min(spent[0]), min(spent[1])
    return {"seconds": [round(one, 3), round(other, 3)], "ratio": one / other, "largest_change": change}


def main(words: Sequence[str] | None = None) -> int:
    """Print the ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--large", type=int, default=16, help="large images, for `beside`")
    parser.add_argument("--questions", type=int, default=6)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one line")
    chosen = parser.parse_args(words)
    questions = yes_no_questions()[: chosen.questions]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = draw_people(folder, chosen.images)
        large = [folder / f"large_{k}.jpg" for k in range(chosen.large)]
        for path, small in zip(large, paths, strict=False):
            with Image.open(small) as image:
                image.resize(LARGE).save(path, quality=90)
        tasks, few = ([task(path, questions) for path in some] for some in (paths, large[: len(paths)]))
        engine = HfEngine(HfSpec(MODEL), Decoding(), HfOptions(threads=1))
        asked(engine, tasks[:2])  # loads it, and compares with full passes

        def one_image_a_pass() -> Any:
            with mock.patch.object(SharedPrefix, "images_together", return_value=1):
                return asked(engine, tasks)

        def without_thread() -> Any:
            with mock.patch("fp2.engines.hf.engine.prefetched", one_by_one):
                return asked(engine, few)

        found = {
            "several_images": ratio(one_image_a_pass, lambda: asked(engine, tasks), chosen.turns),
            "beside": ratio(without_thread, lambda: asked(engine, few), chosen.turns),
        }
    print(json.dumps(found, indent=None if chosen.json else 2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
