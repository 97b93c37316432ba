"""Sharing changes no answer: every family against plain transformers, one full prompt at a time.

The gate is 1e-4 in float32 logits. It has to be able to fail: the same comparison with another image, and with the
prompts rolled by one, must be far outside it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from family_checkpoints import FAMILIES

from fp2.data.pixels import open_rgb
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

pytestmark = [pytest.mark.long, pytest.mark.package(name="prefix_sharing")]

DECODING = Decoding(max_new_tokens=8)
TOLERANCE = 1e-4
# What the documentation states for bfloat16: batches alone move its logits by this share of the largest one.
BFLOAT16_SHARE = 0.05
ASKED = tuple(
    Question(f"{number}-{trait}", "trait", f"{how} this person {trait}? Answer with Yes or No.", "yes_no")
    for number, how in enumerate(("Is", "Do you think that this is", "Does the picture show"))
    for trait in ("kind", "brave", "a very honest and patient one", "dull")
)
WORDS = (
    Question("job", "work", "What does this person do for work? Give your best guess."),
    Question("lead", "lead", "A leader or a follower? Say why."),
)
SHARED_MOST = {"paligemma": "vision", "paligemma2": "vision", "blip2_t5": "vision"}

every_family = pytest.mark.parametrize("family", FAMILIES, scope="module")  # one after the other: each is loaded once
Key = tuple[str, str]
Logits = dict[Key, torch.Tensor]


def with_questions(tasks: Sequence[ImageTask], questions: tuple[Question, ...]) -> list[ImageTask]:
    from dataclasses import replace

    return [replace(task, questions=questions) for task in tasks]


def answers(engine: HfEngine, tasks: Iterable[ImageTask]) -> dict[tuple[str, str], Answer]:
    found = [answer for batch in engine.answer(tasks) for answer in batch]
    assert [answer.error for answer in found if answer.error] == []
    return {(answer.image_id, answer.question_id): answer for answer in found}


def plain_inputs(engine: HfEngine, task: ImageTask, question: Question) -> dict[str, Any]:
    """One image and one prompt through the processor, as a script would."""
    processor = engine._session.loaded.processor
    written = engine.prompt_format.with_processor(processor)
    prompt = written.text(question.text)
    own_start = {} if written.adds_start_token(prompt) else {"add_special_tokens": False}
    inputs = dict(processor(text=prompt, images=open_rgb(task.path), return_tensors="pt", **own_start))
    inputs.pop("labels", None)
    text = engine._session.loaded.model.config.get_text_config()
    if getattr(text, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = torch.tensor([[text.decoder_start_token_id]])
    return inputs


def one_at_a_time(engine: HfEngine, tasks: Sequence[ImageTask]) -> Logits:
    model, found = engine._session.loaded.model, {}
    for task in tasks:
        for question in task.questions:
            inputs = plain_inputs(engine, task, question)
            inputs = {n: v.to(model.dtype) if v.is_floating_point() else v for n, v in inputs.items()}
            with torch.no_grad():
                found[task.image_id, question.question_id] = model(**inputs).logits[0, -1].float()
    return found


def shared(engine: HfEngine, tasks: Sequence[ImageTask]) -> Logits:
    """The logits that the engine's own way of asking reads."""
    found: Logits = {}
    for task in tasks:
        (group,) = engine._session.build_inputs(task).groups
        strategy = engine._session._strategy_for(group.encoded)
        for _, places, logits in strategy.logits([group.encoded], [(prompts[0], ()) for _, prompts in group]):
            for place, row in zip(places, logits[0], strict=True):
                found[task.image_id, group.questions[place].question_id] = row
    return found


def difference(left: Logits, right: Logits, pair: Callable[[Key], Key] = lambda key: key) -> float:
    return max(float((left[key] - right[pair(key)]).abs().max()) for key in left)


