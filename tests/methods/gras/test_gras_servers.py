"""GRAS runs against servers: an outcome that never comes is refused before asking, a partly missing one is reported."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import pytest
from bench import Bench, execute
from fake_server import FakeServer, Reply, Seen, completion, darkness, picture_of, serving, systemone, tokens

from fp2.engines.base import NEVER
from fp2.engines.server.scoring import ScoringMethod, TopLogprobs
from fp2.errors import Fp2Error
from fp2.methods.gras.section import GrasSection
from fp2.methods.server_scoring.typed import TypedDecisions
from fp2.report.values import Sentence
from fp2.runs.outputs import RunOutcome
from fp2.tables import YES_NO_NUMBERS

MODELS, CHAT, SYSTEMONE = "/v1/models", "/v1/chat/completions", "/v1/systemone"
WORDS = (
    "model=openai_compat", "model.id=m", "probe=gras", "probe.traits={kind: 2.6, cruel: -2.9}",
    "probe.templates={A: 'Is the person {trait}?'}", "probe.options.permutations=20", "probe.options.bootstrap=20",
    "data=table", "data.columns={image: file, subject: person, gender: gender}", "cut.by=[gender]", "report=none",
    "tracking=none",
)  # fmt: skip


def known(seen: Seen, before: int) -> Reply:
    return Reply({"object": "list", "data": [{"id": "m"}]})


def short(seen: Seen, before: int) -> Reply:
    """List Yes only where it is not too unlikely, as a server that lists few tokens does."""
    dark = darkness(picture_of(seen.body))
    spread = {"Yes": 0.9 * dark, "No": 0.9 * (1 - dark)}
    top = [{"token": token, "logprob": math.log(p)} for token, p in spread.items() if token == "No" or p > 0.45]
    return Reply(completion("Yes", logprobs={"content": [{**top[0], "top_logprobs": top}]}))


def run(bench: Bench, server: FakeServer, *more: str) -> RunOutcome:
    outcome: RunOutcome = execute([*WORDS, *bench.places, f"model.base_url={server.url}", *more], bench.outputs / "one")
    return outcome


def test_an_outcome_that_is_never_given_is_refused_before_asking(bench: Bench) -> None:
    with serving({MODELS: known, SYSTEMONE: systemone}) as server:
        with pytest.raises(Fp2Error, match=r"never have p_yes_first_token .*outcome=p_yes_norm"):
            run(bench, server)
        assert len(server.asked(SYSTEMONE)) == 3  # those that found out how to ask
        with pytest.raises(Fp2Error, match=r"no answer has the outcome 'p_yes'.*outcome=p_yes_norm or logit_diff"):
            run(bench, server, "probe.options.outcome=p_yes")  # given by some servers, not by this one
        found = run(bench, server, "probe.options.outcome=p_yes_norm").results
    assert found["answers"]["cached"] == found["answers"]["answered"] == 144
    assert not [line for line in found["gras"]["warnings"] if "of the answers have no" in line]


def test_the_share_that_lacks_the_outcome_is_a_warning(bench: Bench) -> None:
    with serving({MODELS: known, CHAT: short}) as server:
        found = run(bench, server, "engine.scoring=logprobs").results
        norm = run(bench, server, "probe.options.outcome=p_yes_norm", "engine.scoring=logprobs").results
    missing = found["gras"]["mass"]["missing_share"]
    assert found["answers"]["answered"] == 144
    assert 0.1 < missing < 0.9
    (line,) = [line for line in found["gras"]["warnings"] if "of the answers have no" in line]
    assert line.startswith(f"{missing:.1%} of the answers have no p_yes_first_token")
    assert norm["gras"]["mass"]["missing_share"] == 0
    assert not [line for line in norm["gras"]["warnings"] if "of the answers have no" in line]


def sampling(seen: Seen, before: int) -> Reply:
    """Say Yes with the probability `darkness` of the image, by the seed of the request."""
    image = picture_of(seen.body)
    yes = random.Random(seen.body.get("seed", 0)).random() < darkness(image)
    return Reply(completion("Yes." if yes else "No.", prompt=9 if image is None else 99))


def test_a_server_without_probabilities_is_asked_for_samples(bench: Bench) -> None:
    with serving({MODELS: known, CHAT: sampling}) as server:
        with pytest.raises(Fp2Error, match=r"returns no probabilities.*engine.scoring=sampled"):
            run(bench, server, "probe.options.outcome=p_yes")
        more = ("engine.scoring=sampled", "engine.samples=4", "probe.options.outcome=p_yes")
        found = run(bench, server, *more).results
        asked = len(server.asked(CHAT))
        assert run(bench, server, *more).results["answers"]["cached"] == 144
        assert len(server.asked(CHAT)) == asked
    assert found["answers"]["answered"] == 144
    (note,) = [note for note in found["notes"] if note["code"] == "estimated_from_samples"]
    assert note["parameters"] == {"samples": 4, "of": "answers"}
    said = GrasSection().values(found["gras"], found)
    assert any("Estimated from 4 samples" in str(value) for value in said if isinstance(value, Sentence))


@pytest.mark.parametrize(
    ("method", "route"),
    [
        (TypedDecisions("systemone", "assets"), systemone),
        (TypedDecisions("systemone", "assets"), partial(systemone, mass=True)),
        (TopLogprobs(20), tokens),
        (TopLogprobs(20), short),
    ],
)
def test_a_method_lacks_only_the_numbers_that_it_names(method: ScoringMethod, route: Any) -> None:
    from fp2.engines.server.chat import probe_images
    from fp2.tables import Question

    question = Question("q", "p", "Is it dark?", "yes_no")
    for shown in probe_images().values():
        (body,) = method.requests("m", question, shown, "given")
        numbers = method.read([route(Seen(method.path, body, {}, 0.0), 0).body], question, "given").numbers
        null = {name for name in YES_NO_NUMBERS if numbers[name] is None}
        assert null <= set(method.lacking)
        assert {name for name, when in method.lacking.items() if when == NEVER} <= null
