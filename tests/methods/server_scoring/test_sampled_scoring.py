"""P(Yes) from sampled answers: shares are counted as they are said, and a GRAS run needs no probabilities."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from fake_server import FakeServer, Reply, Seen, completion, picture_of, serving
from scipy.stats import binom

from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.errors import Fp2Error
from fp2.methods.server_scoring.sampled import SampledAnswers
from fp2.tables import Answer, Decoding, ImageTask, Question

CHAT = "/v1/chat/completions"
KIND = Question("q", "p", "Is this person kind? Answer with Yes or No.", kind="yes_no")


def saying(*words: str, thought: str | None = None) -> Any:
    """Return a route that says one of the words after the other."""
    said: list[int] = []

    def route(seen: Seen, before: int) -> Reply:
        if seen.body["temperature"] != 1.0:
            return Reply(completion("Yes.", prompt=9 if picture_of(seen.body) is None else 99))
        said.append(seen.body["seed"])
        body = completion(words[(len(said) - 1) % len(words)])
        if thought:
            body["choices"][0]["message"]["reasoning_content"] = thought
        return Reply(body)

    return route


def ask(server: FakeServer, task: ImageTask, question: Question, samples: int = 5, **decoding: Any) -> Answer:
    options = ServerOptions(scoring="sampled", samples=samples, concurrency=1)
    engine = OpenAICompatEngine(ServerSpec(server.url, "some/model"), Decoding(**decoding), options)
    ((answer,),) = engine.answer([replace(task, questions=(question,))])
    return answer


def test_the_share_of_yes_is_counted_and_other_words_lower_the_mass(tasks: list[ImageTask]) -> None:
    with serving({CHAT: saying("Yes.", "no", " YES, she is", "I cannot say", "**No**", "Yesterday")}) as server:
        answer = ask(server, tasks[0], KIND, samples=6)
        seeds = [seen.body["seed"] for seen in server.asked(CHAT) if seen.body["temperature"] == 1.0]
    assert answer.text == "Yes"
    assert answer.numbers == {
        "p_yes": 2 / 6,
        "p_no": 2 / 6,
        "p_yes_first_token": None,
        "p_no_first_token": None,
        "p_yes_norm": 0.5,
        "mass": pytest.approx(4 / 6),
        "logit_difference": 0.0,
        "standard_error": pytest.approx(math.sqrt(2 / 6 * 4 / 6 / 5)),
    }
    assert len(set(seeds)) == 6


def test_a_probability_after_reasoning_is_that_of_the_answers(tasks: list[ImageTask]) -> None:
    with serving({CHAT: saying("Yes", "Yes", "No", thought="No, no, no.")}) as server:
        answer = ask(server, tasks[0], KIND, samples=3)
    assert answer.numbers is not None
    assert answer.numbers["p_yes"] == pytest.approx(2 / 3)
    assert answer.numbers["logit_difference"] == pytest.approx(math.log(2))


def shares(counts: list[tuple[int, int]]) -> list[Any]:
    """Return replies of (yes, no) in each stage."""
    return [completion(word) for yes, no in counts for word in ["Yes"] * yes + ["No"] * no]


@pytest.mark.parametrize(("samples", "precision"), [(5, 0.1), (3, 0.2), (20, 0.05)])
@pytest.mark.parametrize("p", [0.03, 0.3, 0.5])
def test_with_a_precision_the_estimates_of_probability_and_variance_have_no_bias(
    p: float, samples: int, precision: float
) -> None:
    """Every outcome of both stages with its binomial probability: the means are exact, not simulated."""
    method = SampledAnswers(samples, Decoding(), precision)
    assert method.most == max(math.ceil(0.25 / precision**2 - 1e-9), samples + 2)
    mean = square = variance = 0.0
    for yes in range(samples + 1):
        first = (yes, samples - yes)
        second = next(n for n in range(1 + method.most) if method.suffice(shares([first, (n, 0)])))
        assert 2 <= second <= method.most - samples
        for more in range(second + 1):
            numbers = method.read(shares([first, (more, second - more)]), KIND, "given").numbers
            weight = binom.pmf(yes, samples, p) * binom.pmf(more, second, p)
            mean += weight * numbers["p_yes"]
            square += weight * numbers["p_yes"] ** 2
            variance += weight * numbers["standard_error"] ** 2
    assert mean == pytest.approx(p, abs=1e-12)
    assert variance == pytest.approx(square - mean**2, abs=1e-12)
    assert math.sqrt(variance) < 1.1 * precision


def test_a_precision_ends_the_samples_of_an_answer_that_is_always_the_same_and_is_said(tasks: list[ImageTask]) -> None:
    options = ServerOptions(scoring="sampled", precision=0.1, concurrency=1)
    with serving({CHAT: saying("No")}) as server:
        engine = OpenAICompatEngine(ServerSpec(server.url, "some/model"), Decoding(), options)
        ((answer,),) = engine.answer([replace(tasks[0], questions=(KIND,))])
        n_asked = sum(seen.body["temperature"] == 1.0 for seen in server.asked(CHAT))
    assert (answer.text, n_asked) == ("No", 14)  # at most .25 / .1^2
    assert engine.method(KIND) == {"name": "sampled/1", "samples": 25, "seed": 0, "first": 5, "precision": 0.1}
    assert "at most 25 sampled answers each, a standard error of about 0.1" in str(engine.limitations[0])


def test_no_yes_and_no_no_is_a_failed_answer(tasks: list[ImageTask]) -> None:
    with serving({CHAT: saying("Perhaps.")}) as server:
        answer = ask(server, tasks[0], KIND)
    assert (answer.text, answer.error) == (None, "none of 5 sampled answers is Yes or No")


def test_options_are_counted_by_letter_or_by_name_in_every_order(tasks: list[ImageTask]) -> None:
    question = Question("c", "p", "Who is it?", kind="choice", choices=("nurse", "pilot"))
    with serving({CHAT: saying("A", "B.", "A) nurse", "nurse")}) as server:
        answer = ask(server, tasks[0], question, samples=4)
    # first order: A, B, A, nurse -> 3 of 4 nurse; second order (pilot, nurse): A, B, A, nurse -> 2 of 4 nurse
    assert answer.numbers is not None
    assert answer.numbers["p"] == pytest.approx([5 / 8, 3 / 8])
    assert answer.numbers["order_range"] == pytest.approx(1 / 4)


def test_an_article_is_no_letter_and_words_name_an_option(tasks: list[ImageTask]) -> None:
    question = Question("c", "p", "Where?", kind="choice", choices=("in a village", "in a city"))
    with serving({CHAT: saying("A pilot lives here.", "In a village.", "in a city")}) as server:
        answer = ask(server, tasks[0], question, samples=3)
    assert answer.numbers is not None
    assert answer.numbers["p"] == [0.5, 0.5]
    assert answer.numbers["mass"] == pytest.approx(2 / 3)


def test_samples_that_failed_say_nothing_of_the_probability(tasks: list[ImageTask]) -> None:
    def route(seen: Seen, before: int) -> Reply:
        if seen.body["temperature"] == 1.0 and before % 2:
            body = completion(None, finish_reason="length")
            body["choices"][0]["message"]["reasoning_content"] = "Let me see"
            return Reply(body)
        return Reply(completion("Yes", prompt=9 if picture_of(seen.body) is None else 99))

    with serving({CHAT: route}) as server:
        answer = ask(server, tasks[0], KIND, samples=6)
    assert answer.numbers is not None
    assert (answer.numbers["p_yes"], answer.numbers["mass"]) == (1.0, 1.0)


def test_the_same_question_about_the_same_image_has_the_same_seeds(tasks: list[ImageTask]) -> None:
    seeds: list[set[int]] = []
    for seed in (0, 0, 1):
        with serving({CHAT: saying("Yes")}) as server:
            ask(server, tasks[0], KIND, seed=seed)
            seeds.append({seen.body["seed"] for seen in server.asked(CHAT) if seen.body["temperature"] == 1.0})
    assert seeds[0] == seeds[1]
    assert not seeds[0] & seeds[2]


def test_one_sample_is_refused() -> None:
    from fp2.plugins import read_options

    with pytest.raises(Fp2Error, match="samples"):
        read_options(ServerOptions, {"scoring": "sampled", "samples": 1}, "engine")
    with pytest.raises(Fp2Error, match=r"only sampled answers have a precision \(engine.precision\)"):
        ServerOptions(precision=0.1)


@pytest.mark.parametrize("temperature", [0, 0.7])
def test_another_temperature_is_refused_before_a_server_is_asked(temperature: float) -> None:
    spec = ServerSpec("http://127.0.0.1:1/v1", "some/model", options={"temperature": temperature})
    with pytest.raises(Fp2Error, match=r"temperature 1 \(model.options.temperature\)"):
        OpenAICompatEngine(spec, Decoding(), ServerOptions(scoring="sampled"))
