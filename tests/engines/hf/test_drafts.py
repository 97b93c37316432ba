"""Drafts change how many passes a text takes, and nothing else."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.tables import Decoding, ImageTask, Question

if TYPE_CHECKING:
    from fp2.methods.prefix_sharing.decoding import Drafts

pytestmark = pytest.mark.package(name="prefix_sharing")

PROMPT = (1, 2, 3)
ASKED = tuple(
    Question(f"q{place}", "work", text)
    for place, text in enumerate(("What is this?", "A leader or a follower? Say why.", "Where does this person live?"))
)
Texts = dict[tuple[str, str], str | None]


def texts(engine: HfEngine, tasks: Sequence[ImageTask]) -> Texts:
    found = [answer for batch in engine.answer(tasks) for answer in batch]
    assert not [answer.error for answer in found if answer.error]
    return {(answer.image_id, answer.question_id): answer.text for answer in found}


def mixed(right: dict[tuple[int, ...], list[int]], share: float) -> Callable[..., list[int]]:
    """Propose what is generated, with tokens replaced at random: right, wrong and half-right drafts."""
    numbers = random.Random(5)

    def propose(self: Drafts, prompt: tuple[int, ...], answer: Sequence[int], room: int) -> list[int]:
        draft = right[prompt][len(answer) : len(answer) + min(room, numbers.randrange(7))]
        return [token if numbers.random() < share else 5 + (token == 5) for token in draft]

    return propose


@pytest.mark.parametrize(("family", "temperature"), [("llava", 0.0), ("qwen2_5_vl", 1.0), ("gemma3", 0.0)])
def test_right_wrong_and_half_right_drafts_change_no_answer(
    family: str,
    temperature: float,
    tiny_family: Callable[[str], Path],
    tasks: list[ImageTask],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fp2.methods.prefix_sharing.decoding import Drafts

    some = [dataclasses.replace(task, questions=ASKED) for task in tasks[:4]]
    decoding = Decoding(max_new_tokens=14, temperature=temperature)
    spec, options = HfSpec(str(tiny_family(family))), HfOptions(threads=1)
    learned: dict[tuple[int, ...], list[int]] = {}
    with monkeypatch.context() as patched:
        patched.setattr(Drafts, "propose", lambda *a: [])
        patched.setattr(Drafts, "learn", lambda self, prompt, answer: learned.update({prompt: list(answer)}))
        plain = HfEngine(spec, decoding, options)
        expected = texts(plain, some)
    assert plain.runtime()["sharing"] == "tree"
    for share in (1.0, 0.7, 0.0):
        monkeypatch.setattr(Drafts, "propose", mixed(learned, share))
        drafted = HfEngine(spec, decoding, options)
        assert texts(drafted, some) == expected
        drafts = drafted._session._strategy.drafts  # type: ignore[union-attr]
        assert drafts.proposed > 0
        if share == 1.0 and not temperature:
            assert drafts.accepted > 0
        if share == 0.0:
            assert drafts.accepted < drafts.proposed / 2


def test_an_image_shown_again_takes_fewer_passes(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    """Also the end tokens: what was learned is a whole answer."""
    many = [dataclasses.replace(tasks[0], image_id=f"copy{place}", questions=ASKED) for place in range(12)]
    engine = HfEngine(HfSpec(str(tiny_llava)), Decoding(max_new_tokens=16), HfOptions(threads=1, batch_size=6))
    first = texts(engine, many[:2])
    calls = engine.model_calls
    again = texts(engine, many[2:4])
    assert sorted(map(str, again.values())) == sorted(map(str, first.values()))
    assert engine.model_calls - calls < calls / 2
    assert engine.runtime()["drafts"]["accepted"] > 0


def test_nothing_is_proposed_without_an_earlier_answer_to_the_same_prompt() -> None:
    from fp2.methods.prefix_sharing.decoding import Drafts

    drafts = Drafts()
    assert drafts.propose(PROMPT, [], 9) == []
    drafts.learn((9, 9), [1, 2, 3, 4])
    drafts.learn((9, 9), [1, 2, 3, 4])
    assert drafts.propose(PROMPT, [], 9) == []
    assert drafts.propose((9, 9), [], 3) == [1]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 40))
def test_an_answer_seen_often_is_proposed_whole(answer: list[int], room: int) -> None:
    from fp2.methods.prefix_sharing.decoding import Drafts

    drafts = Drafts(longest=40)
    for _ in range(150):
        drafts.learn(PROMPT, answer)
    for start in range(len(answer)):
        draft = drafts.propose(PROMPT, answer[:start], room)
        assert len(draft) <= room
        assert draft[: len(answer) - start] == answer[start : start + len(draft)]


def test_a_draft_stops_where_answers_part() -> None:
    from fp2.methods.prefix_sharing.decoding import Drafts

    drafts = Drafts()
    for place in range(40):
        drafts.learn(PROMPT, [1, 2, 3, 10 + place % 4, 5, 6, 7])
    assert drafts.propose(PROMPT, [], 9) == [1, 2, 3]
    assert drafts.propose(PROMPT, [1, 2, 3, 12], 9)[:3] == [5, 6, 7]


def test_stored_answers_draft_those_of_a_later_run(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    some = [dataclasses.replace(task, questions=ASKED[:1]) for task in tasks[:2]]
    decoding, spec, options = Decoding(max_new_tokens=12), HfSpec(str(tiny_llava)), HfOptions(threads=1, batch_size=1)
    first = HfEngine(spec, decoding, options)
    said = texts(first, some[:1])
    later = HfEngine(spec, decoding, options)
    later.learn({"q0": [text for text in said.values() if text] * 8})
    again = texts(later, some[:1])
    assert again == said
    assert later._session._strategy.drafts.proposed > 0  # type: ignore[union-attr]
