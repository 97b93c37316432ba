"""The client against a real server: `transformers serve` on loopback with the bundled model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_code import save_reasoning_peeps
from PIL import Image
from real_server import transformers_serve

from fp2.data.pixels import digest_image
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.errors import Fp2Error
from fp2.methods.peeps.data.source import load_peeps
from fp2.methods.peeps.data.spec import PeepsSpec
from fp2.tables import BLIND, Answer, Decoding, ImageTask, Question

MODEL = Path(__file__).parents[3] / "fp2" / "models" / "peeps_vlm"
DECODING = Decoding(max_new_tokens=40)
WORDS = (
    Question("work", "work", "What do you think this person does for work? Give your best guess."),
    Question("hood", "hood", "What kind of neighbourhood do you think this person lives in?"),
)
LEADER = Question("leader", "p", "Would this person be a leader?", "yes_no")
PLACE = Question("place", "p", "Where does this person live?", "choice", choices=("a city", "a village", "a farm"))


@pytest.fixture(autouse=True)
def short_pauses() -> None:
    """None here: a real server is given time before it is asked again."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerSpec]:
    """Serve the bundled model as one that can be asked to reason: then it answers the first of `WORDS` before."""
    folder = tmp_path_factory.mktemp("server")
    model = save_reasoning_peeps(folder / "peeps", WORDS[0].text)
    with transformers_serve(model, folder / "log", "--trust-remote-code") as url:
        yield ServerSpec(url, str(model))


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> list[ImageTask]:
    spec = PeepsSpec(n_subjects=6, images_per_subject=1, n_pairs=0)
    rows = load_peeps(tmp_path_factory.mktemp("peeps"), spec).people
    made = []
    for image_id, subject_id, path in zip(rows["image_id"], rows["subject_id"], rows["image_path"], strict=True):
        digest = digest_image(Path(path)).sha256
        assert digest is not None
        made.append(ImageTask(image_id, subject_id, Path(path), digest, WORDS))
    return made


def engine(server: ServerSpec, decoding: Decoding = DECODING, **options: Any) -> OpenAICompatEngine:
    return OpenAICompatEngine(server, decoding, ServerOptions(attempts=2, concurrency=4, **options))


def table(asked: HfEngine | OpenAICompatEngine, tasks: list[ImageTask]) -> dict[tuple[str, str], Answer]:
    found = [answer for batch in asked.answer(tasks) for answer in batch]
    assert not [answer.error for answer in found if answer.error]
    return {(answer.image_id, answer.question_id): answer for answer in found}


def test_text_is_that_of_the_model_in_this_process(server: ServerSpec, people: list[ImageTask]) -> None:
    ours = table(engine(server), people)
    theirs = table(HfEngine(HfSpec(str(MODEL)), DECODING, HfOptions(threads=1)), people)
    assert {key: answer.text for key, answer in ours.items()} == {key: answer.text for key, answer in theirs.items()}
    assert len({answer.text for answer in ours.values()}) > 6, "pictures and questions have to move the words"


@pytest.mark.thorough
def test_reasoning_is_switched_on_and_kept_apart(server: ServerSpec, people: list[ImageTask]) -> None:
    ours = table(engine(server, replace(DECODING, reasoning="on")), people)
    plain = table(engine(server), people)
    for (image, question), answer in ours.items():
        assert answer.text == plain[image, question].text
        assert (answer.numbers or {})["reasoning"] == plain[image, "work"].text
    assert not [answer.numbers for answer in plain.values() if answer.numbers]


@pytest.mark.package(name="server_scoring")
def test_probabilities_are_those_of_the_decision_pipeline(server: ServerSpec, people: list[ImageTask]) -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor
    from transformers.pipelines import DecisionPipeline

    asked = engine(server)
    assert asked.method(LEADER) == asked.method(PLACE) == {"name": "systemone/1", "form": "assets"}
    ours = table(asked, [replace(task, questions=(LEADER, PLACE)) for task in people])
    processor = AutoProcessor.from_pretrained(MODEL)
    model = AutoModelForImageTextToText.from_pretrained(MODEL)
    decide = DecisionPipeline(model=model, tokenizer=processor.tokenizer, processor=processor)
    for task in people:
        questions = {"leader": {"type": "noul", "instructions": LEADER.text}}
        for start in range(3):
            order = [PLACE.choices[(start + i) % 3] for i in range(3)]
            questions[str(start)] = {"type": "choice", "instructions": PLACE.text, "criteria": dict.fromkeys(order)}  # type: ignore[dict-item]
        picture = Image.open(task.path).convert("RGB")
        theirs = decide({"state": "[[picture-1]]", "assets": {"[[picture-1]]": picture}, "questions": questions})
        numbers = ours[task.image_id, "leader"].numbers or {}
        assert numbers["p_yes_norm"] == pytest.approx(theirs["leader"]["noul"], abs=1e-6)
        assert numbers["mass"] is None
        means = [sum(theirs[str(k)]["probabilities"][option] for k in range(3)) / 3 for option in PLACE.choices]
        assert (ours[task.image_id, "place"].numbers or {})["p"] == pytest.approx(means, abs=1e-6)
    found = [(ours[task.image_id, "leader"].numbers or {})["p_yes_norm"] for task in people]
    assert max(found) - min(found) > 0.01, "people have to move P(Yes)"


@pytest.mark.package(name="server_scoring")
def test_top_logprobs_are_refused_if_the_parameter_is_ignored(server: ServerSpec) -> None:
    with pytest.raises(Fp2Error, match="the server returns no top_logprobs"):
        engine(server, scoring="logprobs").method(LEADER)
    with pytest.raises(Fp2Error, match="404"):
        engine(server, scoring="decisions").method(LEADER)


@pytest.mark.package(name="server_scoring")
def test_without_an_image_every_subject_gets_the_same_answer(server: ServerSpec, people: list[ImageTask]) -> None:
    blind = [replace(task, variant=BLIND, questions=(LEADER,)) for task in people[:3]]
    assert len({str(answer.numbers) for answer in table(engine(server), blind).values()}) == 1


@pytest.mark.thorough
def test_a_model_that_is_not_served_is_reported(server: ServerSpec, people: list[ImageTask]) -> None:
    asked = OpenAICompatEngine(replace(server, id="another"), DECODING, ServerOptions(attempts=1))
    errors = {answer.error for batch in asked.answer(people[:1]) for answer in batch}
    assert len(errors) == 1
    assert "requested 'another'" in str(errors)
    assert str(Path(server.id).parent) not in str(errors)
