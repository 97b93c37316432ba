"""Answers that are asked again, of the auditor's own model and images, and compared with the stated ones."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    Answer,
    Asks,
    AsksServers,
    Config,
    Engine,
    Fp2Error,
    ImageTask,
    Progress,
    Question,
    ResponseStore,
    describe_questions,
    load_inputs,
    plan_answers,
    plural,
)
from fp2.methods.audit.agreement import (
    FALSE_ALARMS,
    FOUND_SAMPLED,
    REPEATS,
    TOLERANCES,
    Evidence,
    OddOnes,
    Tolerance,
    first_difference,
    found_if_exchanged,
    is_odd_one_out,
    probabilities_agree,
    texts_agree,
    tolerance_of,
)
from fp2.methods.audit.leaves import rounded_answer

if TYPE_CHECKING:
    from fp2.extension import Inputs, Plan
    from fp2.methods.audit.openings import Opened

Stimulus = tuple[ImageTask, Question]


@dataclass(frozen=True)
class Comparison:
    """What became of the opened answers: leaf -> why it differs, and leaf -> why it could not be asked.

    `odd` counts those that are judged together; `differ` then has the stated ones that are the odd ones out. `power` is
    the probability that an altered one is in `differ`, 1 where it is not known.
    """

    differ: Mapping[int, str]
    not_asked: Mapping[int, str]
    power: float
    odd: OddOnes | None = None

    def differences(self) -> list[str]:
        """Return a line for each answer that differs; one for answers that are judged together, if they differ."""
        if self.odd is None:
            return [f"answer {index} differs: {reason}" for index, reason in self.differ.items()]
        return [str(self.odd)] if self.odd.p_value < FALSE_ALARMS else []


def ask_again(config: Config, opened: Sequence[Opened], stated: Mapping[str, Any], progress: Progress) -> Comparison:
    """Ask the model of a config for opened answers, and compare.

    Where the config has another dtype than is stated, the answers that differ are asked once more in the stated one.

    Parameters
    ----------
    opened : sequence of Opened
        Proven ones.
    stated : mapping
        The predicate of the passport.

    Raises
    ------
    Fp2Error
        If the settings ask other questions than the passport states.
    """
    with (
        tempfile.TemporaryDirectory(prefix="fp2-audit-") as scratch,
        ResponseStore(Path(scratch) / "responses.sqlite") as store,
    ):
        protocol, inputs = load_inputs(config, store, progress)
        engine, battery = inputs.engine, inputs.battery
        if not isinstance(protocol, Asks) or engine is None or battery is None:
            raise Fp2Error("a task asks no model", where=f"task={config.task.name}")
        if json.loads(json.dumps(describe_questions(battery))) != stated["protocol"]["probes"]:
            raise Fp2Error("the settings ask other questions than the passport states", where=f"probe={battery.name}")
        places = _places(plan_answers(protocol, inputs), inputs)
        names = {answer.index: (answer.pixels, answer.leaf.variant, answer.leaf.question_id) for answer in opened}
        not_asked = {
            index: "its image is not in the data set" if name[0] else "its image was not named"
            for index, name in names.items()
            if name not in places
        }
        stimuli = {index: places[name] for index, name in names.items() if name in places}
        together = battery.decoding.sampled or isinstance(engine, AsksServers)
        now = answers_to(engine, [each for stimulus in stimuli.values() for each in _repeated(*stimulus, together)])
        tolerance = tolerance_of(
            stated["model"], {"dtype": config.model.dtype, "quantisation": config.model.quantisation}
        )
        differ: dict[int, str] = {}
        is_odd: list[bool | None] = []
        for answer in opened:
            if answer.index not in stimuli:
                continue
            task, question = stimuli[answer.index]
            again = [now.get((task.image_id, each.question_id)) for _, each in _repeated(task, question, together)]
            given = [each for each in again if each is not None and each.error is None]
            if len(given) < len(again):
                failed = next((each.error for each in again if each is not None and each.error), "nothing")
                not_asked[answer.index] = f"the model gave no answer: {failed}"
            elif together:
                values = [rounded_answer(each.text, each.numbers) for each in given]
                is_odd.append(is_odd_one_out(answer.leaf.answer, values, battery.decoding.sampled, tolerance))
                if is_odd[-1]:
                    differ[answer.index] = "it is the odd one out"
            elif reason := disagreement(answer.leaf.answer, given[0], engine, task, question, tolerance):
                differ[answer.index] = reason
    if together:
        odd = OddOnes(len(is_odd) - is_odd.count(None), is_odd.count(True))
        return Comparison(differ, not_asked, FOUND_SAMPLED if battery.decoding.sampled else 1.0, odd)
    power = min((found_if_exchanged(answer.leaf.answer, tolerance) for answer in opened), default=1.0)
    if differ and (dtype := stated["model"].get("dtype")) not in (None, config.model.dtype):
        progress.note(f"{plural(len(differ), 'answer')} differ in {config.model.dtype}: asked again in {dtype}")
        those = [answer for answer in opened if answer.index in differ]
        return replace(
            ask_again(replace(config, model=replace(config.model, dtype=dtype)), those, stated, progress),
            not_asked=not_asked,
            power=power,
        )
    return Comparison(differ, not_asked, power)


def _repeated(task: ImageTask, question: Question, together: bool) -> list[Stimulus]:
    """Return what is asked about a drawn answer: the question, or `REPEATS` further samples of it."""
    if not together:
        return [(task, question)]
    first = _FIRST_SAMPLE + REPEATS * question.sample
    return [
        (task, replace(question, question_id=f"{question.question_id} audit {number}", sample=first + number))
        for number in range(REPEATS)
    ]


_FIRST_SAMPLE = 1000
"""Samples of a run have lower numbers (`Decoding.samples`), and so other seeds."""


def _places(plan: Plan, inputs: Inputs) -> dict[tuple[str, str, str], Stimulus]:
    """Return (pixels of the subject's image, variant, question) -> what shows it.

    Raises
    ------
    Fp2Error
        If several items share an image, which the pixels cannot tell apart.
    """
    files = dict(zip(inputs.people["image_id"], inputs.people["image_path"], strict=True))
    places: dict[tuple[str, str, str], Stimulus] = {}
    for row in plan.rows:
        if row.task < 0:
            continue
        pixels = inputs.pixels[Path(files[row.image_id])].sha256 or ""
        for question in plan.questions_of(row.task):
            name = (pixels, row.variant, question.question_id)
            if name in places and places[name][1].text != question.text:
                raise Fp2Error("items that share an image cannot be asked again", where=question.question_id)
            places.setdefault(name, (plan.tasks[row.task], question))
    return places


def answers_to(engine: Engine, stimuli: Iterable[Stimulus]) -> dict[tuple[str, str], Answer]:
    """Return (image, question) -> the answer of an engine; the questions about one image are asked together."""
    tasks: dict[str, ImageTask] = {}
    for task, question in stimuli:
        before = tasks.get(task.image_id, replace(task, questions=()))
        if question not in before.questions:
            tasks[task.image_id] = replace(before, questions=(*before.questions, question))
    answers = chain.from_iterable(engine.answer(tasks.values()))
    return {(answer.image_id, answer.question_id): answer for answer in answers}


def disagreement(
    stated: Any, now: Answer, engine: Engine, task: ImageTask, question: Question, tolerance: Tolerance
) -> str | None:
    """Return why an answer does not agree with the stated one (`fp2.methods.audit.agreement`), or None."""
    given = rounded_answer(now.text, now.numbers)
    if given == stated:
        return None
    if not isinstance(stated, str) or not isinstance(given, str):
        if not isinstance(stated, str) and not isinstance(given, str) and probabilities_agree(stated, given, tolerance):
            return None
        return f"{stated} is stated, {given} is answered"
    if texts_agree(evidence_of(engine, task, question, stated, given), tolerance):
        return None
    return f"{stated[:60]!r} is stated, {given[:60]!r} is answered"


CERTAIN = Evidence(math.inf)
"""Of an engine that gives no likelihoods, or where there is no word to compare: its texts do not depend on rounding."""


def evidence_of(engine: Engine, task: ImageTask, question: Question, stated: str, now: str) -> Evidence:
    """Return what a model says of two texts."""
    try:
        if pair := first_difference(stated, now):
            first, second = _log_likelihoods(engine, task, question, pair)
            if (tie := abs(first - second)) > max(each.tie for each in TOLERANCES.values()):
                return Evidence(tie)
            before, after = _log_likelihoods(engine, task, question, (stated, now))
            return Evidence(tie, after / len(now.split()) - before / len(stated.split()))
        short, long = sorted((stated, now), key=len)
        next_word = long[: len(short) + 1] + long[len(short) + 1 :].partition(" ")[0]
        ended, went_on = (_log_likelihoods(engine, task, question, (text, "?"))[0] for text in (short, next_word))
        return Evidence(went_on - ended - math.log(0.5))
    except (Fp2Error, KeyError, ZeroDivisionError):
        return CERTAIN


def _log_likelihoods(
    engine: Engine, task: ImageTask, question: Question, texts: tuple[str, str]
) -> tuple[float, float]:
    """Return the natural logarithm of the likelihood of each of two texts as the answer."""
    choice = replace(question, question_id="audit", kind="choice", choices=texts)
    engine.method(choice)
    numbers = answers_to(engine, [(task, choice)])[task.image_id, "audit"].numbers or {}
    first, second = numbers["log_likelihood"]
    return first, second
