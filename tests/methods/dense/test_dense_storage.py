"""Dense storage: only what is missing is asked, after an interruption or a failure, or for a larger set of traits."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fp2.ask.loop import Asked, ask
from fp2.ask.plan import Plan, make_plan
from fp2.cuts import Cut
from fp2.data.base import people_table
from fp2.data.stimuli import Stimulus
from fp2.errors import Fp2Error
from fp2.methods.dense import storage as dense
from fp2.methods.dense.answers import DenseAnswers
from fp2.methods.dense.storage import DenseStorage, disk
from fp2.methods.dense.traits import Trait
from fp2.store.rows import ResponseStore
from fp2.tables import NOT_ASKED, YES_NO_NUMBERS, Answer, ImageTask, Question

TRAITS = (Trait("kind", "positive", 2.5), Trait("cruel", "negative", -2.9), Trait("clever", "positive", None))
TEMPLATES = {"T1": "Is the person {}?", "T2": "Do they look {}?"}


def battery(traits: Iterable[Trait] = TRAITS, templates: Iterable[str] = tuple(TEMPLATES)) -> tuple[Question, ...]:
    return tuple(
        Question(f"{name}_{trait.word}", name, TEMPLATES[name].format(trait.word), "yes_no", name, trait.word)
        for name in templates
        for trait in traits
    )


def p_yes(image_id: str, text: str) -> float:
    """The number that the engine gives: it depends on image and text alone."""
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
            "image_path": [f"/images/i{k}.png" for k in range(n)],
            "is_primary": [True] * n,
            "n_people": [1] * n,
            "attr_gender": [["f"] if k % 4 < 2 else ["m"] for k in range(n)],
        }
    )


def plan_of(
    n: int = 6, questions: tuple[Question, ...] = battery(), bad: tuple[int, ...] = (), same: tuple[int, ...] = ()
) -> Plan:
    shown = [
        Stimulus(
            f"i{k}",
            f"s{k // 2}",
            Path(f"/images/i{k}.png"),
            "same" if k in same else f"{k:064d}",
            error="unreadable" if k in bad else None,
        )
        for k in range(n)
    ]
    return make_plan([(people(n), "original", shown)], questions)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResponseStore]:
    with ResponseStore(tmp_path / "s.sqlite") as opened:
        yield opened


@dataclass
class Done:
    """How asking went, and the answers that there are."""

    asked: Asked
    storage: DenseStorage

    @property
    def answers(self) -> DenseAnswers:
        return self.storage.answers()

    def failures(self) -> dict[tuple[str, int], tuple[str, int]]:
        """Return what the store knows of failed answers: (context, place of the question) -> (reason, tries)."""
        return self.storage._store.failures(self.storage.contexts, self.storage.question_set)


def ask_all(engine: Scripted, store: ResponseStore, attempts: int = 1, budget: float = 0, **plan: Any) -> Done:
    storage = DenseStorage(plan_of(**plan), engine, TRAITS, store)
    return Done(ask(storage, engine, attempts=attempts, error_budget=budget), storage)


def test_every_number_is_where_it_belongs_and_is_not_asked_for_again(store: ResponseStore) -> None:
    first = ask_all(Scripted(), store)
    made = first.answers
    assert (made.words, made.templates) == (("kind", "cruel", "clever"), ("T1", "T2"))
    assert made.traits == TRAITS
    for i in range(6):
        for t, trait in enumerate(made.words):
            for m, template in enumerate(made.templates):
                want = np.float32(p_yes(f"i{i}", TEMPLATES[template].format(trait)))
                assert made.columns["p_yes"][i, t, m] == want
    assert np.isnan(made.columns["p_no_first_token"]).all()
    assert made.counts(first.asked.model_calls) == {
        "planned": 36,
        "answered": 36,
        "refused": 0,
        "failed": 0,
        "cached": 0,
        "model_calls": 6,
    }
    again = Scripted()
    second = ask_all(again, store).answers
    assert again.asked == []
    assert second.counts(0)["cached"] == 36
    np.testing.assert_array_equal(second.columns["p_yes"], made.columns["p_yes"])


def test_two_runs_at_once_ask_every_question_once(store: ResponseStore) -> None:
    """The second starts while the first is asking, takes what is free, waits for the rest and has every answer."""
    first, second = Scripted(), Scripted()
    found: list[Done] = []

    def other_run() -> None:
        with ResponseStore(store.path) as own:
            done = ask_all(second, own, n=40)
            found.append(done)
            assert done.answers.counts(done.asked.model_calls)["answered"] == 240

    thread = threading.Thread(target=other_run)

    def start_the_other(task: ImageTask) -> None:
        if len(first.asked) == 12:
            thread.start()
        time.sleep(0.02)

    first.before, second.before = start_the_other, lambda task: time.sleep(0.02)
    mine = ask_all(first, store, n=40)
    thread.join(timeout=60)
    assert len(first.asked) + len(second.asked) == len({*first.asked, *second.asked}) == 240
    assert second.asked  # they shared the work
    np.testing.assert_array_equal(mine.answers.columns["p_yes"], found[0].answers.columns["p_yes"])


def test_a_write_that_began_before_the_store_was_read_and_ended_later_is_seen(
    store: ResponseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run's transaction can wait: its time is then earlier than that of the last look into the store."""
    storage = DenseStorage(plan_of(n=2), Scripted(), TRAITS, store)
    storage.load()
    began = time.time() - 5
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: began)
        ask_all(Scripted(), store, n=1)
    first, second = (storage.lease_keys(task) for task in storage.open_tasks())
    with storage.leases() as leases:
        assert leases.claim([*first, *second]) == set(second)
    storage.refresh()
    assert [task.image_id for task in storage.open_tasks()] == ["i1"]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_after_an_interruption_only_the_rest_is_asked(store: ResponseStore, one_by_one: bool) -> None:
    engine = Scripted()
    engine.one_by_one = one_by_one

    def stop(task: ImageTask) -> None:
        if task.image_id == "i3":
            raise KeyboardInterrupt

    engine.before = stop
    done = ask_all(engine, store)
    assert done.asked.interrupted
    assert not done.asked.complete
    assert done.answers.counts(0)["answered"] == 18
    assert done.answers.counts(0)["failed"] == 0
    assert done.answers.counts(0)["not_asked"] == 18
    assert done.answers.reasons == (NOT_ASKED,)
    again = Scripted()
    rest = ask_all(again, store)
    assert rest.asked.complete
    assert rest.asked.model_calls == again.model_calls == 3
    assert {image for image, _ in again.asked} == {"i3", "i4", "i5"}
    assert rest.answers.counts(0)["cached"] == 18


