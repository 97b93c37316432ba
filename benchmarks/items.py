"""Items: how long planning 200,000 of them takes, and what questions about two images in one prompt share.

    OMP_NUM_THREADS=1 python benchmarks/items.py > docs/methods/items_speed.csv

`fp2 plan` runs in a process of its own on a table of items with two images each. 63 yes/no questions about one pair of
images are asked of `qwen_like` (`prefix_sharing_parts/checkpoints.py`) by `HfEngine`, and eight of them by the loop of
the published scripts, one full forward pass each; both take turns, and the best turn of each counts. Times are
processor time, since other work may run on the machine. Exit status 1: above 30 s or 1,000 MB, or other answers.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from PIL import Image
from prefix_sharing_parts import checkpoints, flops
from prefix_sharing_parts.naive import Naive
from prefix_sharing_parts.ours import Ours, Reference, differences
from prefix_sharing_parts.questions import draw_people, task, yes_no_questions
from prefix_sharing_parts.verdict import TOLERANCE

Rows = dict[str, tuple[float, float]]
"""Measure -> its value, and its bound from above."""
TURNS, SAMPLED = 4, 8
BATTERY = """
name: which_of_both
version: "1"
fields: [occupation]
probes: {work: {questions: [{id: work, text: "Which of both is the {occupation}?"}]}}
"""
COLUMNS = "{image: a, image_b: b, item: id, subject: id, gender: gender, field_occupation: occupation}"


def planning(folder: Path, items: int, images: int) -> Rows:
    """Return processor time (s) and peak memory (MB) of `fp2 plan` on `items` items over `images` images."""
    rng = np.random.default_rng(1)
    for number in range(images):
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    with (folder / "items.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "a", "b", "gender", "occupation"])
        for number, (a, b) in enumerate(rng.integers(0, images, (items, 2)).tolist()):
            writer.writerow([f"i{number}", f"{a}.png", f"{b}.png", "fm"[number % 2], f"job {number % 100}"])
    (folder / "conf" / "probe").mkdir(parents=True)
    (folder / "conf" / "probe" / "which_of_both.yaml").write_text(BATTERY)
    words = [
        "data=table",
        f"data.path={folder / 'items.csv'}",
        f"data.columns={COLUMNS}",
        "cut.by=[gender]",
        "probe=which_of_both",
        f"hydra.searchpath=[file://{folder / 'conf'}]",
        "model=qwen2_5_vl_3b",
        f"paths.root={folder}",
        f"paths.state={folder / 'state'}",
    ]
    subprocess.run([sys.executable, "-m", "fp2.cli", "plan", *words], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        f"planning {items:,} items: processor time, s": (used.ru_utime + used.ru_stime, 30.0),
        f"planning {items:,} items: peak memory, MB": (used.ru_maxrss / 1024, 1000.0),
    }


def sharing(folder: Path, *, tiny: bool) -> Rows:
    """Return how much faster questions about one pair of images are answered together than one by one."""
    first, second, *_ = draw_people(folder, 3)
    asked = yes_no_questions(100)[::8]
    sizes = checkpoints.TINY if tiny else checkpoints.SIZES
    checkpoint = checkpoints.save(folder / "model", [question.text for question in asked], sizes["qwen_like"])
    naive, ours = Naive.load(checkpoint), Ours(checkpoint, threads=1)
    naive.second, config, reference = second, naive.model.config, Reference(naive.processor.tokenizer)
    ours.answers(task(second, asked[:4], first))
    ours.seconds.clear()
    sample = [asked[k] for k in np.random.default_rng(2).choice(len(asked), SAMPLED, replace=False)]
    given, alone = [], []
    for turn in range(TURNS):
        answers = ours.answers(task(first, asked, second))
        given += [reference.logs(naive.logits(first, question.text)) for question in sample[turn::TURNS]]
        alone.append(mean(naive.seconds))
        naive.seconds.clear()
    compared = [answers[first.stem, question.question_id] for turn in range(TURNS) for question in sample[turn::TURNS]]
    prompts = naive.prompt_ids(first, [question.text for question in asked])
    vision = flops.vision_flops(config, naive.inputs(first, asked[0].text))
    limit = flops.score_costs(flops.TextFlops.of(config.text_config), vision, prompts).limit
    return {
        f"{len(asked)} questions about two images: times as fast (bound: by operations)": (
            min(alone) * len(asked) / min(ours.seconds),
            limit,
        ),
        "largest change of a logit": (differences(compared, given), TOLERANCE),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Write the rows as CSV, or with `--json` as one JSON line; return 1 where a bound of time or memory is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--images", type=int, default=2_000)
    parser.add_argument("--tiny", action="store_true", help="a tiny model: its numbers mean nothing")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        rows = planning(Path(name), given.items, given.images) | sharing(Path(name), tiny=given.tiny)
    if given.json:
        print(json.dumps(rows))
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["measure", "value", "bound"])
        writer.writerows([measure, f"{value:.4g}", f"{bound:.4g}"] for measure, (value, bound) in rows.items())
    return int(any(value > bound for value, bound in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
