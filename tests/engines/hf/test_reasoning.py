"""Models that reason before they answer: the reasoning is cut, kept and limited; only the answer is an answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny import CHAT, save_reasoning_llava

from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.engines.hf.reasoning import TemplateReasoning, read_template
from fp2.engines.reasoning import Marks, split_reasoning
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

OPENED = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
SWITCHED = CHAT.replace(
    OPENED,
    "{% if add_generation_prompt %}<|assistant|>"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}",
)
ALWAYS = CHAT.replace(OPENED, "{% if add_generation_prompt %}<|assistant|><think>{% endif %}")
EARLIER = (
    "{% for message in messages %}{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>"
    "{{ message.content }}{% endif %}{% endfor %}"
)
"""Ends a template that writes the reasoning of earlier answers, and has no switch."""
FOLLOWING = {"<|assistant|>": "<think>", "<think>": "h", "h": "a", "a": "t", "t": "e", "e": "</think>"}
FOLLOWING |= {"</think>": "k", "k": "i", "i": "n", "n": "d", "d": "</s>"}
"""A model that thinks `hate` and says `kind`."""

QWEN3 = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.reasoning_content %}<think>\n{{ message.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
CHANNELS = (
    "{% for message in messages %}<|turn>{{ message.role }}\n"
    "{% if message.reasoning %}<|channel>thought\n{{ message.reasoning }}<channel|>{% endif %}"
    "{{ message.content }}<turn|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)
ANNOUNCED = (
    "{% if thinking %}Reason first.{% endif %}{% for message in messages %}{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}Answer:{% endif %}"
)
NUMBERED = "{% for message in messages %}{% if add_vision_id %}Picture 1: {% endif %}{{ message.content }}{% endfor %}"
EFFORT = "Reasoning: {{ reasoning_effort or 'low' }}{% for message in messages %}{{ message.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (QWEN3, TemplateReasoning(Marks("<think>", "</think>"), "enable_thinking", False, True)),
        (
            QWEN3.replace("enable_thinking is defined and enable_thinking is false", "brief"),
            TemplateReasoning(Marks("<think>", "</think>"), "brief", True, True),
        ),
        (SWITCHED, TemplateReasoning(Marks("<think>", "</think>"), "enable_thinking", False, True)),
        (ALWAYS, TemplateReasoning(Marks("<think>", "</think>"), None, False, True)),
        (CHANNELS, TemplateReasoning(Marks("<|channel>thought", "<channel|>"), None, False, False)),
        (ANNOUNCED, TemplateReasoning(None, "thinking", False, False)),
        (NUMBERED, TemplateReasoning()),
        (EFFORT, TemplateReasoning()),
        (CHAT, TemplateReasoning()),
        ("{{ raise_exception('no') }}", TemplateReasoning()),
        ("{% broken", TemplateReasoning()),
        (None, TemplateReasoning()),
    ],
)
def test_what_a_template_says_of_reasoning_is_found_by_rendering_it(template: str | None, expected: Any) -> None:
    assert read_template(template) == expected


@pytest.mark.parametrize(
    ("text", "begun", "expected"),
    [
        ("<think>\nfirst\n</think>\n\nthen", False, ("first", "then")),
        ("first</think>then", True, ("first", "then")),
        ("first</think>then </think> again", True, ("first", "then </think> again")),
        ("<think></think>then", False, (None, "then")),
        (" <think> first", False, ("first", None)),
        ("first", True, ("first", None)),
        ("then", False, (None, "then")),
        ("I <think> not", False, (None, "I <think> not")),
    ],
)
def test_a_text_is_split_at_the_marks(text: str, begun: bool, expected: tuple[str | None, str | None]) -> None:
    assert split_reasoning(text, Marks("<think>", "</think>"), begun=begun) == expected


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    templates = {"switched": SWITCHED, "always": ALWAYS, "tokens only": CHAT, "earlier answers": CHAT + EARLIER}
    folder = tmp_path_factory.mktemp("reasoning")
    return {name: save_reasoning_llava(folder / name, text, FOLLOWING) for name, text in templates.items()}


def engine(path: Path, reasoning: Any = "auto", *, sharing: Any = "auto", longest: int = 8) -> HfEngine:
    decoding = Decoding(max_new_tokens=longest, reasoning=reasoning)
    return HfEngine(HfSpec(str(path), dtype="float32"), decoding, HfOptions(device="cpu", sharing=sharing))


def answers(path: Path, tasks: list[ImageTask], reasoning: Any = "auto", **options: Any) -> list[Answer]:
    asked = [replace(task, questions=task.questions[:2]) for task in tasks[:2]]
    return [one for batch in engine(path, reasoning, **options).answer(asked) for one in batch]


@pytest.mark.package(name="prefix_sharing")
@pytest.mark.parametrize("sharing", ["tree", "none"])
@pytest.mark.parametrize("name", ["switched", "always", "tokens only"])
def test_the_reasoning_is_cut_from_the_answer_and_stands_beside_it(
    checkpoints: dict[str, Path], name: str, sharing: str, tasks: list[ImageTask]
) -> None:
    found = answers(checkpoints[name], tasks, sharing=sharing)
    assert [one.text for one in found] == ["kind"] * 4
    assert {one.numbers["reasoning"] for one in found if one.numbers} == {"hate"}
    opened = 0 if name == "always" else 1
    assert {one.numbers["reasoning_tokens"] for one in found if one.numbers} == {5 + opened}
    assert {one.tokens for one in found} == {10 + opened}


def test_reasoning_is_switched_off_by_the_templates_own_variable(
    checkpoints: dict[str, Path], tasks: list[ImageTask]
) -> None:
    found = answers(checkpoints["switched"], tasks, "off")
    assert [(one.text, one.numbers, one.tokens) for one in found] == [("kind", None, 5)] * 4


@pytest.mark.package(name="prefix_sharing")
@pytest.mark.parametrize("sharing", ["tree", "none"])
def test_an_answer_that_is_still_reasoned_about_at_the_limit_has_failed(
    tmp_path: Path, sharing: str, tasks: list[ImageTask]
) -> None:
    endless = save_reasoning_llava(tmp_path, SWITCHED, FOLLOWING | {"e": "h"})
    found = answers(endless, tasks, 20, sharing=sharing)
    assert [one.text for one in found] == [None] * 4
    assert {one.error for one in found} == {"the model was still reasoning after 21 tokens (decoding.reasoning)"}


@pytest.mark.package(name="prefix_sharing")
@pytest.mark.parametrize("sharing", ["tree", "none"])
def test_the_answer_has_its_own_limit(checkpoints: dict[str, Path], sharing: str, tasks: list[ImageTask]) -> None:
    found = answers(checkpoints["switched"], tasks, sharing=sharing, longest=2)
    assert [one.text for one in found] == ["ki"] * 4
    plain = answers(checkpoints["switched"], tasks, "off", sharing=sharing, longest=2)
    assert [one.text for one in plain] == ["ki"] * 4


def test_keys_change_only_where_reasoning_can(checkpoints: dict[str, Path], tiny_llava: Path) -> None:
    question = Question("q", "p", "What does this person do?")

    def method(path: Path, reasoning: Any) -> dict[str, Any]:
        return engine(path, reasoning).method(question)

    assert "reasoning" not in method(tiny_llava, "auto")
    assert method(tiny_llava, "off") == method(tiny_llava, "auto")
    modes: list[Any] = ["off", "auto", "on", 64]
    assert len({str(method(checkpoints["switched"], mode)) for mode in modes}) == 4


@pytest.mark.parametrize(
    ("name", "reasoning", "message"),
    [
        ("always", "off", "cannot be switched off"),
        ("plain", "on", "has no reasoning that can be switched on"),
        ("plain", 64, "has no reasoning that can be switched on"),
        ("earlier answers", "off", "cannot be switched off"),
    ],
)
def test_what_a_model_cannot_do_is_refused_before_it_is_loaded(
    checkpoints: dict[str, Path], tiny_llava: Path, name: str, reasoning: Any, message: str
) -> None:
    asked = engine(tiny_llava if name == "plain" else checkpoints[name], reasoning)
    with pytest.raises(Fp2Error, match=message):
        asked.method(Question("q", "p", "What does this person do?"))


def test_probabilities_are_read_without_reasoning_and_that_is_stated(
    checkpoints: dict[str, Path], tasks: list[ImageTask]
) -> None:
    question = Question("q", "p", "Is this person kind or mean?", kind="choice", choices=("kind", "mean"))
    automatic, off = engine(checkpoints["switched"]), engine(checkpoints["switched"], "off")
    assert automatic.method(question) == off.method(question)
    assert any("switched off" in line for line in automatic.limitations)
    assert not off.limitations
    ((answer,),) = automatic.answer([replace(tasks[0], questions=(question,))])
    assert answer.numbers is not None
    assert "reasoning" not in answer.numbers
    for name, mode in (("switched", "on"), ("always", "auto")):
        with pytest.raises(Fp2Error, match="reasons before it answers"):
            engine(checkpoints[name], mode).method(question)


@pytest.mark.parametrize("name", ["tokens only", "earlier answers"])
def test_a_model_whose_first_token_opens_reasoning_gives_no_probabilities(
    checkpoints: dict[str, Path], name: str, tasks: list[ImageTask]
) -> None:
    question = Question("q", "p", "Is this person kind or mean?", kind="choice", choices=("kind", "mean"))
    with pytest.raises(Fp2Error, match="reasons before it answers"):
        list(engine(checkpoints[name]).answer([replace(tasks[0], questions=(question,))]))


@pytest.mark.parametrize("value", [True, False, 32, "on", "auto"])
def test_yaml_reads_on_and_off_as_true_and_false(value: Any) -> None:
    from fp2.plugins import read_options

    read = read_options(Decoding, {"reasoning": value}, "decoding").reasoning
    assert read == {True: "on", False: "off"}.get(value, value) or value == 32


@pytest.mark.parametrize("value", ["maybe", 3, -1, 1.5])
def test_another_value_is_refused(value: Any) -> None:
    from fp2.plugins import read_options

    with pytest.raises(Fp2Error, match=r"decoding.*reasoning"):
        read_options(Decoding, {"reasoning": value}, "decoding")
