"""Answers of the bundled model in other dtypes and batch sizes agree; changed ones do not."""

from __future__ import annotations

from pathlib import Path

from bench import REPOSITORY

from fp2.data.pixels import digest_image
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec
from fp2.engines.hf.placement import Placement
from fp2.methods.audit.again import answers_to, disagreement, evidence_of
from fp2.methods.audit.agreement import TOLERANCES, tolerance_of
from fp2.methods.audit.leaves import rounded_answer
from fp2.tables import Decoding, ImageTask, Question

QUESTIONS = (
    Question("job", "job", "What does this person do?"),
    Question("rich", "rich", "Is this person rich?", "yes_no"),
)


def engine(folder: Path, dtype: str, batch: int, sharing: str) -> HfEngine:
    options = HfOptions(batch_size=batch, sharing=sharing, device="cpu")  # type: ignore[arg-type]
    spec = HfSpec.of({"id": str(folder), "dtype": dtype}, Placement.of(options))
    return HfEngine(spec, Decoding(max_new_tokens=6), options)


CHECKPOINT = REPOSITORY / "fp2" / "models" / "peeps_vlm"


def test_honest_answers_agree_and_changed_ones_do_not(squares: Path) -> None:
    paths = sorted(squares.glob("*.png"))[:2]
    tasks = [ImageTask(path.stem, path.stem, path, digest_image(path).sha256 or "", QUESTIONS) for path in paths]
    stimuli = [(task, question) for task in tasks for question in QUESTIONS]
    stated = answers_to(engine(CHECKPOINT, "float32", 16, "auto"), stimuli)
    for dtype, batch in (("float32", 1), ("bfloat16", 16)):
        auditor = engine(CHECKPOINT, dtype, batch, "none")
        now = answers_to(auditor, stimuli)
        tolerance = tolerance_of({"dtype": "float32"}, {"dtype": dtype})
        for task, question in stimuli:
            answer = now[task.image_id, question.question_id]
            before = stated[task.image_id, question.question_id]
            value = rounded_answer(before.text, before.numbers)
            assert disagreement(value, answer, auditor, task, question, tolerance) is None
            changed = f"A kind {value}" if isinstance(value, str) else (value + 0.5) % 1
            assert disagreement(changed, answer, auditor, task, question, tolerance) is not None
    task, question = stimuli[0]
    evidence = evidence_of(auditor, task, question, "A kind nurse", now[task.image_id, "job"].text or "")
    assert evidence.tie > TOLERANCES["bfloat16"].tie
