"""Asking in blocks: only what is missing is asked, after an interruption or a failure, or for a larger set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.ask import dense as block_asking
from fp2.ask.dense import BlocksAsked, ask_blocks
from fp2.ask.dense_answers import BlockTable, read_table, table_of, write_questions
from fp2.ask.loop import NOT_ASKED
from fp2.ask.plan import BlockPlan, plan_blocks
from fp2.cuts import Cut
from fp2.data.base import people_table
from fp2.data.stimuli import Stimulus
from fp2.errors import Fp2Error
from fp2.probes.traits import Trait
from fp2.store.dense import DenseStore, answered
from fp2.store.rows import ResponseStore
from fp2.tables import YES_NO_NUMBERS, Answer, ImageTask, Question

TRAITS = (Trait("kind", "positive", 2.5), Trait("cruel", "negative", -2.9), Trait("clever", "positive", None))
TEMPLATES = {"T1": "Is the person {}?", "T2": "Do they look {}?"}


def battery(traits: Iterable[Trait] = TRAITS, templates: Iterable[str] = tuple(TEMPLATES)) -> tuple[Question, ...]:
    return tuple(
        Question(f"{name}_{trait.word}", name, TEMPLATES[name].format(trait.word), "yes_no", name, trait.word)
        for name in templates
        for trait in traits
    )


def p_yes(image_id: str, text: str) -> float:
    """The number that the engine gives: it depends on picture and text alone."""
    return float(np.float32((hash_of(image_id + text) % 9973) / 9973))


def hash_of(text: str) -> int:
    return sum((place + 1) * ord(letter) * 7919 for place, letter in enumerate(text))


class Scripted:
    """An engine that gives `p_yes`; `fail` returns the reason of a failure, `before` may raise at a task."""

    def __init__(self, fail: Callable[[str, Question], str | None] = lambda image, question: None) -> None:
        self.fail, self.model_calls = fail, 0
        self.asked: list[tuple[str, str]] = []
        self.before: Callable[[ImageTask], None] = lambda task: None
        self.one_by_one = False
        self.value: Callable[[float], Any] = lambda p: p

    def identity(self) -> dict[str, Any]:
        return {"engine": "scripted"}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        return {"name": "yes_no/1"}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        return {}

    def runtime(self) -> dict[str, Any]:
        return {"device": "none"}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        for task in tasks:
            self.before(task)
            self.model_calls += 1
            answers = [self._one(task, question) for question in task.questions]
            yield from ([answer] for answer in answers) if self.one_by_one else [answers]

    def _one(self, task: ImageTask, question: Question) -> Answer:
        self.asked.append((task.image_id, question.text))
        if reason := self.fail(task.image_id, question):
            return Answer(task.image_id, question.question_id, None, reason)
        p = p_yes(task.image_id, question.text)
        numbers = dict.fromkeys(YES_NO_NUMBERS, p) | {"p_yes": self.value(p), "p_no_first_token": None}
        return Answer(task.image_id, question.question_id, "Yes", seconds=0.01, numbers=numbers)


def people(n: int) -> pd.DataFrame:
    return people_table(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "subject_id": [f"s{k // 2}" for k in range(n)],
            "image_path": [f"/pictures/i{k}.png" for k in range(n)],
            "is_primary": [True] * n,
            "n_people": [1] * n,
            "attr_gender": [["f"] if k % 4 < 2 else ["m"] for k in range(n)],
        }
    )


def planned(
    engine: Scripted, n: int = 6, questions: tuple[Question, ...] = battery(), bad: tuple[int, ...] = (),
    same: tuple[int, ...] = (),
) -> BlockPlan:  # fmt: skip
    shown = [
        Stimulus(
            f"i{k}", f"s{k // 2}", Path(f"/pictures/i{k}.png"), "same" if k in same else f"{k:064d}",
            error="unreadable" if k in bad else None,
        )
        for k in range(n)
    ]  # fmt: skip
    return plan_blocks(people(n), questions, engine, shown)


@pytest.fixture
def store(tmp_path: Path) -> DenseStore:
    opened = ResponseStore(tmp_path / "s.sqlite")
    return DenseStore(opened.connection, opened.path)


def asked(plan: BlockPlan, engine: Scripted, store: DenseStore, attempts: int = 1, budget: float = 0) -> BlocksAsked:
    return ask_blocks(plan, engine, store, attempts=attempts, error_budget=budget)


def table(plan: BlockPlan, found: BlocksAsked, n: int = 6) -> BlockTable:
    return table_of(plan, found, people(n), "original")


def test_every_number_is_where_it_belongs_and_is_not_asked_for_again(store: DenseStore) -> None:
    engine = Scripted()
    plan = planned(engine)
    made = table(plan, asked(plan, engine, store))
    assert (made.traits, made.templates) == (("kind", "cruel", "clever"), ("T1", "T2"))
    for i in range(6):
        for t, trait in enumerate(made.traits):
            for m, template in enumerate(made.templates):
                want = np.float32(p_yes(f"i{i}", TEMPLATES[template].format(trait)))
                assert made.columns["p_yes"][i, t, m] == want
    assert np.isnan(made.columns["p_no_first_token"]).all()
    assert made.counts(6) == {
        "planned": 36, "answered": 36, "refused": 0, "failed": 0, "cached": 0, "model_calls": 6,
    }  # fmt: skip
    again = Scripted()
    second = table(plan, asked(planned(again), again, store))
    assert again.asked == []
    assert second.counts(0)["cached"] == 36
    np.testing.assert_array_equal(second.columns["p_yes"], made.columns["p_yes"])


@pytest.mark.parametrize("one_by_one", [False, True])
def test_after_an_interruption_only_the_rest_is_asked(store: DenseStore, one_by_one: bool) -> None:
    engine = Scripted()
    engine.one_by_one = one_by_one

    def stop(task: ImageTask) -> None:
        if task.image_id == "i3":
            raise KeyboardInterrupt

    engine.before = stop
    plan = planned(engine)
    found = asked(plan, engine, store)
    assert found.interrupted
    assert not found.complete
    made = table(plan, found)
    assert made.counts(0)["answered"] == 18
    assert made.reasons == (NOT_ASKED,)
    again = Scripted()
    rest = asked(planned(again), again, store)
    assert rest.complete
    assert again.model_calls == 3
    assert {image for image, _ in again.asked} == {"i3", "i4", "i5"}
    assert table(plan, rest).counts(0)["cached"] == 18


def test_what_is_half_done_is_kept_when_the_engine_breaks(store: DenseStore) -> None:
    engine = Scripted()
    engine.one_by_one = True

    def fail(image: str, question: Question) -> str | None:
        if question.question_id == "T2_kind":
            raise Fp2Error("the server is gone")
        return None

    engine.fail = fail
    engine.answer = lambda tasks: ([engine._one(t, q)] for t in tasks for q in t.questions)  # type: ignore[method-assign]
    with pytest.raises(Fp2Error, match="gone"):
        asked(planned(engine), engine, store)
    again = Scripted()
    asked(planned(again), again, store)
    assert len(again.asked) == 36 - 3
    assert again.asked[:3] == [("i0", q.text) for q in battery()[3:]]


def test_half_a_picture_is_written_while_its_other_half_takes_long(
    store: DenseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_asking, "_FLUSH_SECONDS", 0.0)
    engine = Scripted()
    engine.one_by_one = True
    plan = planned(engine, n=1)
    seen: list[int] = []

    def tick(done: int, failed: int) -> None:
        seen.append(store.connection.execute("SELECT sum(answered) FROM blocks").fetchone()[0])

    ask_blocks(plan, engine, store, attempts=1, error_budget=0, tick=tick)
    assert seen == [1, 2, 3, 4, 5, 6]


def test_a_single_missing_question_is_asked_alone(store: DenseStore) -> None:
    engine = Scripted(lambda image, question: "no luck" if (image, question.question_id) == ("i2", "T2_kind") else None)
    plan = planned(engine)
    found = asked(plan, engine, store, budget=1)
    assert found.complete
    made = table(plan, found)
    assert (made.errors >= 0).sum() == 1
    assert made.errors[2, 0, 1] == 0
    assert made.reasons == ("no luck",)
    again = Scripted()
    done = asked(planned(again), again, store)
    assert again.asked == [("i2", "Do they look kind?")]
    assert table(plan, done).counts(0)["answered"] == 36
    assert store.failures(plan.contexts, plan.question_set) == {}


def test_a_failure_is_tried_as_often_as_allowed_and_its_tries_are_counted(store: DenseStore) -> None:
    left = {"i1": 2}

    def fail(image: str, question: Question) -> str | None:
        if question.question_id != "T1_cruel" or not left.get(image):
            return None
        left[image] -= 1
        return "busy"

    engine = Scripted(fail)
    plan = planned(engine)
    assert table(plan, asked(plan, engine, store, attempts=2, budget=1)).counts(0)["failed"] == 1
    assert store.failures(plan.contexts, plan.question_set) == {(plan.contexts[1], 1): ("busy", 2)}
    assert engine.asked.count(("i1", "Is the person cruel?")) == 2
    assert asked(plan, engine, store, attempts=2).complete
    assert engine.asked.count(("i1", "Is the person cruel?")) == 3
    assert len(engine.asked) == 36 + 2


def test_two_sets_share_their_questions_both_ways(store: DenseStore) -> None:
    small = Scripted()
    asked(planned(small, questions=battery(TRAITS[:2])), small, store)
    assert len(small.asked) == 24
    large = Scripted()
    plan = planned(large)
    found = asked(plan, large, store)
    assert {text for _, text in large.asked} == {"Is the person clever?", "Do they look clever?"}
    np.testing.assert_array_equal(table(plan, found).columns["p_yes"], table(plan, fresh(plan)).columns["p_yes"])
    turned = Scripted()
    other = planned(turned, questions=battery(TRAITS[::-1], ("T2",)))
    found = asked(other, turned, store)
    assert turned.asked == []
    assert table(other, found).traits == ("clever", "cruel", "kind")
    assert other.response_set != plan.response_set


def fresh(plan: BlockPlan) -> BlocksAsked:
    """What the engine gives, past the store."""
    numbers = np.array(
        [[[p_yes(task.image_id, q.text) for q in plan.asked]] * len(YES_NO_NUMBERS) for task in plan.tasks], np.float32
    )
    return BlocksAsked(numbers, {}, np.zeros(numbers.shape[::2], dtype=bool), 0)


def test_the_same_question_or_picture_twice_is_asked_once(store: DenseStore) -> None:
    engine = Scripted()
    twice = (*battery(TRAITS[:1]), Question("T3_kind", "T3", "Is the person kind?", "yes_no", "T3", "kind"))
    plan = planned(engine, questions=twice, same=(1, 4))
    found = asked(plan, engine, store)
    assert len(engine.asked) == 5 * 2
    assert found.numbers.shape == (5, len(YES_NO_NUMBERS), 2)
    made = table(plan, found)
    assert made.counts(0)["planned"] == 18
    contexts = plan.contexts_by_image()
    assert contexts["i1"] == contexts["i4"] != contexts["i0"]
    np.testing.assert_array_equal(made.columns["p_yes"][1], made.columns["p_yes"][4])
    np.testing.assert_array_equal(made.columns["p_yes"][:, :, 0], made.columns["p_yes"][:, :, 2])


def test_pictures_that_cannot_be_shown_are_rows_with_a_reason(store: DenseStore) -> None:
    engine = Scripted()
    plan = planned(engine, bad=(2,))
    found = asked(plan, engine, store, budget=0.2)
    assert found.complete
    made = table(plan, found)
    assert made.counts(0)["failed"] == 6
    assert made.reasons == ("unreadable",)
    assert np.isnan(made.columns["p_yes"][2]).all()
    groups = {row["group"]: row for row in made.counts_by_group(people(6), [Cut("gender", ("gender",))])}
    assert groups["f"] == {"cut": "gender", "group": "f", "planned": 24, "answered": 24, "refused": 0, "failed": 0}
    assert groups["m"] == {"cut": "gender", "group": "m", "planned": 12, "answered": 6, "refused": 0, "failed": 6}
    assert asked(plan, Scripted(), store, budget=0.1).over_budget
    broken = Scripted()
    assert "more than the run allows" in str(asked(planned(broken, bad=(0, 1, 2, 3)), broken, store).over_budget)
    assert not broken.asked


def test_a_run_that_fails_too_often_ends_early_and_keeps_what_it_has(store: DenseStore) -> None:
    engine = Scripted(lambda image, question: "down" if image != "i0" else None)
    plan = planned(engine, n=60)
    found = asked(plan, engine, store, attempts=3, budget=0.05)
    assert "more than the run allows; the first: down" in str(found.over_budget)
    assert 100 <= len(engine.asked) < 360
    assert answered(found.numbers).sum() == 6
    again = Scripted()
    asked(planned(again, n=60), again, store)
    assert len(again.asked) == 360 - 6


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.5"])
def test_unusable_numbers_are_failures_of_that_question_alone(store: DenseStore, value: Any) -> None:
    engine = Scripted()
    first = p_yes("i0", "Is the person kind?")
    engine.value = lambda p: value if p == first else p
    plan = planned(engine)
    made = table(plan, asked(plan, engine, store, budget=1))
    assert made.counts(0)["failed"] == 1
    assert "unusable numbers: p_yes is" in made.reasons[0]


def test_the_response_set_follows_what_is_planned_and_no_order() -> None:
    engine = Scripted()
    base = planned(engine).response_set
    assert planned(engine, questions=battery()[::-1]).response_set == base
    others = [planned(engine, n=5), planned(engine, questions=battery()[1:]), planned(engine, bad=(0,))]
    assert len({base, *(plan.response_set for plan in others)}) == 4


def test_other_questions_are_refused() -> None:
    with pytest.raises(Fp2Error, match="not answered by yes or no"):
        planned(Scripted(), questions=(Question("a", "a", "What?"),))
    engine = Scripted()
    plan = planned(engine, questions=battery()[:-1])
    with pytest.raises(Fp2Error, match="no table of traits and templates"):
        table_of(plan, fresh(plan), people(6), "original")


@pytest.mark.parametrize("per_shard", [1, 12, 13, 10_000])
def test_shards_give_back_the_table(store: DenseStore, tmp_path: Path, per_shard: int) -> None:
    engine = Scripted(lambda image, question: f"no {image}" if question.trait == "cruel" and image > "i3" else None)
    plan = planned(engine, bad=(1,))
    made = table(plan, asked(plan, engine, store, budget=1)).keyed(b"s" * 32)
    made.write(tmp_path, per_shard)
    write_questions(tmp_path, plan, TRAITS)
    shards = sorted((tmp_path / "responses").iterdir())
    assert len(shards) == {1: 6, 12: 3, 13: 3, 10_000: 1}[per_shard]
    again = read_table(tmp_path)
    for name in ("image_ids", "subject_ids", "contexts", "cached"):
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name))
    assert (again.traits, again.templates, again.variant) == (made.traits, made.templates, "original")
    for name in YES_NO_NUMBERS:
        assert again.columns[name].tobytes() == made.columns[name].tobytes()
    told = [["" if code < 0 else one.reasons[code] for code in one.errors.ravel().tolist()] for one in (made, again)]
    assert told[0] == told[1]
    flat = pd.read_parquet(tmp_path / "responses")
    assert len(flat) == 36
    row = flat[(flat["image_id"] == made.image_ids[4]) & (flat["trait"] == "cruel") & (flat["template"] == "T2")]
    assert row["error"].tolist() == ["no i4"]
    assert not set(flat["image_id"]) & {f"i{k}" for k in range(6)}
    half = made.where(np.arange(6) < 3)
    half.write(tmp_path, per_shard)
    assert read_table(tmp_path).image_ids.tolist() == made.image_ids[:3].tolist()


def test_a_shard_with_rows_missing_is_refused(store: DenseStore, tmp_path: Path) -> None:
    engine = Scripted()
    plan = planned(engine)
    table(plan, asked(plan, engine, store)).write(tmp_path)
    (shard,) = (tmp_path / "responses").iterdir()
    pd.read_parquet(shard).iloc[:-1].to_parquet(shard, index=False)
    with pytest.raises(Fp2Error, match="lacks rows"):
        read_table(tmp_path)
