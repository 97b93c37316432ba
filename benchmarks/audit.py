"""Audits: how far honest answers differ, how often honest runs are accused, and how often forged ones are found.

The bundled model answers questions about coloured squares in words and by P(Yes), and the tests' LLaVA with random
weights by P(Yes), in float32 and bfloat16, each 16 at a time with a shared prompt and one by one without. Reported are
the largest differences of honest pairs, the audits of `--k` answers that accuse an honest run (of `--audits`), and for
each of as many forgeries whether one audit finds it, beside the rate that the number of altered answers implies. Honest
answers are computed once; every audit draws its own answers and forgery from them. `tail` is the probability that an
honest audit accuses by a generalised Pareto distribution fitted to the largest tenth of the differences of P(Yes).
Forged runs have tables, numbers and root recomputed to fit: those that have not are found by recomputing. Answers
sampled at temperature 1 are judged together (`sampled`).

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
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.stats import genpareto, hypergeom

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "engines"))
from tiny import save_tiny_llava

from fp2.data.pixels import digest_image
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.methods.audit.again import answers_to, evidence_of
from fp2.methods.audit.agreement import (
    DECIMALS,
    FALSE_ALARMS,
    REPEATS,
    TOLERANCES,
    Evidence,
    OddOnes,
    is_odd_one_out,
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
    random, questions = (
        np.random.default_rng(0),
        [
            Question(f"q{number}", "p", text, kind)
            for number, (text, kind) in enumerate(QUESTIONS)  # type: ignore[arg-type]
        ],
    )
    tasks = []
    for number in range(n):
        path = folder / f"{number}.png"
        blocks = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(blocks.repeat(24, 0).repeat(24, 1)).save(path)
        tasks.append(ImageTask(path.stem, path.stem, path, digest_image(path).sha256 or "", tuple(questions)))
    return tasks


def engine_of(model: Path, condition: Condition, decoding: Decoding) -> HfEngine:
    """Return the engine of a condition."""
    from fp2.engines.hf.placement import Placement

    options = HfOptions(batch_size=condition.batch, sharing=condition.sharing, device="cpu")  # type: ignore[arg-type]
    spec = HfSpec.of({"id": str(model), "dtype": condition.dtype}, Placement.of(options))
    return HfEngine(spec, decoding, options)


@dataclass
class Pair:
    """The answers of two conditions to the same: by stimulus, whether they agree, and how far they differ."""

    stated: Condition
    now: Condition
    agree: dict[Place, bool]
    probability: list[float]
    evidence: list[Evidence]


Judge = Callable[[Condition, Condition, Place, Answer], tuple[bool, float | Evidence | None]]
"""Returns whether a stated answer of one condition agrees with that of another, and how far they differ."""


def judge_of(
    answers: Mapping[Condition, Mapping[Place, Answer]], tasks: Mapping[str, ImageTask], engines: Any
) -> Judge:
    """Return what judges answers; what a model says of two texts is computed once."""

    @cache
    def evidence(condition: Condition, place: Place, before: str, after: str) -> Evidence:
        task = tasks[place[0]]
        question = next(q for q in task.questions if q.question_id == place[1])
        return evidence_of(engines[condition], task, question, before, after)

    def judge(stated: Condition, now: Condition, place: Place, answer: Answer) -> tuple[bool, float | Evidence | None]:
        tolerance, current = tolerance_of({"dtype": stated.dtype}, {"dtype": now.dtype}), answers[now][place]
        before, after = (rounded_answer(each.text, each.numbers) for each in (answer, current))
        if not isinstance(before, str):
            return probabilities_agree(before, after, tolerance), abs(before - after)
        if before == after:
            return True, None
        said = evidence(now, place, before, after)
        return texts_agree(said, tolerance), said

    return judge


def in_stated_dtype(stated: Condition, now: Condition) -> Condition:
    """Return the condition in which an audit asks what differs once more."""
    return replace(now, dtype=stated.dtype)


def compared(judge: Judge, answers: Mapping[Place, Answer], stated: Condition, now: Condition) -> Pair:
    """Return how the answers of one condition agree with those of another."""
    pair = Pair(stated, now, {}, [], [])
    for place, answer in answers.items():
        pair.agree[place], difference = judge(stated, now, place, answer)
        if isinstance(difference, Evidence):
            pair.evidence.append(difference)
        elif difference is not None:
            pair.probability.append(difference)
    return pair


def forgeries(
    answers: Mapping[Place, Answer], random: np.random.Generator
) -> Iterator[tuple[str, Callable[[], dict[Place, Answer]]]]:
    """Yield name and maker of each forgery of a run's answers."""
    places, images = list(answers), sorted({image for image, _ in answers})
    texts = sorted({answer.text or "" for answer in answers.values() if answer.numbers is None})
    texts = random.permutation(texts)[:3].tolist() if texts else []
    partners = random.permutation(images)[: len(images) // 2 * 2].reshape(-1, 2)

    def altered(answer: Answer) -> Answer:
        if answer.numbers is not None:
            p = answer.numbers["p_yes_norm"]
            return replace(answer, numbers={**answer.numbers, "p_yes_norm": p + 0.2 if p < 0.5 else p - 0.2})
        others = [text for text in texts if text != answer.text]
        return replace(answer, text=random.choice(others) if others else "A kind person who helps.")

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
        out = {}
        for one, other in random.choice(partners, max(1, len(images) // 40), replace=False):
            for image, question in places:
                if image == one:
                    mine, theirs = answers[one, question], answers[other, question]
                    if rounded_answer(mine.text, mine.numbers) != rounded_answer(theirs.text, theirs.numbers):
                        out[one, question], out[other, question] = theirs, mine
        return out

    for share in (0.01, 0.02, 0.05):
        yield f"{share:.0%} altered", lambda share=share: some(share)
    yield "one group softened", softened
    yield "swapped between images", swapped


def tail(differences: np.ndarray, tolerance: float, k: int) -> float:
    """Return the probability that one of k honest differences is above the tolerance (generalised Pareto tail)."""
    threshold = np.quantile(differences, 0.9)
    excess = differences[differences > threshold] - threshold
    if len(excess) < 20:
        return math.nan
    shape, _, scale = genpareto.fit(excess, floc=0)
    beyond = len(excess) / len(differences) * genpareto.sf(tolerance - threshold, shape, 0, scale)
    return float(-np.expm1(k * np.log1p(-beyond)))


def measure(
    name: str, model: Path, tasks: list[ImageTask], args: argparse.Namespace, random: np.random.Generator
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of honest pairs, of forgeries, and of single altered answers, of one model."""
    if name == "tiny":  # its random texts are bytes without words
        tasks = [replace(task, questions=tuple(q for q in task.questions if q.kind == "yes_no")) for task in tasks]
    by_image = {task.image_id: task for task in tasks}
    greedy = Decoding(max_new_tokens=args.tokens)
    engines = {condition: engine_of(model, condition, greedy) for condition in CONDITIONS}
    answers = {}
    for condition, engine in engines.items():
        answers[condition] = answers_to(engine, [(task, question) for task in tasks for question in task.questions])
        print(name, condition, len(answers[condition]), flush=True)
    judge = judge_of(answers, by_image, engines)
    pairs = {
        (stated, now): compared(judge, answers[stated], stated, now)
        for stated, now in itertools.product(CONDITIONS, CONDITIONS)
    }
    rows = []
    for dtypes in (("float32",), ("bfloat16",), ("bfloat16", "float32")):
        group = [
            pair for (stated, now), pair in pairs.items() if stated != now and {stated.dtype, now.dtype} == set(dtypes)
        ]
        probabilities = np.array([value for pair in group for value in pair.probability])
        evidence = [each for pair in group for each in pair.evidence]
        verdicts = [
            {
                place: agrees or pairs[pair.stated, in_stated_dtype(pair.stated, pair.now)].agree[place]
                for place, agrees in pair.agree.items()
            }
            for pair in group
        ]
        accused = 0
        for number in range(args.audits):
            agree = list(verdicts[number % len(group)].values())
            accused += not all(agree[index] for index in draw("00" * 32, str(number), len(agree), args.k))
        tolerance = tolerance_of(*({"dtype": dtype} for dtype in dtypes))
        rows.append(
            {
                "model": name,
                "dtypes": " / ".join(dtypes),
                "pairs": sum(len(pair.agree) for pair in group),
                "texts_that_differ": len(evidence),
                "largest_p": float(probabilities.max()),
                "largest_tie": max((e.tie for e in evidence), default=0.0),
                "largest_rest": max((e.rest for e in evidence), default=0.0),
                "disagree": sum(not value for pair in group for value in pair.agree.values()),
                "in_stated_dtype": sum(not value for each in verdicts for value in each.values()),
                "audits": args.audits,
                "accused": accused,
                "tail": tail(probabilities, tolerance.probability, args.k) if len(dtypes) == 1 else math.nan,
            }
        )
        print(rows[-1], flush=True)
    forged_rows = forged(name, answers, pairs, judge, args, random)
    if name != "tiny":
        forged_rows += sampled(model, tasks, args, random)
    return rows, forged_rows, powers(name, answers, judge, tasks, random)


def forged(
    name: str, answers: Any, pairs: Any, judge: Judge, args: argparse.Namespace, random: np.random.Generator
) -> list[dict[str, Any]]:
    """Return, per forgery, how often an audit in another condition finds it: one audit of each forged run."""
    rows = []
    stated = CONDITIONS[0]
    images = list(dict.fromkeys(image for image, _ in answers[stated]))[: args.forged_images]
    own = {place: answer for place, answer in answers[stated].items() if place[0] in images}
    for now in (CONDITIONS[1], CONDITIONS[3]):  # float32 and bfloat16, with neither batch nor sharing alike
        second = in_stated_dtype(stated, now)
        for kind, make in forgeries(own, random):
            found = expected = n_altered = missed = n_drawn = 0.0
            places = list(own)
            for number in range(args.audits):
                changed = make()
                drawn = [places[index] for index in draw("11" * 32, f"{kind}{number}", len(places), args.k)]
                differs = {
                    place: not any(
                        judge(stated, condition, place, changed[place])[0]
                        if place in changed
                        else pairs[stated, condition].agree[place]
                        for condition in (now, second)
                    )
                    for place in drawn
                }
                found += any(differs.values())
                n_drawn += len(changed.keys() & differs.keys())
                missed += sum(not differs[place] for place in changed.keys() & differs.keys())
                n_altered += len(changed) / len(places) / args.audits
                expected += 1 - float(hypergeom.pmf(0, len(places), len(changed), len(drawn)))
            rows.append(
                {
                    "model": name,
                    "stated": str(stated),
                    "audited": str(now),
                    "forgery": kind,
                    "altered": n_altered,
                    "audits": args.audits,
                    "found": found / args.audits,
                    "expected": expected / args.audits,
                    "altered_that_agree": missed / n_drawn,
                }
            )
            print(rows[-1], flush=True)
    return rows


def powers(
    name: str, answers: Any, judge: Judge, tasks: list[ImageTask], random: np.random.Generator
) -> list[dict[str, Any]]:
    """Return how often an audit finds an unequal answer in place of the stated one: exchanged, or altered."""
    images, rows = [task.image_id for task in tasks], []
    for stated, now in ((0, 1), (0, 3), (2, 3)):
        conditions = {CONDITIONS[now], in_stated_dtype(CONDITIONS[stated], CONDITIONS[now])}
        own = answers[CONDITIONS[stated]]
        differ: dict[tuple[str, str], list[bool]] = {}
        for image, question in itertools.product(images, tasks[0].questions):
            mine, others = own[image, question.question_id], [each for each in images if each != image]
            changed = [("exchanged", own[str(other), question.question_id]) for other in random.choice(others, 2)]
            if mine.numbers is not None:
                p = mine.numbers["p_yes_norm"]
                moved = {**mine.numbers, "p_yes_norm": p + 0.2 if p < 0.5 else p - 0.2}
                changed.append(("altered", replace(mine, numbers=moved)))
            else:
                written = sorted({each.text or "" for each in own.values() if each.numbers is None})
                changed.append(("altered", replace(mine, text=str(random.choice(written)))))
            before = rounded_answer(mine.text, mine.numbers)
            for kind, answer in changed:
                if rounded_answer(answer.text, answer.numbers) != before:
                    place = image, question.question_id
                    agrees = any(judge(CONDITIONS[stated], each, place, answer)[0] for each in conditions)
                    differ.setdefault((kind, question.kind), []).append(not agrees)
        rows += [
            {
                "model": name,
                "stated": CONDITIONS[stated].dtype,
                "audited": CONDITIONS[now].dtype,
                "forgery": kind,
                "answers": of_kind,
                "n": len(found),
                "found": float(np.mean(found)),
            }
            for (kind, of_kind), found in sorted(differ.items())
        ]
    return rows


def sampled(
    model: Path, tasks: list[ImageTask], args: argparse.Namespace, random: np.random.Generator
) -> list[dict[str, Any]]:
    """Return, for honest and forged runs of answers sampled at temperature 1, how often an audit says they differ."""
    engine = engine_of(model, CONDITIONS[0], Decoding(max_new_tokens=args.tokens, temperature=1.0))
    places = [(task.image_id, question) for task in tasks for question in task.questions if question.kind == "text"]
    by_image = {task.image_id: task for task in tasks}
    given = answers_to(
        engine,
        [
            (by_image[image], replace(question, question_id=f"{question.question_id}/{number}", sample=number))
            for image, question in places
            for number in range(REPEATS + 1)
        ],
    )
    texts = {
        (image, question.question_id): [given[image, f"{question.question_id}/{n}"] for n in range(REPEATS + 1)]
        for image, question in places
    }
    odd = cache(lambda stated, again: is_odd_one_out(stated, again, True, TOLERANCES["float32"]))

    def audit(number: int, kind: str, make: Callable[[], dict[Place, Answer]]) -> tuple[bool, float, list[bool]]:
        order = random.permutation(REPEATS + 1)  # which of the equally distributed answers is the stated one
        changed, names = make(), list(texts)
        verdicts, of_altered = [], []
        for index in draw("22" * 32, f"{kind}{number}", len(names), args.k):
            stated, *again = [texts[names[index]][i].text or "" for i in order]
            forged_answer = changed.get(names[index])
            verdicts.append(odd(stated if forged_answer is None else forged_answer.text or "", tuple(again)))
            if forged_answer is not None:
                of_altered.append(verdicts[-1] is True)
        ones = OddOnes(len(verdicts) - verdicts.count(None), verdicts.count(True))
        return ones.p_value < FALSE_ALARMS, len(changed) / len(names), of_altered

    rows = []
    kinds = [("none", dict[Place, Answer]), *forgeries({place: each[0] for place, each in texts.items()}, random)]
    for kind, make in kinds:
        outcomes = [audit(number, kind, make) for number in range(args.audits)]
        rows.append(
            {
                "model": "peeps_vlm",
                "stated": "sampled",
                "audited": "sampled",
                "forgery": kind,
                "altered": float(np.mean([share for _, share, _ in outcomes])),
                "audits": args.audits,
                "found": float(np.mean([differs for differs, *_ in outcomes])),
                "expected": math.nan,
                "altered_that_agree": 1 - float(np.mean([each for *_, odds in outcomes for each in odds] or math.nan)),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=80)
    parser.add_argument("--forged-images", type=int, default=16, help="the first images, whose answers are forged")
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--audits", type=int, default=1000)
    parser.add_argument("--k", type=int, default=50)
    parser.add_argument("--models", default="tiny,peeps_vlm")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--csv", type=Path, help="of honest pairs; beside it NAME_forged.csv and NAME_power.csv")
    args = parser.parse_args()
    random, honest, forged_rows, power_rows = np.random.default_rng(1), [], [], []
    with tempfile.TemporaryDirectory() as scratch:
        tasks = pictures(Path(scratch), args.images)
        models = {
            "tiny": save_tiny_llava(Path(scratch) / "tiny", added=("Yes", "No")),
            "peeps_vlm": Path("fp2/models/peeps_vlm").resolve(),
        }
        for name in args.models.split(","):
            rows, of_forgeries, of_answers = measure(name, models[name], tasks, args, random)
            honest += rows
            forged_rows += of_forgeries
            power_rows += of_answers
    tolerances = {name: vars(value) for name, value in TOLERANCES.items()}
    result = {
        "honest": honest,
        "forged": forged_rows,
        "power": power_rows,
        "tolerances": tolerances,
        "decimals": DECIMALS,
    }
    print(json.dumps(result, indent=1, default=float))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1, default=float) + "\n", encoding="utf-8")
    if args.csv:
        for end, rows in (("", honest), ("_forged", forged_rows), ("_power", power_rows)):
            path = args.csv.with_stem(args.csv.stem + end)
            with path.open("w", newline="", encoding="utf-8") as handle:
                writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(
                    {n: ("" if math.isnan(v) else f"{v:.4g}") if isinstance(v, float) else v for n, v in row.items()}
                    for row in rows
                )


if __name__ == "__main__":
    main()
