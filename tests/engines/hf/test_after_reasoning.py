"""P(Yes) after sampled reasonings: each has its own, equal to that of one full prompt, and the mean is stated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import pytest
import torch
from bench import Bench, execute
from test_reasoning import ALWAYS, SWITCHED
from tiny import save_reasoning_llava, save_tiny_llava

from fp2.engines.hf.after_reasoning import score_after_reasoning
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.likelihoods import read_yes_no
from fp2.engines.hf.model import HfSpec
from fp2.engines.hf.session import make_strategy
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

pytestmark = pytest.mark.package(name="prefix_sharing")

KIND = Question("kind", "p", "Is this person kind?", kind="yes_no")
OLD = Question("old", "p", "Is this person old?", kind="yes_no")
THINKS = {"<|assistant|>": "<think>", "<think>": "h", "h": "a", "a": "</think>", "Ġ": "Yes", "Ċ": "No"}
"""Thinks `ha`; after a blank it says Yes, after a line break No, and both follow the reasoning equally often."""


def save(folder: Path, template: str, following: dict[str, str] = THINKS) -> Path:
    """Save a model that follows `THINKS` nearly always, also where it samples."""
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    save_reasoning_llava(folder, template, following, ("Yes", "No"))
    tokenizer = AutoProcessor.from_pretrained(folder).tokenizer
    model: Any = LlavaForConditionalGeneration.from_pretrained(folder)
    vectors = model.model.language_model.embed_tokens.weight
    with torch.no_grad():
        model.lm_head.weight.mul_(3)
        for blank in ("Ġ", "Ċ"):
            closing, after = (tokenizer.convert_tokens_to_ids(token) for token in ("</think>", blank))
            model.lm_head.weight[after] += 3 * vectors[closing]
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("after_reasoning")
    return {name: save(folder / name, text) for name, text in {"switched": SWITCHED, "always": ALWAYS}.items()}


def engine(path: Path, reasoning: Any = "on", *, samples: int = 8, sharing: Any = "auto", seed: int = 0) -> HfEngine:
    decoding = Decoding(max_new_tokens=4, reasoning=reasoning, seed=seed)
    options = HfOptions(device="cpu", threads=1, samples=samples, sharing=sharing)
    return HfEngine(HfSpec(str(path), dtype="float32"), decoding, options)


def answers(asked: HfEngine, tasks: Sequence[ImageTask], *questions: Question) -> dict[tuple[str, str], Answer]:
    given = asked.answer([replace(task, questions=questions) for task in tasks])
    return {(answer.image_id, answer.question_id): answer for batch in given for answer in batch}


@pytest.mark.parametrize(("name", "reasoning"), [("switched", "on"), ("switched", 64), ("always", "auto")])
def test_each_reasoning_has_its_own_probability_and_the_mean_is_the_answer(
    checkpoints: dict[str, Path], name: str, reasoning: Any, tasks: list[ImageTask]
) -> None:
    asked = engine(checkpoints[name], reasoning, samples=12)
    method = asked.method(KIND)
    found = answers(asked, tasks[:2], KIND, OLD)
    assert method["samples"] == 12
    assert asked.limitations == ("Probabilities are means over 12 sampled reasonings each",)
    for answer in found.values():
        numbers: Any = answer.numbers
        p = numbers["p_yes_of_traces"]
        assert 2 <= len(p) <= 12
        assert {round(value) for value in p} == {0, 1}  # after a blank Yes, after a line break No
        assert numbers["p_yes"] == pytest.approx(fmean(p))
        assert numbers["trace_variance"] == pytest.approx(variance(p))
        assert numbers["standard_error"] == pytest.approx((variance(p) / len(p)) ** 0.5)
        assert numbers["p_yes_norm"] == pytest.approx(numbers["p_yes"] / (numbers["p_yes"] + numbers["p_no"]))
        assert answer.text == ("Yes" if numbers["p_yes"] >= numbers["p_no"] else "No")
        assert "ha" in numbers["reasoning"]
        assert 0 < numbers["reasoning_tokens"] < answer.tokens
    assert len({tuple(answer.numbers["p_yes_of_traces"]) for answer in found.values()}) > 1  # type: ignore[index]


@pytest.mark.parametrize("sharing", ["prefix", "vision", "none"])
def test_reasonings_do_not_depend_on_what_is_shared_or_on_the_rest_of_the_batch(
    checkpoints: dict[str, Path], sharing: str, tasks: list[ImageTask]
) -> None:
    together = answers(engine(checkpoints["switched"], sharing="tree"), tasks[:2], KIND, OLD)
    alone = answers(engine(checkpoints["switched"], sharing=sharing), tasks[:1], KIND)
    (key,) = alone
    ours, plain = together[key].numbers, alone[key].numbers
    assert ours is not None
    assert plain is not None
    assert ours["p_yes_of_traces"] == pytest.approx(plain["p_yes_of_traces"], abs=1e-5)
    other = answers(engine(checkpoints["switched"], seed=1), tasks[:1], KIND)[key].numbers
    assert other is not None
    assert other["p_yes_of_traces"] != ours["p_yes_of_traces"]


@pytest.mark.parametrize("level", ["tree", "prefix", "vision"])
def test_a_probability_is_that_of_one_full_prompt_with_its_reasoning(
    tmp_path: Path, level: str, tasks: list[ImageTask]
) -> None:
    """A model whose attention reads all of it; its reasonings are dictated."""
    save_tiny_llava(tmp_path, template=ALWAYS, added=("<think>", "</think>", "Yes", "No"))
    session = engine(tmp_path, "auto")._session
    (group,) = session.build_inputs(replace(tasks[0], questions=(KIND, OLD))).groups
    encode = session.loaded.processor.tokenizer.encode
    texts = (
        "kind</think>\nYes",
        "hateful and</think> No",
        "</think>Yes",
        "t</think>\n\n No",
        "te</think>No",
        "h</think> ",
    )
    dictated = [encode(text, add_special_tokens=False) for text in texts]
    end = min(session._end_tokens)
    position = dict.fromkeys(range(len(dictated)), 0)

    def dictate(pairs: Sequence[tuple[int, int]], logits: torch.Tensor) -> list[int]:
        chosen = []
        for _, prompt in pairs:
            text = [*dictated[prompt], *[end] * 30]  # goes on where the text has ended
            chosen.append(text[position[prompt]])
            position[prompt] += 1
        return chosen

    strategy = make_strategy(level, session.loaded, session.limits)
    reasoning, forms = session._reasoning, session._yes_no_forms()
    assert reasoning is not None
    scored = score_after_reasoning([group], forms, strategy, reasoning, dictate, 3, session._end_tokens)
    for prompt, answer in enumerate(scored):
        for sample, p in enumerate(answer.numbers["p_yes_of_traces"]):  # type: ignore[index]
            text = dictated[2 * sample + prompt]
            closing = text.index(encode("</think>", add_special_tokens=False)[0]) + 1
            blanks = 0
            while (
                closing + blanks < len(text)
                and not session.loaded.processor.tokenizer.decode(text[closing + blanks]).strip()
            ):
                blanks += 1
            (_, _, logits), *_ = session._plain.logits([group.encoded], [(prompt, tuple(text[: closing + blanks]))])
            assert p == pytest.approx(read_yes_no(logits[0], forms)[0]["p_yes"], abs=1e-5)


def test_all_reasonings_of_all_questions_share_one_computation_of_the_image(
    checkpoints: dict[str, Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix

    prefills: list[int] = []
    original: Callable[..., Any] = SharedPrefix._prefill
    monkeypatch.setattr(
        SharedPrefix, "_prefill", lambda self, batch: prefills.append(len(batch)) or original(self, batch)
    )
    questions = [replace(KIND, question_id=f"q{n}", text=f"Is this person {n}?") for n in range(6)]
    asked = engine(checkpoints["switched"], samples=4)
    assert len(answers(asked, tasks[:1], *questions)) == 6
    assert prefills == [1, 1]  # the check, and 24 reasonings


def test_reasonings_without_an_end_are_left_out_and_none_at_all_is_a_failed_answer(
    tmp_path: Path, tasks: list[ImageTask]
) -> None:
    endless = save(tmp_path, ALWAYS, THINKS | {"a": "h"})
    found = list(answers(engine(endless, 16, samples=3), tasks[:2], KIND).values())
    assert {answer.error for answer in found} == {
        "the model was still reasoning in all of 3 samples (decoding.reasoning)"
    }


def test_keys_have_the_number_of_samples_and_choices_are_refused(checkpoints: dict[str, Path]) -> None:
    path = checkpoints["switched"]
    given: list[dict[str, Any]] = [{}, {"samples": 9}, {"seed": 1}, {"reasoning": 64}, {"reasoning": "off"}]
    assert len({str(engine(path, **options).method(KIND)) for options in given}) == 5
    choice = Question("c", "p", "Kind or mean?", kind="choice", choices=("kind", "mean"))
    with pytest.raises(Fp2Error, match="reasons before it answers"):
        engine(path).method(choice)


@pytest.mark.package(name="gras")
def test_gras_of_a_model_that_reasons_states_that_it_is_an_estimate(checkpoints: dict[str, Path], bench: Bench) -> None:
    asked = [
        "model=smolvlm_256m",
        f"model.id={checkpoints['always']}",
        "model.dtype=float32",
        "probe=gras",
        "probe.traits={kind: 2.6, cruel: -2.9}",
        "probe.templates={A: 'Is the person {trait}?'}",
        "probe.options.permutations=20",
        "probe.options.bootstrap=20",
        "engine.samples=3",
        "data=table",
        "data.columns={image: file, subject: person, gender: gender}",
        "cut.by=[gender]",
        "report=none",
        "tracking=none",
        *bench.places,
    ]
    found = execute(asked, bench.outputs / "one").results
    (note,) = [note for note in found["notes"] if note["code"] == "estimated_from_samples"]
    assert note["parameters"] == {"samples": 3, "of": "reasonings"}
    assert found["answers"]["answered"] > 0.9 * found["answers"]["planned"]
    assert found["gras"]["outcome"] == "p_yes_first_token"