def test_what_is_half_done_is_kept_when_the_engine_breaks(store: ResponseStore) -> None:
    engine = Scripted()
    engine.one_by_one = True

    def fail(image: str, question: Question) -> str | None:
        if question.question_id == "T2_kind":
            raise Fp2Error("the server is gone")
        return None

    engine.fail = fail
    engine.answer = lambda tasks: ([engine._one(t, q)] for t in tasks for q in t.questions)  # type: ignore[method-assign]
    with pytest.raises(Fp2Error, match="gone"):
        ask_all(engine, store)
    again = Scripted()
    ask_all(again, store)
    assert len(again.asked) == 36 - 3
    assert again.asked[:3] == [("i0", q.text) for q in battery()[3:]]


def test_half_an_image_is_written_while_its_other_half_takes_long(
    store: ResponseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "_FLUSH_SECONDS", 0.0)
    engine = Scripted()
    engine.one_by_one = True
    seen: list[int] = []

    def tick(done: int, failed: int) -> None:
        seen.append(store.connection.execute("SELECT sum(answered) FROM blocks").fetchone()[0])

    ask(DenseStorage(plan_of(n=1), engine, TRAITS, store), engine, attempts=1, error_budget=0, tick=tick)
    assert seen == [1, 2, 3, 4, 5, 6]