@every_family
def test_shared_logits_are_those_of_one_prompt_at_a_time(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    engine = HfEngine(HfSpec(str(tiny_family(family))), DECODING, HfOptions(threads=1))
    some = with_questions(tasks[:3], ASKED)
    plain, ours = one_at_a_time(engine, some), shared(engine, some)
    scale = max(1.0, max(float(row.abs().max()) for row in plain.values()) / 10)
    assert ours.keys() == plain.keys()
    assert difference(ours, plain) <= TOLERANCE * scale
    assert max(float((ours[key].softmax(-1) - plain[key].softmax(-1)).abs().max()) for key in plain) <= 1e-5
    assert engine.runtime()["sharing"] == SHARED_MOST.get(family, "tree")

    pictures = [task.image_id for task in some]
    names = [question.question_id for question in ASKED]
    other_picture = {name: pictures[place - 1] for place, name in enumerate(pictures)}
    rolled = {name: names[place - 1] for place, name in enumerate(names)}
    assert difference(ours, plain, lambda key: (other_picture[key[0]], key[1])) > 10 * TOLERANCE * scale
    assert difference(ours, plain, lambda key: (key[0], rolled[key[1]])) > 100 * TOLERANCE * scale


@every_family
def test_the_rest_of_the_batch_changes_nothing(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    """One question at a time, a few tokens at a time, or all at once: the same numbers and the same words."""
    folder = tiny_family(family)
    some = with_questions(tasks[:2], (*ASKED[:4], *WORDS))
    spec = HfSpec(str(folder))
    small = answers(HfEngine(spec, DECODING, HfOptions(batch_size=1, max_tokens=16, threads=1)), some)
    large = answers(HfEngine(spec, DECODING, HfOptions(batch_size=64, max_tokens=4096, threads=1)), some)
    single = HfEngine(spec, DECODING, HfOptions(threads=1))
    alone: dict[Key, Answer] = {}
    for task in some:
        for question in task.questions:
            alone |= answers(single, with_questions([task], (question,)))
    assert small.keys() == large.keys() == alone.keys()
    for key, answer in alone.items():
        for other in (small[key], large[key]):
            assert other.text == answer.text
            if answer.numbers is not None and other.numbers is not None:
                assert dict(other.numbers) == pytest.approx(dict(answer.numbers), rel=2e-3, abs=1e-5)


@every_family
def test_generated_words_are_those_of_plain_generate(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    engine = HfEngine(HfSpec(str(tiny_family(family))), DECODING, HfOptions(threads=1))
    some = with_questions(tasks[:3], WORDS)
    found = answers(engine, some)
    model, tokenizer = engine._session.loaded.model, engine._session.loaded.processor.tokenizer
    for task in some:
        for question in WORDS:
            inputs = plain_inputs(engine, task, question)
            inputs.pop("decoder_input_ids", None)
            output = model.generate(**inputs, max_new_tokens=8, do_sample=False)[0]
            start = inputs["input_ids"].shape[1]
            new = output[start:] if torch.equal(output[:start], inputs["input_ids"][0]) else output
            expected = tokenizer.decode(new, skip_special_tokens=True).strip()
            assert found[task.image_id, question.question_id].text == expected


@pytest.mark.parametrize("family", ["llava", "qwen2_5_vl", "gemma3", "paligemma", "internvl"])
def test_bfloat16_stays_within_what_is_stated(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    engine = HfEngine(HfSpec(str(tiny_family(family)), dtype="bfloat16"), DECODING, HfOptions(threads=1))
    some = with_questions(tasks[:2], ASKED)
    plain, ours = one_at_a_time(engine, some), shared(engine, some)
    largest = max(float(row.abs().max()) for row in plain.values())
    assert difference(ours, plain) <= BFLOAT16_SHARE * max(1.0, largest)


@pytest.mark.parametrize("family", ["paligemma", "paligemma2", "blip2_t5"])
def test_more_sharing_than_the_family_allows_is_refused(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    engine = HfEngine(HfSpec(str(tiny_family(family))), DECODING, HfOptions(sharing="tree", threads=1))
    with pytest.raises(Fp2Error, match="sharing=tree would give wrong answers"):
        answers(engine, with_questions(tasks[:1], ASKED))


def test_the_check_detects_a_prefix_lm_on_the_tree(tiny_family: Callable[[str], Path], tasks: list[ImageTask]) -> None:
    from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix

    """PaliGemma's answers would stay the same word for word; its logits are wrong by far more than rounding."""
    engine = HfEngine(HfSpec(str(tiny_family("paligemma"))), DECODING, HfOptions(threads=1))
    (task,) = with_questions(tasks[:1], ASKED)
    (group,) = engine._session.build_inputs(task).groups
    tree, plain = SharedPrefix(engine._session.loaded.model), one_at_a_time(engine, [task])
    wrong = {
        (task.image_id, group.questions[place].question_id): row
        for _, places, logits in tree.logits([group.encoded], [(prompts[0], ()) for _, prompts in group])
        for place, row in zip(places, logits[0], strict=True)
    }
    assert difference(wrong, plain) > 100 * TOLERANCE


def test_an_unknown_family_gets_the_most_that_passes_the_check(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2.engines.hf.families import FamilyFacts
    from fp2.engines.hf.model import LoadedModel

    some = with_questions(tasks[:2], ASKED)
    known = {
        name: answers(HfEngine(HfSpec(str(tiny_family(name))), DECODING, HfOptions(threads=1)), some)
        for name in ("llava",)
    }
    for name, shares in (("llava", "tree"), ("gemma3", "tree"), ("paligemma", "vision")):
        folder = tiny_family(name)
        engine = HfEngine(HfSpec(str(folder)), DECODING, HfOptions(threads=1))
        facts = FamilyFacts(raw_prompt=engine.facts.raw_prompt, text_only=engine.facts.text_only)
        session = engine._session
        monkeypatch.setattr(session, "loaded", LoadedModel(**{**vars(session.loaded), "facts": facts}))
        found = answers(engine, some)
        assert engine.runtime()["sharing"] == shares
        for key, answer in known.get(name, {}).items():
            assert found[key].numbers == pytest.approx(answer.numbers)


def test_sharing_that_changes_the_logits_is_refused(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix

    engine = HfEngine(HfSpec(str(tiny_family("llava"))), DECODING, HfOptions(threads=1))
    original = SharedPrefix._run
    monkeypatch.setattr(SharedPrefix, "_run", lambda self, *a: original(self, *a) + 0.5)
    with pytest.raises(Fp2Error, match=r"sharing=tree changes this model's logits by 0\.5"):
        answers(engine, with_questions(tasks[:1], ASKED))


def test_nothing_is_kept_of_answered_images(tiny_family: Callable[[str], Path], tasks: list[ImageTask]) -> None:
    """Nothing is kept of an image once it is answered: no cache, no features, no tensors."""
    import gc

    engine = HfEngine(HfSpec(str(tiny_family("llava"))), DECODING, HfOptions(threads=1))
    some = with_questions(tasks, (*ASKED, *WORDS))

    def alive() -> int:
        gc.collect()
        return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())

    answers(engine, some)
    before = alive()
    for _ in range(3):
        answers(engine, some)
    assert alive() <= before + 2
    assert np.isfinite([a.seconds for a in answers(engine, some).values()]).all()


@pytest.mark.parametrize("family", ["llava_next", "gemma3"])
def test_a_text_model_with_a_sliding_window(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask], tmp_path: Path
) -> None:
    """All layers of Mistral, some of Gemma's: fewer tokens than the image has."""
    folder = Path(shutil.copytree(tiny_family(family), tmp_path / family))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["sliding_window"] = 14
    (folder / "config.json").write_text(json.dumps(config))
    some = with_questions(tasks[:2], ASKED)
    wide = HfEngine(HfSpec(str(tiny_family(family))), DECODING, HfOptions(threads=1))
    narrow = HfEngine(HfSpec(str(folder)), DECODING, HfOptions(threads=1))
    plain, ours = one_at_a_time(narrow, some), shared(narrow, some)
    assert difference(plain, one_at_a_time(wide, some)) > 100 * TOLERANCE, "or the window cut nothing off"
    assert difference(ours, plain) <= TOLERANCE
    assert narrow.runtime()["sharing"] == "tree"
    words = with_questions(tasks[:2], WORDS)
    plain_words = answers(HfEngine(HfSpec(str(folder)), DECODING, HfOptions(sharing="none", threads=1)), words)
    assert {k: a.text for k, a in answers(narrow, words).items()} == {k: a.text for k, a in plain_words.items()}


JOB = Question(
    "job",
    "work",
    "Which job does this person have?\n{options}\nAnswer with the job only.",
    "choice",
    choices=("a nurse", "someone who cooks", "a judge"),
)


def stepwise(engine: HfEngine, task: ImageTask, text: str, ways: Sequence[tuple[int, ...]]) -> float:
    """The logarithm of the likelihood of any of `ways` behind a prompt, token by token from the model's own cache."""
    from dataclasses import replace

    model, total = engine._session.loaded.model, []
    for way in ways:
        inputs = plain_inputs(engine, task, replace(JOB, text=text))
        with torch.no_grad():
            output = model(**inputs, use_cache=True)
            logs = []
            for token in way:
                logs.append(float(torch.log_softmax(output.logits[0, -1].double(), dim=-1)[token]))
                output = model(
                    input_ids=torch.tensor([[token]]),
                    past_key_values=output.past_key_values,
                    use_cache=True,
                )
        total.append(sum(logs))
    return float(np.logaddexp.reduce(total))


@pytest.mark.parametrize("family", ["llava", "qwen2_5_vl", "gemma3", "paligemma", "internvl"])
def test_the_likelihoods_of_options_are_those_of_their_tokens_one_by_one(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    from fp2.engines.hf.likelihoods import option_tokens, orders_of, text_in_order

    engine = HfEngine(HfSpec(str(tiny_family(family))), DECODING, HfOptions(threads=1))
    (task,) = with_questions(tasks[:1], (JOB, ASKED[0]))
    found = answers(engine, [task])[task.image_id, "job"]
    tokenizer = engine._session.loaded.processor.tokenizer
    rows = np.array(
        [
            [
                stepwise(engine, task, text_in_order(JOB, order), option_tokens(tokenizer, option))
                for option in JOB.choices
            ]
            for order in orders_of(JOB, "rotations")
        ]
    )
    p = np.exp(rows - np.logaddexp.reduce(rows, axis=1, keepdims=True))
    assert found.numbers is not None
    assert found.numbers["log_likelihood"] == pytest.approx(rows.mean(axis=0), abs=1e-3)
    assert found.numbers["p"] == pytest.approx(p.mean(axis=0), abs=1e-4)
    assert found.numbers["order_range"] == pytest.approx(np.ptp(p, axis=0).max(), abs=1e-4)
    assert found.numbers["mass"] == pytest.approx(np.exp(rows).sum(axis=1).mean(), rel=1e-2)
    assert found.text == JOB.choices[int(p.mean(axis=0).argmax())]
    assert len({tuple(np.round(row, 3)) for row in rows}) == 3, "the order has to move the likelihoods"


@pytest.mark.parametrize("family", ["llava", "paligemma", "blip2_opt"])
def test_a_blind_model_gives_every_subject_the_same_answer(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask]
) -> None:
    from dataclasses import replace

    engine = HfEngine(HfSpec(str(tiny_family(family))), DECODING, HfOptions(threads=1))
    some = [replace(task, variant="blind", path=Path("nowhere.png")) for task in with_questions(tasks[:3], ASKED)]
    found = answers(engine, some)
    assert all(len({repr(found[t.image_id, q.question_id].numbers) for t in some}) == 1 for q in ASKED)
    seen = answers(engine, with_questions(tasks[:1], ASKED))
    assert any(seen[key].numbers != found[key].numbers for key in seen)
    assert engine.method(ASKED[0], blind=True)["blind"] == ("no picture" if family == "llava" else "grey picture")


@pytest.mark.parametrize("family", ["llava", "qwen2_5_vl", "gemma3"])
def test_images_scored_together_have_the_numbers_of_one_at_a_time(
    family: str, tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = Question("who", "who", "Who is this?", "choice", choices=("a nurse", "a cook", "someone else"))
    some = with_questions(tasks[:4], (*ASKED[:2], choice))
    spec = HfSpec(str(tiny_family(family)))
    together = HfEngine(spec, DECODING, HfOptions(threads=1, max_tokens=1024))
    found = answers(together, some)
    alone = HfEngine(spec, DECODING, HfOptions(threads=1, max_tokens=1024))
    monkeypatch.setattr(type(alone._session), "images_together", lambda self, group: 1)
    expected = answers(alone, some)
    assert together.model_calls < alone.model_calls
    for key, answer in expected.items():
        assert found[key].text == answer.text
        for name, value in (answer.numbers or {}).items():
            assert (found[key].numbers or {})[name] == pytest.approx(value, rel=2e-3, abs=1e-5)
