"""Planning and asking: failures, budgets, repeated pictures, interruptions; with an engine that fails to order."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fp2.ask.rows import NOT_ASKED, Plan, answers_table, ask, make_plan
from fp2.config import VariantConfig
from fp2.data.base import people_table
from fp2.data.pixels import PixelDigest
from fp2.data.stimuli import make_stimuli
from fp2.errors import Fp2Error
from fp2.store.rows import ResponseStore
from fp2.tables import Answer, Decoding, ImageTask, Question

ORIGINAL = VariantConfig()
QUESTIONS = (Question("a", "a", "What?"), Question("b", "b", "Who?"))


class Scripted:
    """An engine whose `say` gives the words or raises `ValueError` for an error row; one picture to a batch."""

    def __init__(self, say: Callable[[ImageTask, Question], str], name: str = "scripted", **identity: Any) -> None:
        self.say, self.name, self.model_calls = say, name, 0
        self.own = identity
        self.asked: list[tuple[str, str]] = []
        self.numbers: Callable[[ImageTask, Question], dict[str, Any]] | None = None

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
            "image_path": [f"/pictures/i{k}.png" for k in range(n)],
            "is_primary": [True] * n,
            "n_people": [1] * n,
            "attr_gender": [["f"] if k % 2 else ["m"] for k in range(n)],
        }
    )


def plan_of(
    engine: Scripted,
    n: int = 6,
    unreadable: tuple[int, ...] = (),
    same: tuple[int, ...] = (),
    questions: tuple[Question, ...] = QUESTIONS,
    decoding: Decoding | None = None,
    variant: VariantConfig = ORIGINAL,
    **columns: Any,
) -> Plan:
    pixels = {
        Path(f"/pictures/i{k}.png"): PixelDigest(None, 0, 0, f"no picture: /pictures/i{k}.png")
        if k in unreadable
        else PixelDigest("same" if k in same else f"{k:064d}", 8, 8)
        for k in range(n)
    }
    people = make_people(n).assign(**columns)
    shown = make_stimuli(people, variant, pixels, Path(os.environ["FP2_ROOT"]) / "shown")
    return make_plan(people, questions, engine, decoding or Decoding(), shown, variant.kind)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResponseStore]:
    with ResponseStore(tmp_path / "store.sqlite") as opened:
        yield opened


def say_all(task: ImageTask, question: Question) -> str:
    return f"{question.question_id} about {task.pixel_sha256[-1]}"


def refuse_to_work(task: ImageTask, question: Question) -> str:
    raise ValueError("out of order")


def test_every_answer_comes_once_and_is_not_asked_for_again(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    plan = plan_of(engine)
    first = ask(plan, engine, store, attempts=2, error_budget=0)
    assert (first.complete, first.cached, first.model_calls) == (True, 0, 6)
    again = Scripted(refuse_to_work)
    second = ask(plan_of(again), again, store, attempts=2, error_budget=0)
    assert (second.complete, second.cached, second.model_calls) == (True, 12, 0)
    table = answers_table(plan, second)
    assert table["text"].tolist() == [say_all(task, q) for task in plan.tasks for q in QUESTIONS]
    assert table["cached"].all()
    assert plan.response_set == plan_of(again).response_set


def test_only_what_is_missing_is_asked(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    ask(plan_of(engine, n=3), engine, store, attempts=1, error_budget=0)
    engine.asked.clear()
    asked = ask(plan_of(engine, n=5), engine, store, attempts=1, error_budget=0)
    assert asked.cached == 6
    assert sorted({image for image, _ in engine.asked}) == ["i3", "i4"]


def test_two_models_never_mix(store: ResponseStore) -> None:
    one, two = Scripted(lambda t, q: "one", "one"), Scripted(lambda t, q: "two", "two")
    plans = [plan_of(one), plan_of(two)]
    assert plans[0].response_set != plans[1].response_set
    for _ in range(2):
        for plan, engine in zip(plans, (one, two), strict=True):
            table = answers_table(plan, ask(plan, engine, store, attempts=1, error_budget=0))
            assert set(table["text"]) == {engine.name}


def test_equal_pictures_are_asked_about_once_and_counted_each(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    plan = plan_of(engine, same=(1, 2, 3))
    asked = ask(plan, engine, store, attempts=1, error_budget=0)
    assert len(engine.asked) == len(set(engine.asked)) == 8
    table = answers_table(plan, asked)
    assert len(table) == 12
    assert (table["status"] == "answered").all()


def test_a_failed_answer_is_tried_again_and_its_attempts_are_counted(store: ResponseStore) -> None:
    failing = Scripted(lambda t, q: say_all(t, q) if t.image_id != "i2" else refuse_to_work(t, q))
    plan = plan_of(failing)
    asked = ask(plan, failing, store, attempts=3, error_budget=2)
    assert asked.complete  # 2 failures are allowed
    rows = answers_table(plan, asked).set_index(["image_id", "question_id"])
    assert rows.loc[("i2", "a"), ["status", "attempts", "error"]].tolist() == ["error", 3, "out of order"]
    assert failing.asked.count(("i2", "a")) == 3
    mended = Scripted(say_all)
    plan = plan_of(mended)
    asked = ask(plan, mended, store, attempts=1, error_budget=0)
    assert mended.asked == [("i2", "a"), ("i2", "b")]
    rows = answers_table(plan, asked).set_index(["image_id", "question_id"])
    assert rows.loc[("i2", "a"), ["status", "attempts"]].tolist() == ["answered", 4]
    assert not rows.loc[("i2", "a"), "cached"]


def test_a_failure_that_the_second_pass_mends_costs_nothing(store: ResponseStore) -> None:
    """Half of the answers fail at first: far over the budget, were they not tried again."""
    tried: set[tuple[str, str]] = set()

    def second_time(task: ImageTask, question: Question) -> str:
        if task.image_id < "i3" and (task.image_id, question.question_id) not in tried:
            tried.add((task.image_id, question.question_id))
            raise ValueError("not yet")
        return say_all(task, question)

    engine = Scripted(second_time)
    plan = plan_of(engine)
    asked = ask(plan, engine, store, attempts=2, error_budget=0.05)
    assert asked.complete
    assert (answers_table(plan, asked)["status"] == "answered").all()


@pytest.mark.parametrize(("budget", "ends"), [(0.05, True), (0.5, False), (5, True), (6, False)])
def test_the_budget_is_a_share_or_a_count(store: ResponseStore, budget: float, ends: bool) -> None:
    engine = Scripted(lambda t, q: say_all(t, q) if t.image_id > "i2" else refuse_to_work(t, q))
    plan = plan_of(engine)
    asked = ask(plan, engine, store, attempts=1, error_budget=budget)
    assert (asked.over_budget is not None) is ends
    table = answers_table(plan, asked)
    assert len(table) == 12
    if ends:
        assert "out of order" in str(asked.over_budget)
        assert NOT_ASKED in set(table["error"])
        assert (table.loc[table["error"] == NOT_ASKED, "attempts"] == 0).all()
    else:
        assert (table["status"] == "answered").sum() == 6


def test_a_hopeless_pass_ends_early(store: ResponseStore) -> None:
    engine = Scripted(refuse_to_work)
    plan = plan_of(engine, n=200)
    asked = ask(plan, engine, store, attempts=2, error_budget=0.05)
    assert asked.over_budget is not None
    assert len(engine.asked) == 100


def test_an_unreadable_picture_is_rows_with_a_reason_that_names_no_path(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    plan = plan_of(engine, unreadable=(4,))
    asked = ask(plan, engine, store, attempts=2, error_budget=0.5)
    table = answers_table(plan, asked).set_index("image_id")
    assert set(table.loc["i4", "error"]) == {"no picture: the file"}
    assert set(table.loc["i4", "status"]) == {"error"}
    assert (table.drop("i4")["status"] == "answered").all()
    assert "i4" not in {image for image, _ in engine.asked}


def test_an_interruption_keeps_what_came(store: ResponseStore) -> None:
    def stop(task: ImageTask, question: Question) -> str:
        if task.image_id == "i3":
            raise KeyboardInterrupt
        return say_all(task, question)

    engine = Scripted(stop)
    plan = plan_of(engine)
    asked = ask(plan, engine, store, attempts=2, error_budget=0)
    assert asked.interrupted
    assert not asked.complete
    table = answers_table(plan, asked)
    assert (table["status"] == "answered").sum() == 6
    assert (table["error"] == NOT_ASKED).sum() == 6
    engine = Scripted(say_all)
    assert ask(plan, engine, store, attempts=2, error_budget=0).cached == 6


def test_an_empty_answer_is_an_answer(store: ResponseStore) -> None:
    engine = Scripted(lambda t, q: "")
    plan = plan_of(engine)
    table = answers_table(plan, ask(plan, engine, store, attempts=1, error_budget=0))
    assert (table["status"] == "answered").all()
    assert (table["text"] == "").all()


def test_a_full_disk_is_told_and_earlier_batches_stay(store: ResponseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Scripted(say_all)
    plan = plan_of(engine)
    kept = 0
    put = store.put_many

    def full(rows: Any, runtime: Any = None) -> None:
        nonlocal kept
        if kept == 3:
            store.connection.execute("PRAGMA max_page_count = 1")  # SQLite itself then says that the disk is full
            put([(key, Answer(a.image_id, a.question_id, "x" * 100_000)) for key, a in rows], runtime)
        put(rows, runtime)
        kept += 1

    monkeypatch.setattr(store, "put_many", full)
    with pytest.raises(Fp2Error, match="disk is full"):
        ask(plan, engine, store, attempts=1, error_budget=0)
    assert len(store.get_many(item.response_key for item in plan.planned)) == 6


# --- what shares an answer, and what never does ---


def keys(plan: Plan) -> list[str]:
    return [item.response_key for item in plan.planned]


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
    assert not set(keys(plan_of(one))) & set(keys(plan_of(two)))
    for engine, words in ((one, "one"), (two, "two"), (one, "one")):
        plan = plan_of(engine)
        table = answers_table(plan, ask(plan, engine, store, attempts=1, error_budget=0))
        assert set(table["text"]) == {words}


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


def test_no_two_variants_share_a_row() -> None:
    engine = Scripted(say_all)
    found = [set(keys(plan_of(engine, variant=variant, **BOXES, **FACES))) for variant in VARIANTS]
    assert [len(one) for one in found] == [2 if v.kind in ("blind", "grey") else 12 for v in VARIANTS]
    assert len(set.union(*found)) == sum(len(one) for one in found)


def test_two_regions_of_one_picture_never_share_a_row() -> None:
    masked = VariantConfig("masked", "masked")
    engine = Scripted(say_all)
    one = keys(plan_of(engine, variant=masked, **BOXES))
    assert not set(one) & set(keys(plan_of(engine, variant=masked, **{**BOXES, "box_w": 5.0})))


def test_the_same_variant_under_another_name_shares_every_row() -> None:
    engine = Scripted(say_all)
    names = [VariantConfig(name, "blurred", radius=2.0) for name in ("blurred", "mine")]
    assert keys(plan_of(engine, variant=names[0], **BOXES)) == keys(plan_of(engine, variant=names[1], **BOXES))


def test_blind_asks_once_without_a_picture_for_everybody(store: ResponseStore) -> None:
    engine = Scripted(lambda t, q: f"{q.question_id} {t.blind} {t.subject_id}")
    plan = plan_of(engine, variant=VariantConfig("blind", "blind"), unreadable=(2,))
    asked = ask(plan, engine, store, attempts=1, error_budget=0)
    assert (engine.model_calls, asked.model_calls) == (1, 1)
    table = answers_table(plan, asked)
    assert len(table) == 12
    assert set(table["variant"]) == {"blind"}
    assert table["image_id"].tolist() == [f"i{k}" for k in range(6) for _ in QUESTIONS]
    assert table.groupby("question_id")["text"].nunique().tolist() == [1, 1]
    assert not table["text"].str.contains("s[0-9]").any()
    assert table.groupby("question_id")["response_key"].nunique().tolist() == [1, 1]


def test_swapped_costs_nothing_after_the_originals_and_files_under_who_was_replaced(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    before = plan_of(engine)
    words = answers_table(before, ask(before, engine, store, attempts=1, error_budget=0)).set_index("image_id")["text"]
    plan = plan_of(Scripted(refuse_to_work), variant=VariantConfig("swapped", "swapped", seed=1))
    asked = ask(plan, Scripted(refuse_to_work), store, attempts=1, error_budget=0)
    assert (asked.cached, asked.model_calls) == (12, 0)
    table = answers_table(plan, asked)
    assert table["subject_id"].tolist() == [f"s{k}" for k in range(6) for _ in QUESTIONS]
    assert set(table["variant"]) == {"swapped"}
    assert sorted(table["text"]) == sorted(words)
    assert not any(text in words[image].tolist() for image, text in zip(table["image_id"], table["text"], strict=True))


def test_swapped_without_the_originals_asks_about_each_donor_once(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    subjects = ["s0", "s0", "s0", "s0", "s1", "s2"]  # one of the small ones is shown four times
    plan = plan_of(engine, variant=VariantConfig("swapped", "swapped", seed=1), subject_id=subjects)
    asked = ask(plan, engine, store, attempts=1, error_budget=0)
    assert (answers_table(plan, asked)["status"] == "answered").all()
    assert len(engine.asked) == len(set(engine.asked)) == len(set(keys(plan))) < len(plan.planned)


def test_a_variant_that_the_data_do_not_allow_is_rows_with_a_reason(store: ResponseStore) -> None:
    engine = Scripted(say_all)
    plan = plan_of(engine, variant=VariantConfig("masked", "masked"))
    asked = ask(plan, engine, store, attempts=1, error_budget=0)
    assert "do not locate the person" in str(asked.over_budget)
    assert engine.asked == []
    assert (answers_table(plan, asked)["status"] == "error").all()


# --- scored questions ---

CHOICE = Question("c", "c", "Who? {options}", kind="choice", choices=("x", "y"))
SCORED = (Question("y", "y", "Is it?", kind="yes_no"), CHOICE)


def test_numbers_go_through_the_store_into_the_table(store: ResponseStore) -> None:
    engine = Scripted(lambda t, q: "Yes")
    engine.numbers = lambda t, q: {"p_yes": 0.1 + 0.2, "p": [1 / 3, 2 / 3], "image": t.image_id}
    for cached in (False, True):
        plan = plan_of(engine, questions=SCORED)
        table = answers_table(plan, ask(plan, engine, store, attempts=1, error_budget=0))
        assert (table["cached"] == cached).all()
        for image_id, numbers in zip(table["image_id"], table["numbers"], strict=True):
            assert json.loads(numbers) == {"p_yes": 0.1 + 0.2, "p": [1 / 3, 2 / 3], "image": image_id}
    worded = plan_of(Scripted(say_all))
    table = answers_table(worded, ask(worded, Scripted(say_all), store, attempts=1, error_budget=0))
    assert table["numbers"].isna().all()


@pytest.mark.parametrize("bad", [math.nan, -math.inf, {1, 2}])
def test_numbers_that_are_none_fail_their_answer_alone(store: ResponseStore, bad: Any) -> None:
    engine = Scripted(lambda t, q: "Yes")
    engine.numbers = lambda t, q: {"p_yes": bad if t.image_id == "i2" else 0.5}
    plan = plan_of(engine, questions=SCORED)
    table = answers_table(plan, ask(plan, engine, store, attempts=1, error_budget=0.5)).set_index("image_id")
    assert table.loc["i2", "error"].str.startswith("the engine gave unusable numbers").all()
    assert (table.drop("i2")["status"] == "answered").all()


def key_of(question: Question, orders: Any = "rotations") -> str:
    return keys(plan_of(Scripted(say_all), n=1, questions=(question,), decoding=Decoding(choice_orders=orders)))[0]


def test_kind_choices_and_orders_are_in_the_key_of_a_plan() -> None:
    turned = Question("c", "c", CHOICE.text, kind="choice", choices=("y", "x"))
    assert len({key_of(CHOICE), key_of(turned), key_of(CHOICE, "all"), key_of(CHOICE, "given")}) == 4
    assert key_of(SCORED[0]) == key_of(SCORED[0], "all")
    assert key_of(SCORED[0]) != key_of(Question("y", "y", "Is it?"))


def test_a_kind_that_the_engine_cannot_ask_is_told_before_anything_is_asked() -> None:
    class Wordy(Scripted):
        def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
            raise Fp2Error(f"cannot ask {question.kind}")

    with pytest.raises(Fp2Error, match="cannot ask yes_no"):
        plan_of(Wordy(say_all), questions=SCORED)