def test_a_single_missing_question_is_asked_alone(store: ResponseStore) -> None:
    engine = Scripted(lambda image, question: "no luck" if (image, question.question_id) == ("i2", "T2_kind") else None)
    first = ask_all(engine, store, budget=1)
    assert first.asked.complete
    made = first.answers
    assert (made.errors >= 0).sum() == 1
    assert made.errors[2, 0, 1] == 0
    assert made.reasons == ("no luck",)
    again = Scripted()
    second = ask_all(again, store)
    assert again.asked == [("i2", "Do they look kind?")]
    assert second.answers.counts(0)["answered"] == 36
    assert second.failures() == {}


def test_a_failure_is_tried_as_often_as_allowed_and_its_tries_are_counted(store: ResponseStore) -> None:
    left = {"i1": 2}

    def fail(image: str, question: Question) -> str | None:
        if question.question_id != "T1_cruel" or not left.get(image):
            return None
        left[image] -= 1
        return "busy"

    engine = Scripted(fail)
    done = ask_all(engine, store, attempts=2, budget=1)
    assert done.answers.counts(0)["failed"] == 1
    assert done.failures() == {(done.storage.contexts[1], 1): ("busy", 2)}
    assert engine.asked.count(("i1", "Is the person cruel?")) == 2
    assert ask_all(engine, store, attempts=2).asked.complete
    assert engine.asked.count(("i1", "Is the person cruel?")) == 3
    assert len(engine.asked) == 36 + 2


def test_two_batteries_share_their_questions_both_ways(store: ResponseStore, tmp_path: Path) -> None:
    small = Scripted()
    ask_all(small, store, questions=battery(TRAITS[:2]))
    assert len(small.asked) == 24
    large = Scripted()
    whole = ask_all(large, store)
    assert {text for _, text in large.asked} == {"Is the person clever?", "Do they look clever?"}
    with ResponseStore(tmp_path / "fresh.sqlite") as empty:
        fresh = ask_all(Scripted(), empty)
    np.testing.assert_array_equal(whole.answers.columns["p_yes"], fresh.answers.columns["p_yes"])
    turned = Scripted()
    other = ask_all(turned, store, questions=battery(TRAITS[::-1], ("T2",)))
    assert turned.asked == []
    assert other.answers.words == ("clever", "cruel", "kind")
    np.testing.assert_array_equal(other.answers.columns["p_yes"][:, :, 0], whole.answers.columns["p_yes"][:, ::-1, 1])
    assert other.storage.response_set != whole.storage.response_set


def test_the_same_question_or_image_twice_is_asked_once(store: ResponseStore) -> None:
    engine = Scripted()
    twice = (*battery(TRAITS[:1]), Question("T3_kind", "T3", "Is the person kind?", "yes_no", "T3", "kind"))
    done = ask_all(engine, store, questions=twice, same=(1, 4))
    assert len(engine.asked) == 5 * 2
    assert done.storage.numbers.shape == (5, len(YES_NO_NUMBERS), 2)
    made = done.answers
    assert made.counts(0)["planned"] == 18
    contexts = done.storage.keys_by_image()
    assert contexts["i1"] == contexts["i4"] != contexts["i0"]
    np.testing.assert_array_equal(made.columns["p_yes"][1], made.columns["p_yes"][4])
    np.testing.assert_array_equal(made.columns["p_yes"][:, :, 0], made.columns["p_yes"][:, :, 2])


def test_images_that_cannot_be_shown_are_rows_with_a_reason(store: ResponseStore) -> None:
    done = ask_all(Scripted(), store, budget=0.2, bad=(2,))
    assert done.asked.complete
    made = done.answers
    assert made.counts(0)["failed"] == 6
    assert made.reasons == ("unreadable",)
    assert np.isnan(made.columns["p_yes"][2]).all()
    groups = {row["group"]: row for row in made.counts_by_group(people(6), [Cut("gender", ("gender",))])}
    assert groups["f"] == {"cut": "gender", "group": "f", "planned": 24, "answered": 24, "refused": 0, "failed": 0}
    assert groups["m"] == {"cut": "gender", "group": "m", "planned": 12, "answered": 6, "refused": 0, "failed": 6}
    assert ask_all(Scripted(), store, budget=0.1, bad=(2,)).asked.over_budget
    engine = Scripted()
    assert "more than the run allows" in str(ask_all(engine, store, bad=(0, 1, 2, 3)).asked.over_budget)
    assert not engine.asked


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.5"])
def test_unusable_numbers_are_failures_of_that_question_alone(store: ResponseStore, value: Any) -> None:
    engine = Scripted()
    first = p_yes("i0", "Is the person kind?")
    engine.value = lambda p: value if p == first else p
    made = ask_all(engine, store, budget=1).answers
    assert made.counts(0)["failed"] == 1
    assert "unusable numbers: p_yes is" in made.reasons[0]


