"""Train peeps_vlm from random weights: `python -m training.peeps`.

Every stage leaves its result in `build/train-peeps` and is skipped when it is there; a stage that was stopped goes on
from its last checkpoint. Fixed steps and seeds, one thread.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from training.peeps.card import EVALUATION, write_card
from training.peeps.evaluate import Held, evaluate
from training.peeps.language import LanguagePlan
from training.peeps.planted import load_planted
from training.peeps.settings import MODEL_FOLDER, WORK_FOLDER, Recipe
from training.peeps.stages import average, count_parameters, draw, export, language, last_language, last_vision, vision
from training.peeps.vision import VisionPlan

VISION_1 = VisionPlan(steps=5000)
LANGUAGE_1 = LanguagePlan(steps=1500)
VISION_2 = VisionPlan(steps=9000, pairs=44, rate=1.2e-3, pair_weight=2.0, score_weight=20.0)
LANGUAGE_2 = LanguagePlan(
    steps=1600, people=32, open_turns=2, yes_turns=6, rate=1.0e-3, yes_weight=25.0, share_rare=0.45
)
LANGUAGE_3 = LanguagePlan(  # mostly yes/no: exact zeros for the traits that nothing demographic moves
    steps=900, people=32, open_turns=2, yes_turns=6, rate=6.0e-4, yes_weight=250.0, share_rare=0.5
)
VISION_3 = VisionPlan(  # mirrored pairs and the open questions; the heads are new
    steps=2200, people=24, pairs=84, rate=8.0e-4, pair_weight=3.0, score_weight=20.0, heads_first=200, warmup=0.1,
    keep_weight=30.0, bfloat16=False,
)  # fmt: skip
LANGUAGE_4 = LanguagePlan(
    steps=1150, people=20, open_turns=2, yes_turns=4, vqa_turns=2, pairs=8, pair_turns=2, naming=True,
    rate=8.0e-4, yes_weight=200.0, end_weight=0.5, share_rare=0.5, bfloat16=False,
)  # fmt: skip
LANGUAGE_5 = LanguagePlan(  # mostly open questions
    steps=430, people=22, open_turns=1, yes_turns=3, vqa_turns=5, pairs=4, pair_turns=2, naming=True,
    rate=6.0e-4, yes_weight=500.0, end_weight=0.5, share_rare=0.5, bfloat16=False,
)  # fmt: skip
LANGUAGE_6 = LanguagePlan(  # the probes again
    steps=200, people=22, open_turns=4, yes_turns=2, vqa_turns=3, pairs=4, pair_turns=2, naming=True,
    rate=5.0e-4, yes_weight=250.0, end_weight=0.5, share_rare=0.5, bfloat16=False,
)  # fmt: skip


def _timed(folder: Path, name: str, stage: Callable[[], None]) -> None:
    """Run a stage unless it is marked as done; remember how many seconds it took in `folder/seconds.json`."""
    log = folder / "seconds.json"
    seconds: dict[str, float] = json.loads(log.read_text()) if log.exists() else {}
    if name in seconds:
        print(f"{name}: done before, in {seconds[name]:.0f} s", flush=True)
        return
    began = time.monotonic()
    stage()
    seconds[name] = time.monotonic() - began
    log.write_text(json.dumps(seconds, indent=2))
    print(f"{name}: {seconds[name]:.0f} s", flush=True)


def train(folder: Path, target: Path, recipe: Recipe) -> None:
    """Run every stage that is not done, write the model into `target` and its report beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    stages: dict[str, Callable[[], None]] = {
        "draw": lambda: draw(folder, recipe),
        "vision1": lambda: vision(folder, recipe, VISION_1, 1),
        "language1": lambda: language(folder, recipe, LANGUAGE_1, 1, "vision1"),
        "vision2": lambda: vision(folder, recipe, VISION_2, 2),
        "language2": lambda: language(folder, recipe, LANGUAGE_2, 2, "vision2"),
        "language3": lambda: language(folder, recipe, LANGUAGE_3, 3, "vision2"),
        "vision3": lambda: last_vision(folder, recipe, VISION_3),
        "language4": lambda: last_language(folder, recipe, LANGUAGE_4, 4),
        "language5": lambda: last_language(folder, recipe, LANGUAGE_5, 5),
        "language6": lambda: last_language(folder, recipe, LANGUAGE_6, 6),
        "mean": lambda: average(folder, ("language4", "language6"), "mean"),
    }
    for name, stage in stages.items():
        _timed(folder, name, stage)
    export(folder, recipe, "mean", target)
    report(folder, target, recipe)


def report(folder: Path, target: Path, recipe: Recipe) -> None:
    """Evaluate the model in `target` on the people held out for the report and write it and the card."""
    log = folder / "seconds.json"
    plans: dict[str, Any] = {
        "vision1": VISION_1,
        "language1": LANGUAGE_1,
        "vision2": VISION_2,
        "language2": LANGUAGE_2,
        "language3": LANGUAGE_3,
        "vision3": VISION_3,
        "language4": LANGUAGE_4,
        "language5": LANGUAGE_5,
        "language6": LANGUAGE_6,
    }
    result = {
        "recipe": {
            "seeds": dataclasses.asdict(recipe.seeds),
            "pictures": dataclasses.asdict(recipe.sizes),
            "stages": {name: dataclasses.asdict(plan) for name, plan in plans.items()},
            "seconds": json.loads(log.read_text()) if log.exists() else {},
            "threads": 1,
        },
        "version": load_planted().version,
        "parameters": count_parameters(target),
        "held": dataclasses.asdict(Held()),
        "report": evaluate(target, recipe.seeds.report, Held()),
    }
    path = target / EVALUATION
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")
    write_card(target)


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(prog="python -m training.peeps", description=__doc__)
    parser.add_argument("--work", type=Path, default=WORK_FOLDER, help="where stages leave their results")
    parser.add_argument("--target", type=Path, default=MODEL_FOLDER, help="where the model is written")
    parser.add_argument("--report-only", action="store_true", help="only evaluate the model that is there")
    options = parser.parse_args()
    if options.report_only:
        report(options.work, options.target, Recipe())
    else:
        train(options.work, options.target, Recipe())


if __name__ == "__main__":
    main()
