"""How much time the harness adds to the bare model calls: the same images, questions and batches, twice a round.

Bare: open the images, processor, `generate`, decode, in plain transformers. Harness: pixel digests, plan, engine,
store and tables on an empty store. Rounds alternate; the result is the median ratio. The model is loaded beforehand.

`overhead` compares with the bare loop, which opens, resizes and encodes an image once per question as plain code does
(the harness does so once per image, so it can come out negative). `outside_model` is the strict reading: the share of
the harness's time that is not spent in forward passes of the model, reading and resizing images included. With this
tiny model a pass takes milliseconds; with a real one the same work is under a percent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fp2.ask.loop import ask
from fp2.ask.plan import make_plan
from fp2.ask.rows import RowStorage
from fp2.compose import load_config
from fp2.tables import Decoding

BATCH = 96


def _inputs(root: Path, n_people: int) -> tuple[Any, Any]:
    """Return people (one image each) and the six questions."""
    from dataclasses import asdict

    from fp2.methods.peeps.data.source import load_peeps
    from fp2.methods.peeps.data.spec import PeepsSpec
    from fp2.probes.battery import load_battery

    spec = PeepsSpec(seed=7, n_subjects=n_people, images_per_subject=1, n_pairs=0)
    return load_peeps(root, spec).people, load_battery(asdict(load_config([]).probe))


def _bare(loaded: Any, processor: Any, people: Any, battery: Any, decoding: Decoding) -> tuple[float, list[str]]:
    import torch
    from PIL import Image

    texts: list[str] = []
    started = time.perf_counter()
    pairs = [(path, q.text) for path in people["image_path"] for q in battery.questions]
    pairs.sort(key=lambda pair: len(pair[1]))
    for i in range(0, len(pairs), BATCH):
        chunk = pairs[i : i + BATCH]
        prompts = [
            processor.apply_chat_template(
                [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}],
                add_generation_prompt=True,
                tokenize=False,
            )
            for _, text in chunk
        ]
        pictures = []
        for path, _ in chunk:
            with Image.open(path) as picture:
                pictures.append(picture.convert("RGB"))
        inputs = processor(images=pictures, text=prompts, return_tensors="pt", padding=True)
        with torch.inference_mode():
            out = loaded.generate(**inputs, do_sample=False, max_new_tokens=decoding.max_new_tokens)
        texts += processor.batch_decode(out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return time.perf_counter() - started, texts


def _harness(engine: Any, people: Any, battery: Any) -> tuple[float, float, int]:
    """Return seconds in all, seconds in forward passes, and answers."""
    from fp2.config import VariantConfig
    from fp2.data.pixels import PixelIndex
    from fp2.data.stimuli import make_stimuli as shown_pictures
    from fp2.store.rows import ResponseStore

    with tempfile.TemporaryDirectory() as folder, ResponseStore(Path(folder) / "store.sqlite") as store:
        inside.clear()
        started = time.perf_counter()
        pixels = PixelIndex(store.connection).digest_many([Path(p) for p in people["image_path"]])
        shown = shown_pictures(people, VariantConfig(), pixels, Path(folder))
        plan = make_plan([(people, "original", shown)], battery.questions)
        storage = RowStorage(plan, engine, battery.decoding, store)
        ask(storage, engine, attempts=1, error_budget=0)
        table = storage.answers().frame
        seconds = time.perf_counter() - started
    return seconds, sum(inside), int((table["status"] == "answered").sum())


inside: list[float] = []


def _time_forward_passes() -> None:
    """Make every outermost call of a torch module note how long it takes."""
    import torch

    call = torch.nn.Module.__call__
    depth = 0

    def timed(module: Any, *args: Any, **options: Any) -> Any:
        nonlocal depth
        started = time.perf_counter()
        depth += 1
        try:
            return call(module, *args, **options)
        finally:
            depth -= 1
            if not depth:
                inside.append(time.perf_counter() - started)

    torch.nn.Module.__call__ = timed


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    parser.add_argument("--people", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args(words)
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from fp2.engines.checkpoint import resolve_checkpoint
    from fp2.engines.hf.engine import HfEngine, HfOptions
    from fp2.engines.hf.model import HfSpec

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as cache:
        people, battery = _inputs(Path(cache), args.people)
        checkpoint = resolve_checkpoint("pkg://fp2/models/peeps_vlm")
        model = AutoModelForImageTextToText.from_pretrained(checkpoint.path, dtype=torch.float32).eval()
        processor = AutoProcessor.from_pretrained(checkpoint.path)
        engine = HfEngine(
            HfSpec("pkg://fp2/models/peeps_vlm"), battery.decoding, HfOptions(batch_size=BATCH, threads=1)
        )
        _bare(model, processor, people.head(4), battery, battery.decoding)
        _time_forward_passes()
        _harness(engine, people.head(4), battery)
        rounds = []
        for _ in range(args.rounds):
            bare, texts = _bare(model, processor, people, battery, battery.decoding)
            harness, calls, answered = _harness(engine, people, battery)
            assert answered == len(texts)
            rounds.append((bare, harness, calls))
    ratios = [harness / bare for bare, harness, _ in rounds]
    result = {
        "benchmark": "harness_overhead",
        "answers": len(texts),
        "bare_seconds": round(statistics.median(b for b, _, _ in rounds), 3),
        "harness_seconds": round(statistics.median(h for _, h, _ in rounds), 3),
        "model_seconds": round(statistics.median(g for _, _, g in rounds), 3),
        "outside_model": round(statistics.median(1 - g / h for _, h, g in rounds), 4),
        "overhead": round(statistics.median(ratios) - 1, 4),
        "overhead_rounds": [round(ratio - 1, 4) for ratio in ratios],
        "target": 0.05,
    }
    if not args.json:
        print(f"harness / bare - 1 = {result['overhead']:+.1%} (rounds: {result['overhead_rounds']})")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