def test_the_response_set_follows_what_is_planned_and_no_order(store: ResponseStore) -> None:
    def set_of(**plan: Any) -> str:
        return DenseStorage(plan_of(**plan), Scripted(), TRAITS, store).response_set

    base = set_of()
    assert set_of(questions=battery()[::-1]) == base
    assert len({base, set_of(n=5), set_of(questions=battery(TRAITS[1:])), set_of(bad=(0,))}) == 4


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ((Question("a", "a", "What?"),), r"'a' is not answered by yes or no \(probe\)\. Set kind: yes_no"),
        (battery()[:-1], r"table of traits and templates: 'clever' in 'T2' \(probe\)\. Ask about every trait"),
        ((*battery(), battery()[0]), "a question names no trait, or the same twice"),
        ((Question("a", "a", "Is it?", "yes_no", "T1"),), "a question names no trait, or the same twice"),
    ],
)
def test_other_questions_are_refused(store: ResponseStore, questions: tuple[Question, ...], message: str) -> None:
    with pytest.raises(Fp2Error, match=message):
        DenseStorage(plan_of(questions=questions), Scripted(), TRAITS, store)


def test_what_is_left_to_ask_is_known_before_anything_is_asked(store: ResponseStore) -> None:
    ask_all(Scripted(lambda image, question: "down" if image == "i0" else None), store, budget=1, n=2)
    found = DenseStorage(plan_of(n=4), Scripted(), TRAITS, store).forecast()
    assert (found.stored, found.failed, found.left) == (6, 6, 18)
    assert found.seconds == pytest.approx(0.01)
    assert found.disk == disk(24, 18)


@pytest.mark.parametrize("per_shard", [1, 12, 13, 10_000])
def test_shards_give_back_the_answers(store: ResponseStore, tmp_path: Path, per_shard: int) -> None:
    engine = Scripted(lambda image, question: f"no {image}" if question.trait == "cruel" and image > "i3" else None)
    made = ask_all(engine, store, budget=1, bad=(1,)).answers.keyed(b"s" * 32)
    made.write(tmp_path, per_shard)
    shards = sorted((tmp_path / "responses").iterdir())
    assert len(shards) == {1: 6, 12: 3, 13: 3, 10_000: 1}[per_shard]
    again = DenseAnswers.read(tmp_path)
    for name in ("image_ids", "subject_ids", "contexts", "cached"):
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name))
    assert (again.traits, again.templates, again.variant) == (made.traits, made.templates, "original")
    for name in YES_NO_NUMBERS:
        assert again.columns[name].tobytes() == made.columns[name].tobytes()
    reasons = [["" if code < 0 else one.reasons[code] for code in one.errors.ravel().tolist()] for one in (made, again)]
    assert reasons[0] == reasons[1]
    flat = pd.read_parquet(tmp_path / "responses")
    assert len(flat) == 36
    row = flat[(flat["image_id"] == made.image_ids[4]) & (flat["trait"] == "cruel") & (flat["template"] == "T2")]
    assert row["error"].tolist() == ["no i4"]
    assert not set(flat["image_id"]) & {f"i{k}" for k in range(6)}
    half = made.where(np.arange(6) < 3)
    half.write(tmp_path, per_shard)
    assert DenseAnswers.read(tmp_path).image_ids.tolist() == made.image_ids[:3].tolist()


def test_a_shard_with_rows_missing_is_refused(store: ResponseStore, tmp_path: Path) -> None:
    ask_all(Scripted(), store).answers.write(tmp_path)
    (shard,) = (tmp_path / "responses").iterdir()
    pd.read_parquet(shard).iloc[:-1].to_parquet(shard, index=False)
    with pytest.raises(Fp2Error, match="lacks rows"):
        DenseAnswers.read(tmp_path)
