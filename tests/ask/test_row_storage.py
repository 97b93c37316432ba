"""Planning and asking with a row per answer: failures, budgets, repeated images, interruptions."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fp2.ask.loop import Asked, ask
from fp2.ask.plan import Plan, make_plan
from fp2.ask.rows import LONGEST_SUPPLIED, RowStorage
from fp2.config import VariantConfig
from fp2.data.base import people_table
from fp2.data.pixels import PixelDigest
from fp2.data.stimuli import make_stimuli
from fp2.errors import Fp2Error
from fp2.store.rows import ResponseStore
from fp2.tables import NOT_ASKED, Answer, Decoding, ImageTask, Question

ORIGINAL = VariantConfig()
QUESTIONS = (Question("a", "a", "What?"), Question("b", "b", "Who?"))


class Scripted:
    """An engine whose `say` gives the text or raises `ValueError` for an error row; one image a batch."""

    def __init__(self, say: Callable[[ImageTask, Question], str], name: str = "scripted", **identity: Any) -> None:
        self.say, self.name, self.model_calls = say, name, 0
        self.own = identity
        self.asked: list[tuple[str, str]] = []
        self.numbers: Callable[[ImageTask, Question], dict[str, Any]] | None = None

    def learn(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Stored answers are of no use to a script."""

    def identity(self) -> dict[str, Any]:
        return {"engine": self.name, **self.own}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        return {"name": f"{question.kind}/1", **({"blind": "no picture"} if blind else {})}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        return {}

    def runtime(self) -> dict[str, Any]:
        return {"device": "none"}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        for task in tasks:
            self.model_calls += 1
            yield [self._one(task, question) for question in task.questions]

    def _one(self, task: ImageTask, question: Question) -> Answer:
        self.asked.append((task.image_id, question.question_id))
        try:
            numbers = self.numbers(task, question) if self.numbers else None
            return Answer(task.image_id, question.question_id, self.say(task, question), numbers=numbers)
        except ValueError as error:
            return Answer(task.image_id, question.question_id, None, str(error))


def make_people(n: int) -> pd.DataFrame:
    return people_table(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "subject_id": [f"s{k}" for k in range(n)],
            "image_path": [f"/images/i{k}.png" for k in range(n)],
            "is_primary": [True] * n,
            "n_people": [1] * n,
            "attr_gender": [["f"] if k % 2 else ["m"] for k in range(n)],
        }
    )


def plan_of(
    n: int = 6,
    unreadable: tuple[int, ...] = (),
    same: tuple[int, ...] = (),
    questions: tuple[Question, ...] = QUESTIONS,
    variant: VariantConfig = ORIGINAL,
    **columns: Any,
) -> Plan:
    pixels = {
        Path(f"/images/i{k}.png"): PixelDigest(None, 0, 0, f"no image: /images/i{k}.png")
        if k in unreadable
        else PixelDigest("same" if k in same else f"{k:064d}", 8, 8)
        for k in range(n)
    }
    people = make_people(n).assign(**columns)
    shown = make_stimuli(people, variant, pixels, Path(os.environ["FP2_ROOT"]) / "shown")
    return make_plan([(people, variant.kind, shown)], questions)


@dataclass
class Done:
    """How asking went: its outcome, the answers that were in the store before it, and the answers table."""

    asked: Asked
    cached: int
    storage: RowStorage

    @property
    def table(self) -> pd.DataFrame:
        return self.storage.answers().frame


def ask_all(engine: Scripted, store: ResponseStore, *, attempts: int = 1, budget: float = 0, **plan: Any) -> Done:
    storage = RowStorage(plan_of(**plan), engine, Decoding(), store)
    cached: list[int] = []
    asked = ask(storage, engine, attempts=attempts, error_budget=budget, start=lambda planned, n: cached.append(n))
    return Done(asked, cached[0], storage)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResponseStore]:
    with ResponseStore(tmp_path / "store.sqlite") as opened:
        yield opened


def say_all(task: ImageTask, question: Question) -> str:
    return f"{question.question_id} about {task.pixel_sha256[-1]}"


def fail(task: ImageTask, question: Question) -> str:
    raise ValueError("out of order")


