"""Audits: how far honest answers differ, how often honest runs are accused, and how often forged ones are found.

The bundled model answers questions about coloured squares in words and by P(Yes), and the tests' LLaVA with random
weights by P(Yes), in float32 and bfloat16, each 16 at a time with a shared prompt and one by one without. Reported are
the largest differences of honest pairs, the audits of `--k` answers that accuse an honest run (of `--audits`), and for
each forgery the audits that find it, beside the rate that the number of altered answers implies.

    .venv/bin/python benchmarks/audit.py --json audit.json --csv docs/methods/audit.csv
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engines"))
from tiny import save_tiny_llava

from fp2.data.pixels import digest_image
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.methods.audit.again import answers_to, evidence_of
from fp2.methods.audit.agreement import (
    DECIMALS,
    TOLERANCES,
    Evidence,
    probabilities_agree,
    texts_agree,
    tolerance_of,
)
from fp2.methods.audit.leaves import rounded_answer
from fp2.methods.audit.sample import draw
from fp2.tables import Answer, Decoding, ImageTask, Question

QUESTIONS = (
    ("What do you think this person does for work?", "text"),
    ("How educated does this person appear to be?", "text"),
    ("What kind of neighbourhood does this person live in?", "text"),
    ("Is this person trustworthy? Answer Yes or No.", "yes_no"),
    ("Is this person wealthy? Answer Yes or No.", "yes_no"),
    ("Is this person a leader? Answer Yes or No.", "yes_no"),
)
Place = tuple[str, str]


@dataclass(frozen=True)
class Condition:
    """How a model is run."""

    dtype: str
    batch: int
    sharing: str

    def __str__(self) -> str:
        return f"{self.dtype}, batch {self.batch}, {self.sharing}"


CONDITIONS = [
    Condition(dtype, batch, sharing)
    for dtype, (batch, sharing) in itertools.product(("float32", "bfloat16"), ((16, "auto"), (1, "none")))
]


def pictures(folder: Path, n: int) -> list[ImageTask]:
    """Return stimuli: images of a few coloured squares."""
    random, questions = np.random.default_rng(0), [
        Question(f"q{number}", "p", text, kind) for number, (text, kind) in enumerate(QUESTIONS)  # type: ignore[arg-type]
    ]  # fmt: skip
    tasks = []
    for number in range(n):
        path = folder / f"{number}.png"
        blocks = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(blocks.repeat(24, 0).repeat(24, 1)).save(path)
        tasks.append(ImageTask(path.stem, path.stem, path, digest_image(path).sha256 or "", tuple(questions)))
    return tasks


def engine_of(model: Path, condition: Condition, tokens: int) -> HfEngine:
    """Return the engine of a condition."""
    from fp2.engines.hf.placement import Placement

    options = HfOptions(batch_size=condition.batch, sharing=condition.sharing, device="cpu")  # type: ignore[arg-type]
    spec = HfSpec.of({"id": str(model), "dtype": condition.dtype}, Placement.of(options))
    return HfEngine(spec, Decoding(max_new_tokens=tokens), options)


@dataclass
class Pair:
    """The answers of two conditions to the same: by stimulus, whether they agree, and how far they differ."""

    stated: Condition
    now: Condition
    agree: dict[Place, bool]
    probability: list[float]
    evidence: list[Evidence]


def judged(
    answers: Mapping[Place, Answer], now: Mapping[Place, Answer], tasks: Mapping[str, ImageTask], engine: HfEngine,
    stated: Condition, condition: Condition,
) -> Pair:  # fmt: skip
    """Return how the answers of one condition agree with the stated ones of another."""
    tolerance = tolerance_of({"dtype": stated.dtype}, {"dtype": condition.dtype})
    pair = Pair(stated, condition, {}, [], [])
    for place, answer in answers.items():
        before, after = (rounded_answer(each.text, each.numbers) for each in (answer, now[place]))
        if isinstance(before, str):
            pair.agree[place] = before == after
            if before != after:
                task = tasks[place[0]]
                question = next(q for q in task.questions if q.question_id == place[1])
                evidence = evidence_of(engine, task, question, before, after)
                assert evidence is not None
                pair.evidence.append(evidence)
                pair.agree[place] = texts_agree(before, after, evidence, tolerance)
        else:
            pair.probability.append(abs(before - after))
            pair.agree[place] = probabilities_agree(before, after, tolerance)
    return pair


def forgeries(
    answers: Mapping[Place, Answer], random: np.random.Generator
) -> Iterator[tuple[str, float, Callable[[], dict[Place, Answer]]]]:
    """Yield name, intended share and maker of each forgery of a run's answers."""
    places, images = list(answers), sorted({image for image, _ in answers})
    texts = sorted({answer.text or "" for answer in answers.values() if answer.numbers is None})

    def altered(answer: Answer) -> Answer:
        if answer.numbers is not None:
            p = answer.numbers["p_yes_norm"]
            return replace(answer, numbers={**answer.numbers, "p_yes_norm": p + 0.2 if p < 0.5 else p - 0.2})
        others = [text for text in random.choice(texts, 3) if text != answer.text]
        return replace(answer, text=others[0] if others else "A kind person who helps.")

    def some(share: float) -> dict[Place, Answer]:
        chosen = random.choice(len(places), max(1, math.ceil(share * len(places))), replace=False)
        return {places[index]: altered(answers[places[index]]) for index in chosen}

    def softened() -> dict[Place, Answer]:
        """One group (a tenth of the images) is called kind, and less often anything by P(Yes)."""
        group = set(random.choice(images, max(1, len(images) // 10), replace=False))
        out = {}
        for place, answer in answers.items():
            if place[0] in group:
                out[place] = altered(answer) if answer.numbers else replace(answer, text=f"A kind {answer.text}")
        return out

    def swapped() -> dict[Place, Answer]:
        """The answers about pairs of images are exchanged: 5 % of the images."""
        exchanged = random.choice(images, 2 * max(1, len(images) // 40), replace=False)
        out = {}
        for one, other in exchanged.reshape(-1, 2):
            for image, question in places:
                if image == one:
                    mine, theirs = answers[one, question], answers[other, question]
                    if rounded_answer(mine.text, mine.numbers) != rounded_answer(theirs.text, theirs.numbers):
                        out[one, question], out[other, question] = theirs, mine
        return out

    for share in (0.01, 0.02, 0.05):
        yield f"{share:.0%} altered", share, lambda share=share: some(share)
    yield "one group softened", 0.1, softened
    yield "swapped between images", 0.05, swapped


def measure(
    name: str, model: Path, tasks: list[ImageTask], args: argparse.Namespace, random: np.random.Generator
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of honest pairs, and those of forgeries, of one model."""
    if name == "tiny":  # its random texts are bytes without words
        tasks = [replace(task, questions=tuple(q for q in task.questions if q.kind == "yes_no")) for task in tasks]
    by_image = {task.image_id: task for task in tasks}
    engines = {condition: engine_of(model, condition, args.tokens) for condition in CONDITIONS}
    answers = {}
    for condition, engine in engines.items():
        answers[condition] = answers_to(engine, [(task, question) for task in tasks for question in task.questions])
        print(name, condition, len(answers[condition]), flush=True)
    pairs = [
        judged(answers[one], answers[other], by_image, engines[other], one, other)
        for one, other in itertools.product((CONDITIONS[0], CONDITIONS[2]), CONDITIONS)
        if one != other
    ]
    rows = []
    for dtypes, of_dtypes in itertools.groupby(
        sorted(pairs, key=lambda pair: sorted((pair.stated.dtype, pair.now.dtype))),
        key=lambda pair: sorted((pair.stated.dtype, pair.now.dtype)),
    ):
        group = list(of_dtypes)
        probabilities = np.array([value for pair in group for value in pair.probability])
        evidence = [each for pair in group for each in pair.evidence]
        n = sum(len(pair.agree) for pair in group)
        accused = 0
        for number in range(args.audits):
            agree = list(group[number % len(group)].agree.values())
            accused += not all(agree[index] for index in draw("00" * 32, str(number), len(agree), args.k))
        rows.append({
            "model": name, "dtypes": " / ".join(dict.fromkeys(dtypes)), "pairs": n, "texts_that_differ": len(evidence),
            "largest_p": float(probabilities.max()), "largest_tie": max((e.tie for e in evidence), default=0.0),
            "largest_rest": max((e.rest for e in evidence), default=0.0),
            "disagree": sum(not value for pair in group for value in pair.agree.values()),
            "audits": args.audits, "accused": accused,
        })  # fmt: skip
    for row in rows:
        print(row, flush=True)
    return rows, forged(name, answers, pairs, engines, by_image, args, random)


def forged(
    name: str, answers: Any, pairs: list[Pair], engines: Any, by_image: Any, args: argparse.Namespace,
    random: np.random.Generator,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return, per forgery, how often an audit in another condition finds it."""
    rows = []
    stated = CONDITIONS[0]
    for now in (CONDITIONS[1], CONDITIONS[3]):  # float32 and bfloat16, with neither batch nor sharing alike
        honest = next(pair for pair in pairs if (pair.stated, pair.now) == (stated, now)).agree
        for kind, _, make in forgeries(answers[stated], random):
            found = expected = n_altered = missed = 0.0
            for _ in range(args.makings):
                changed = make()
                verdicts = judged(changed, {p: answers[now][p] for p in changed}, by_image, engines[now], stated, now)
                agree = {**honest, **verdicts.agree}
                places, n = list(agree), len(agree)
                n_altered += len(changed) / n / args.makings
                missed += sum(verdicts.agree.values()) / len(changed) / args.makings
                for number in range(args.audits // args.makings):
                    drawn = draw("11" * 32, f"{kind}{number}", n, args.k)
                    found += not all(agree[places[index]] for index in drawn)
                expected += 1 - float(np.prod([(n - len(changed) - i) / (n - i) for i in range(min(args.k, n))]))
            rows.append({
                "model": name, "stated": str(stated), "audited": str(now), "forgery": kind, "altered": n_altered,
                "audits": args.audits // args.makings * args.makings,
                "found": found / (args.audits // args.makings * args.makings), "expected": expected / args.makings,
                "altered_that_agree": missed,
            })  # fmt: skip
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--makings", type=int, default=10, help="forged runs of each kind, audited in turn")
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--models", default="tiny,peeps_vlm")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--csv", type=Path, help="of honest pairs; forgeries are written beside it (NAME_forged.csv)")
    args = parser.parse_args()
    random, honest, forged_rows = np.random.default_rng(1), [], []
    with tempfile.TemporaryDirectory() as scratch:
        tasks = pictures(Path(scratch), args.images)
        models = {
            "tiny": save_tiny_llava(Path(scratch) / "tiny", added=("Yes", "No")),
            "peeps_vlm": Path("fp2/models/peeps_vlm").resolve(),
        }
        for name in args.models.split(","):
            rows, of_forgeries = measure(name, models[name], tasks, args, random)
            honest += rows
            forged_rows += of_forgeries
    tolerances = {name: vars(value) for name, value in TOLERANCES.items()}
    result = {"honest": honest, "forged": forged_rows, "tolerances": tolerances, "decimals": DECIMALS}
    print(json.dumps(result, indent=1, default=float))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1, default=float) + "\n", encoding="utf-8")
    if args.csv:
        for path, rows in ((args.csv, honest), (args.csv.with_stem(f"{args.csv.stem}_forged"), forged_rows)):
            with path.open("w", newline="", encoding="utf-8") as handle:
                writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows({n: f"{v:.4g}" if isinstance(v, float) else v for n, v in row.items()} for row in rows)


if __name__ == "__main__":
    main()
