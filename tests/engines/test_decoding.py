"""A decoding option is one field of `Decoding`: its marker brings it into response keys and to every engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from annotated_types import Gt, Le
from fake_server import Seen, serving, text_of, words
from reference_keys import response_key

from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.errors import Fp2Error
from fp2.tables import Decoding, DecodingOption, ImageTask, Question, QuestionKind


@dataclass(frozen=True, slots=True)
class WithTopP(Decoding):
    top_p: Annotated[
        float, Gt(0), Le(1), DecodingOption(request="top_p", processor="TopPLogitsWarper", of_sampling=True)
    ] = 1.0


def key(decoding: Decoding, kind: QuestionKind = "text") -> str:
    question = Question("q", "work", "What is their job?", kind, choices=("a", "b") if kind == "choice" else ())
    return response_key(
        engine={},
        method={},
        question=question,
        pixel_sha256="0" * 64,
        variant="original",
        variant_params={},
        decoding=decoding,
        task_identity={},
    )


def test_an_added_option_enters_keys_of_answers_in_words_unless_it_is_the_default() -> None:
    assert key(WithTopP(temperature=1.0)) == key(Decoding(temperature=1.0))
    assert key(WithTopP(temperature=1.0, top_p=0.5)) != key(Decoding(temperature=1.0))
    assert key(WithTopP(top_p=0.5)) == key(Decoding())  # nothing is sampled
    assert Decoding(temperature=0.7).of_reasoning() == {"temperature": 0.7}
    assert WithTopP(top_p=0.5).of_reasoning() == {"top_p": 0.5}  # a reasoning is sampled all the same
    for kind in ("yes_no", "choice"):
        assert key(WithTopP(top_p=0.5), kind) == key(Decoding(), kind)


def test_transformers_follow_it(tiny_llava: Path, tasks: list[ImageTask]) -> None:
    def texts(decoding: Decoding) -> dict[tuple[str, str], str | None]:
        engine = HfEngine(HfSpec(str(tiny_llava)), decoding, HfOptions(threads=1))
        return {(a.image_id, a.question_id): a.text for batch in engine.answer(tasks[:2]) for a in batch}

    greedy, sampled = texts(Decoding(max_new_tokens=6)), texts(WithTopP(max_new_tokens=6, temperature=1.5))
    assert sampled == texts(Decoding(max_new_tokens=6, temperature=1.5))
    assert sampled != greedy
    assert texts(WithTopP(max_new_tokens=6, temperature=1.5, top_p=1e-6)) == greedy


def test_a_server_is_sent_it(tasks: list[ImageTask]) -> None:
    def bodies(decoding: Decoding) -> list[dict[str, Any]]:
        with serving({"/v1/chat/completions": words}) as server:
            engine = OpenAICompatEngine(ServerSpec(server.url, "some/model"), decoding, ServerOptions())
            list(engine.answer(tasks[:1]))
            asked: list[Seen] = server.asked("/v1/chat/completions")
            return [seen.body for seen in asked if text_of(seen.body) != "Say yes."]

    assert {body["top_p"] for body in bodies(WithTopP(temperature=0.7, top_p=0.5))} == {0.5}
    assert {body["top_p"] for body in bodies(Decoding(temperature=0.7))} == {1.0}
    assert all("top_p" not in body for body in bodies(WithTopP(top_p=0.5)))


def test_an_option_that_an_engine_cannot_follow_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class OnServersOnly(Decoding):
        penalty: Annotated[float, DecodingOption(request="penalty", of_sampling=True)] = 0.0

    assert OnServersOnly(temperature=1.0).processors() == [("TemperatureLogitsWarper", 1.0)]
    with pytest.raises(Fp2Error, match="the engine does not support it"):
        OnServersOnly(temperature=1.0, penalty=0.1).processors()
