"""A model of transformers in two processes answers as in one: text and choices, from a checkpoint folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import save_tiny_llava

from fp2.data.pixels import open_rgb, pixel_sha256
from fp2.engines.build import build_engine
from fp2.tables import Answer, Decoding, ImageTask, Question

QUESTIONS = (
    Question("t", "p", "What do you think this person does for work?"),
    Question("c", "p", "Which one? {options}", "choice", choices=("nurse", "street")),
)


@pytest.mark.thorough
@pytest.mark.package(name="workers")
def test_two_processes_answer_as_one(tmp_path: Path, squares: Path) -> None:
    model = {"name": "tiny", "engine": "hf", "id": str(save_tiny_llava(tmp_path / "tiny")), "dtype": "float32"}
    paths = sorted(squares.glob("*.png"))[:10]
    tasks = [ImageTask(p.stem, p.stem, p, pixel_sha256(open_rgb(p)), QUESTIONS) for p in paths]
    found: list[dict[tuple[str, str], Answer]] = []
    for options in ({"device": "cpu"}, {"devices": ["cpu", "cpu"]}):
        engine = build_engine(model, {"name": "hf", **options}, Decoding(max_new_tokens=6))
        every = [answer for batch in engine.answer(tasks) for answer in batch]
        found.append({(one.image_id, one.question_id): one for one in every})
        assert len(every) == len(found[-1]) == 20
        assert engine.model_calls > 0
        assert ("workers" in engine.runtime()) == ("devices" in options)
    one, two = found
    assert {key: answer.text for key, answer in one.items()} == {key: answer.text for key, answer in two.items()}
    for key, answer in one.items():
        for name, value in (answer.numbers or {}).items():
            assert (two[key].numbers or {})[name] == pytest.approx(value, abs=1e-5)