def test_every_answer_comes_once_and_is_not_asked_for_again(store: ResponseStore) -> None:
    first = ask_all(Scripted(say_all), store, attempts=2)
    assert (first.asked.complete, first.cached, first.asked.model_calls) == (True, 0, 6)
    second = ask_all(Scripted(fail), store, attempts=2)
    assert (second.asked.complete, second.cached, second.asked.model_calls) == (True, 12, 0)
    assert second.table["text"].tolist() == [say_all(task, q) for task in first.storage.plan.tasks for q in QUESTIONS]
    assert second.table["cached"].all()
    assert not first.table["cached"].any()
    assert first.storage.response_set == second.storage.response_set


def test_only_what_is_missing_is_asked(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    ask_all(engine, store, n=3)
    engine.asked.clear()
    assert ask_all(engine, store, n=5).cached == 6
    assert sorted({image for image, _ in engine.asked}) == ["i3", "i4"]


def test_two_models_never_mix(store: ResponseStore) -> None:
    engines = [Scripted(lambda t, q: "one", "one"), Scripted(lambda t, q: "two", "two")]
    sets = set()
    for engine in engines * 2:
        done = ask_all(engine, store)
        sets.add(done.storage.response_set)
        assert set(done.table["text"]) == {engine.name}
    assert len(sets) == 2


def test_equal_images_are_asked_about_once_and_counted_each(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    table = ask_all(engine, store, same=(1, 2, 3)).table
    assert len(engine.asked) == len(set(engine.asked)) == 8
    assert len(table) == 12
    assert (table["status"] == "answered").all()


def test_a_failed_answer_is_tried_again_and_its_attempts_are_counted(store: ResponseStore) -> None:
    failing = Scripted(lambda t, q: say_all(t, q) if t.image_id != "i2" else fail(t, q))
    done = ask_all(failing, store, attempts=3, budget=2)
    assert done.asked.complete  # 2 failures are allowed
    rows = done.table.set_index(["image_id", "question_id"])
    assert rows.loc[("i2", "a"), ["status", "attempts", "error"]].tolist() == ["error", 3, "out of order"]
    assert failing.asked.count(("i2", "a")) == 3
    fixed = Scripted(say_all)
    rows = ask_all(fixed, store).table.set_index(["image_id", "question_id"])
    assert fixed.asked == [("i2", "a"), ("i2", "b")]
    assert rows.loc[("i2", "a"), ["status", "attempts"]].tolist() == ["answered", 4]
    assert not rows.loc[("i2", "a"), "cached"]


def test_a_failure_that_the_second_pass_fixes_costs_nothing(store: ResponseStore) -> None:
    """Half of the answers fail at first: far over the budget, were they not tried again."""
    tried: set[tuple[str, str]] = set()

    def second_time(task: ImageTask, question: Question) -> str:
        if task.image_id < "i3" and (task.image_id, question.question_id) not in tried:
            tried.add((task.image_id, question.question_id))
            raise ValueError("not yet")
        return say_all(task, question)

    done = ask_all(Scripted(second_time), store, attempts=2, budget=0.05)
    assert done.asked.complete
    assert (done.table["status"] == "answered").all()


@pytest.mark.parametrize(("budget", "ends"), [(0.05, True), (0.5, False), (5, True), (6, False)])
def test_the_budget_is_a_share_or_a_count(store: ResponseStore, budget: float, ends: bool) -> None:
    done = ask_all(Scripted(lambda t, q: say_all(t, q) if t.image_id > "i2" else fail(t, q)), store, budget=budget)
    assert (done.asked.over_budget is not None) is ends
    table = done.table
    assert len(table) == 12
    if ends:
        assert "out of order" in str(done.asked.over_budget)
        assert NOT_ASKED in set(table["error"])
        assert (table.loc[table["error"] == NOT_ASKED, "attempts"] == 0).all()
    else:
        assert (table["status"] == "answered").sum() == 6


def test_a_hopeless_pass_ends_early(store: ResponseStore) -> None:
    engine = Scripted(fail)
    assert ask_all(engine, store, attempts=2, budget=0.05, n=200).asked.over_budget is not None
    assert len(engine.asked) == 100


def test_an_unreadable_image_is_rows_with_a_reason_that_names_no_path(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    table = ask_all(engine, store, attempts=2, budget=0.5, unreadable=(4,)).table.set_index("image_id")
    assert set(table.loc["i4", "error"]) == {"no image: the file"}
    assert set(table.loc["i4", "status"]) == {"error"}
    assert (table.drop("i4")["status"] == "answered").all()
    assert "i4" not in {image for image, _ in engine.asked}


def test_where_most_images_cannot_be_read_nothing_is_asked(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    done = ask_all(engine, store, unreadable=(0, 1, 2, 3))
    assert "8 of 12 answers failed, more than the run allows; the first: no image" in str(done.asked.over_budget)
    assert engine.asked == []


def test_what_is_left_to_ask_is_known_before_anything_is_asked(store: ResponseStore) -> None:
    ask_all(Scripted(lambda t, q: say_all(t, q) if t.image_id != "i0" else fail(t, q)), store, budget=2, n=2)
    storage = RowStorage(plan_of(n=5, unreadable=(4,)), Scripted(fail), Decoding(), store)
    found = storage.forecast()
    assert (found.stored, found.failed, found.left) == (2, 2, 6)  # the image that cannot be read is never asked about
    assert storage.n_not_shown == 2


def test_an_interruption_keeps_what_came(store: ResponseStore) -> None:
    def stop(task: ImageTask, question: Question) -> str:
        if task.image_id == "i3":
            raise KeyboardInterrupt
        return say_all(task, question)

    done = ask_all(Scripted(stop), store, attempts=2)
    assert done.asked.interrupted
    assert not done.asked.complete
    assert (done.table["status"] == "answered").sum() == 6
    assert (done.table["error"] == NOT_ASKED).sum() == 6
    assert ask_all(Scripted(say_all), store, attempts=2).cached == 6


def test_an_empty_answer_is_an_answer(store: ResponseStore) -> None:
    table = ask_all(Scripted(lambda t, q: ""), store).table
    assert (table["status"] == "answered").all()
    assert (table["text"] == "").all()


def test_a_full_disk_is_reported_and_earlier_batches_stay(
    store: ResponseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = 0
    put = store.put_many

    def full(rows: Any, *about: Any) -> None:
        nonlocal kept
        if kept == 3:
            store.connection.execute("PRAGMA max_page_count = 1")  # SQLite itself then says that the disk is full
            put([(key, Answer(a.image_id, a.question_id, "x" * 100_000)) for key, a in rows], *about)
        put(rows, *about)
        kept += 1

    monkeypatch.setattr(store, "put_many", full)
    engine = Scripted(say_all)
    with pytest.raises(Fp2Error, match="disk is full"):
        ask_all(engine, store)
    assert len(store.get_many(keys(engine, store))) == 6


# --- what shares an answer, and what never does ---


def keys(engine: Scripted, store: ResponseStore, decoding: Decoding | None = None, **plan: Any) -> list[str]:
    return [key for _, _, key, _ in RowStorage(plan_of(**plan), engine, decoding or Decoding(), store).planned()]


MODEL = {
    "model": "org/net",
    "revision": "abc",
    "weights": "w",
    "dtype": "float32",
    "quantisation": None,
    "processor": {"class": "P", "backend": "pil", "digest": "d"},
    "chat_template": "t",
}


@pytest.mark.parametrize(
    "other",
    [
        {"model": "org/other"},
        {"revision": "abd"},
        {"weights": "v"},
        {"dtype": "bfloat16"},
        {"quantisation": "int8"},
        {"processor": {"class": "P", "backend": "torchvision", "digest": "d"}},
        {"processor": {"class": "P", "backend": "pil", "digest": "e"}},
        {"chat_template": None},
    ],
    ids=lambda value: next(iter(value)),
)
def test_two_models_revisions_dtypes_or_processors_never_share_a_row(store: ResponseStore, other: Any) -> None:
    one = Scripted(lambda t, q: "one", **MODEL)
    two = Scripted(lambda t, q: "two", **{**MODEL, **other})
    assert not set(keys(one, store)) & set(keys(two, store))
    for engine, text in ((one, "one"), (two, "two"), (one, "one")):
        assert set(ask_all(engine, store).table["text"]) == {text}


BOXES = dict(zip(("box_x", "box_y", "box_w", "box_h"), (1.0, 1.0, 4.0, 4.0), strict=True))
FACES = dict(zip(("face_x", "face_y", "face_w", "face_h"), (2.0, 2.0, 2.0, 2.0), strict=True))
VARIANTS = [
    ORIGINAL,
    VariantConfig("blind", "blind"),
    VariantConfig("grey", "grey", size=8),
    VariantConfig("small", "grey", size=9),
    VariantConfig("masked", "masked"),
    VariantConfig("blurred", "blurred", radius=2.0),
    VariantConfig("soft", "blurred", radius=3.0),
    VariantConfig("background_removed", "background_removed"),
    VariantConfig("face_crop", "face_crop", margin=0.0),
    VariantConfig("wide", "face_crop", margin=0.5),
    VariantConfig("person_crop", "person_crop", margin=0.0),
]


@pytest.mark.package(name="image_variants")
def test_no_two_variants_share_a_row(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    found = [set(keys(engine, store, variant=variant, **BOXES, **FACES)) for variant in VARIANTS]
    assert [len(one) for one in found] == [2 if v.kind in ("blind", "grey") else 12 for v in VARIANTS]
    assert len(set.union(*found)) == sum(len(one) for one in found)


@pytest.mark.package(name="image_variants")
def test_two_regions_of_one_image_never_share_a_row(store: ResponseStore) -> None:
    masked = VariantConfig("masked", "masked")
    engine = Scripted(say_all)
    one = keys(engine, store, variant=masked, **BOXES)
    assert not set(one) & set(keys(engine, store, variant=masked, **{**BOXES, "box_w": 5.0}))


@pytest.mark.package(name="image_variants")
def test_the_same_variant_under_another_name_shares_every_row(store: ResponseStore) -> None:
    named = [VariantConfig(name, "blurred", radius=2.0) for name in ("blurred", "mine")]
    one, two = (keys(Scripted(say_all), store, variant=variant, **BOXES) for variant in named)
    assert one == two


def test_blind_asks_once_without_an_image_for_everybody(store: ResponseStore) -> None:
    engine = Scripted(lambda t, q: f"{q.question_id} {t.blind} {t.subject_id}")
    done = ask_all(engine, store, variant=VariantConfig("blind", "blind"), unreadable=(2,))
    assert (engine.model_calls, done.asked.model_calls) == (1, 1)
    table = done.table
    assert len(table) == 12
    assert set(table["variant"]) == {"blind"}
    assert table["image_id"].tolist() == [f"i{k}" for k in range(6) for _ in QUESTIONS]
    assert table.groupby("question_id")["text"].nunique().tolist() == [1, 1]
    assert not table["text"].str.contains("s[0-9]").any()
    assert table.groupby("question_id")["response_key"].nunique().tolist() == [1, 1]


def test_swapped_costs_nothing_after_the_originals_and_files_under_who_was_replaced(store: ResponseStore) -> None:
    texts = ask_all(Scripted(say_all), store).table.set_index("image_id")["text"]
    done = ask_all(Scripted(fail), store, variant=VariantConfig("swapped", "swapped", seed=1))
    assert (done.cached, done.asked.model_calls) == (12, 0)
    table = done.table
    assert table["subject_id"].tolist() == [f"s{k}" for k in range(6) for _ in QUESTIONS]
    assert set(table["variant"]) == {"swapped"}
    assert sorted(table["text"]) == sorted(texts)
    assert not any(text in texts[image].tolist() for image, text in zip(table["image_id"], table["text"], strict=True))


def test_swapped_without_the_originals_asks_about_each_donor_once(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    subjects = ["s0", "s0", "s0", "s0", "s1", "s2"]  # one of the small ones is shown four times
    done = ask_all(engine, store, variant=VariantConfig("swapped", "swapped", seed=1), subject_id=subjects)
    assert (done.table["status"] == "answered").all()
    keys = {key for _, _, key, _ in done.storage.planned()}
    assert len(engine.asked) == len(set(engine.asked)) == len(keys) < done.storage.n_planned


@pytest.mark.package(name="image_variants")
def test_a_variant_that_the_data_do_not_allow_is_rows_with_a_reason(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    done = ask_all(engine, store, variant=VariantConfig("masked", "masked"))
    assert "do not locate the person" in str(done.asked.over_budget)
    assert engine.asked == []
    assert (done.table["status"] == "error").all()


# --- scored questions ---

CHOICE = Question("c", "c", "Who? {options}", kind="choice", choices=("x", "y"))
SCORED = (Question("y", "y", "Is it?", kind="yes_no"), CHOICE)


def test_numbers_go_through_the_store_into_the_table(store: ResponseStore) -> None:
    engine = Scripted(lambda t, q: "Yes")
    engine.numbers = lambda t, q: {"p_yes": 0.1 + 0.2, "p": [1 / 3, 2 / 3], "image": t.image_id}
    for cached in (False, True):
        table = ask_all(engine, store, questions=SCORED).table
        assert (table["cached"] == cached).all()
        for image_id, numbers in zip(table["image_id"], table["numbers"], strict=True):
            assert json.loads(numbers) == {"p_yes": 0.1 + 0.2, "p": [1 / 3, 2 / 3], "image": image_id}
    assert ask_all(Scripted(say_all), store).table["numbers"].isna().all()


def test_an_answer_without_end_fails_alone(store: ResponseStore) -> None:
    long = Decoding().longest_answer
    engine = Scripted(lambda t, q: "a" * (long + (t.image_id == "i2")))
    table = ask_all(engine, store, budget=0.5).table.set_index("image_id")
    assert table.loc["i2", "error"].str.contains(f"{long + 1} characters, far more than the tokens asked for").all()
    assert table.drop("i2")["error"].isna().all()


class Supplying(Scripted):
    """An engine whose answers exist already (`SuppliesAnswers`)."""

    def read(self, tick: Callable[[int, int], None]) -> None:
        """Nothing is read."""

    def match(self, tasks: Sequence[ImageTask], questions: Sequence[Question]) -> Sequence[str]:
        return ()

    def provenance(self) -> dict[str, Any]:
        return {}


def test_a_supplied_answer_without_end_fails_alone(store: ResponseStore) -> None:
    engine = Supplying(lambda t, q: "a " * (LONGEST_SUPPLIED // 2) + "a" * (t.image_id == "i2"))
    table = ask_all(engine, store, budget=0.5).table.set_index("image_id")
    assert table.loc["i2", "error"].str.contains("100001 characters, more than the 100,000 that a supplied one").all()
    assert table.drop("i2")["error"].isna().all()


@pytest.mark.parametrize("bad", [math.nan, -math.inf, {1, 2}])
def test_unusable_numbers_fail_their_answer_alone(store: ResponseStore, bad: Any) -> None:
    engine = Scripted(lambda t, q: "Yes")
    engine.numbers = lambda t, q: {"p_yes": bad if t.image_id == "i2" else 0.5}
    table = ask_all(engine, store, budget=0.5, questions=SCORED).table.set_index("image_id")
    assert table.loc["i2", "error"].str.startswith("the engine gave unusable numbers").all()
    assert (table.drop("i2")["status"] == "answered").all()


def test_kind_choices_and_orders_are_in_the_response_key(store: ResponseStore) -> None:
    def key_of(question: Question, orders: Any = "rotations") -> str:
        return keys(Scripted(say_all), store, Decoding(choice_orders=orders), n=1, questions=(question,))[0]

    turned = Question("c", "c", CHOICE.text, kind="choice", choices=("y", "x"))
    assert len({key_of(CHOICE), key_of(turned), key_of(CHOICE, "all"), key_of(CHOICE, "given")}) == 4
    assert key_of(SCORED[0]) == key_of(SCORED[0], "all")
    assert key_of(SCORED[0]) != key_of(Question("y", "y", "Is it?"))


def test_a_kind_that_the_engine_cannot_ask_is_refused_before_anything_is_asked(store: ResponseStore) -> None:
    class TextOnly(Scripted):
        def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
            raise Fp2Error(f"cannot ask {question.kind}")

    with pytest.raises(Fp2Error, match="cannot ask yes_no"):
        RowStorage(plan_of(questions=SCORED), TextOnly(say_all), Decoding(), store)


class Reticent(Scripted):
    """An engine that never answers the question `b`."""

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        for batch in super().answer(tasks):
            yield [answer for answer in batch if answer.question_id != "b"]


def test_a_question_that_the_engine_does_not_answer_fails_and_is_tried_again(store: ResponseStore) -> None:
    engine = Reticent(lambda task, question: "words")
    done = ask_all(engine, store, attempts=2, budget=1, n=3)
    assert (done.asked.complete, done.storage.n_failed) == (True, 3)
    failed = done.table[done.table["status"] == "error"]
    assert set(failed["error"]) == {"the engine gave no answer"}
    assert set(failed["attempts"]) == {2}
    assert "the engine gave no answer" in str(ask_all(engine, store, budget=0, n=3).asked.over_budget)
