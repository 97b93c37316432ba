"""What a user would pick instead, on the same checkpoint and questions: DecisionPipeline and glance-vlm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefix_sharing_parts.calibration import clock
from prefix_sharing_parts.naive import still_processor

GLANCE_LIMIT = 240  # seconds


def decision_pipeline(
    model: Any, folder: Path, picture: Path, texts: Sequence[str], n_questions: int
) -> dict[str, Any]:
    """Time transformers' `DecisionPipeline` on `texts` and scale linearly to `n_questions` an image.

    It asks typed questions in a prompt of its own; here yes/no ones (`noul`), the image as the state.
    """
    from transformers.pipelines.decision import DecisionPipeline

    processor = still_processor(folder)
    decide = DecisionPipeline(model=model, tokenizer=processor.tokenizer, processor=processor)
    questions = {str(k): {"type": "noul", "instructions": text} for k, text in enumerate(texts)}
    request = {"state": "img-0", "questions": questions, "assets": {"img-0": str(picture)}}
    decide({**request, "questions": {"0": questions["0"]}})
    started = clock()
    answers = decide(request)
    seconds = clock() - started
    if len(answers) != len(texts):
        raise RuntimeError("the pipeline has not answered every question")
    return {"seconds_per_image": seconds / len(texts) * n_questions, "sampled_questions": len(texts)}


def glance(
    python: str | None, folder: Path, picture: Path, texts: Sequence[str], n_questions: int, threads: int
) -> dict[str, Any]:
    """Time glance-vlm's cached path in an environment of its own, `python` being that environment's interpreter.

    `texts` are asked in one request; what comes behind the image is scaled linearly to `n_questions`.
    """
    if not python:
        return {"not_measured": "no environment with glance-vlm was named (--glance-python)"}
    job = {"checkpoint": str(folder), "picture": str(picture), "texts": list(texts), "threads": threads}
    script = Path(__file__).with_name("glance_job.py")
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    try:
        done = subprocess.run(
            [python, str(script)],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=GLANCE_LIMIT,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"not_measured": f"{type(error).__name__}: {error}"[:300]}
    if done.returncode:
        return {"not_measured": (done.stderr.strip().splitlines() or ["no reason given"])[-1][:300]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    seconds = found["prefix_seconds"] + found["other_seconds"] / len(texts) * n_questions
    return {"seconds_per_image": seconds, "sampled_questions": len(texts), **found}
