"""One model in several processes: the answers of one process, and what a lost worker held is asked again."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fp2.engines.base import BaseEngine
from fp2.engines.build import build_engine
from fp2.engines.worker_options import WorkerOptions
from fp2.errors import Fp2Error
from fp2.methods.workers.engine import Dispatcher
from fp2.methods.workers.processes import Processes
from fp2.methods.workers.serve import Done, Ready, serve
from fp2.tables import Answer, Decoding, ImageTask, Question

QUESTIONS = tuple(Question(f"q{i}", "p", f"text {i}") for i in range(3))


def tasks(n: int) -> list[ImageTask]:
    return [ImageTask(f"i{i}", f"s{i}", Path(f"{i}.png"), f"{i:064d}", QUESTIONS) for i in range(n)]


class Scripted(BaseEngine):
    """Answers with the image's name; holds back `held` images as a batching engine does; `deadly` images end it."""

    def __init__(self, deadly: Mapping[str, int], mark: Path, held: int, model: str = "m") -> None:
        self.deadly, self.mark, self.held, self.model, self.model_calls = deadly, mark, held, model, 0

    def identity(self) -> dict[str, Any]:
        return {"model": self.model}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        return {}

    def runtime(self) -> dict[str, Any]:
        return {"pid": os.getpid()}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        stream = iter(tasks)
        while batch := list(itertools.islice(stream, self.held)):
            for task in batch:
                self._meet(task)
            self.model_calls += 1
            time.sleep(0.002)
            yield [
                Answer(task.image_id, q.question_id, f"{task.image_id}.{q.text}")
                for task in batch
                for q in task.questions
            ]

    def _meet(self, task: ImageTask) -> None:
        """End the process at a deadly image, as often as it says."""
        met = self.mark / task.image_id
        times = len(met.read_text()) if met.exists() else 0
        if times < self.deadly.get(task.image_id, 0):
            met.write_text("x" * (times + 1))
            os.kill(os.getpid(), signal.SIGKILL)


def scripted(deadly: Mapping[str, int], mark: Path, held: int = 4, model: str = "m") -> Scripted:
    return Scripted(deadly, mark, held, model)


def dispatcher(builds: Sequence[Any]) -> Dispatcher:
    from fp2.hashing import digest

    return Dispatcher(Processes(builds, ["cpu"] * len(builds)), len(builds), digest({"model": "m"}))


def texts(batches: Iterable[Sequence[Answer]]) -> dict[tuple[str, str], str | None]:
    every = list(itertools.chain.from_iterable(batches))
    found = {(answer.image_id, answer.question_id): answer.text for answer in every}
    assert len(found) == len(every), "answered twice"
    return found


def expected(n: int, failed: Iterable[str] = ()) -> dict[tuple[str, str], str | None]:
    return {
        (t.image_id, q.question_id): None if t.image_id in set(failed) else f"{t.image_id}.{q.text}"
        for t in tasks(n)
        for q in QUESTIONS
    }


def test_a_lost_worker_costs_only_the_image_that_ends_it_every_time(tmp_path: Path) -> None:
    deadly = {"i20": 1, "i150": 99}  # once, and always
    found = dispatcher([partial(scripted, deadly, tmp_path)] * 2)
    try:
        assert texts(found.answer(tasks(300))) == expected(300, failed=["i150"])
        assert len(found.reports) == 3
        assert all("SIGKILL" in line for line in found.reports)
        calls = found.model_calls
        assert texts(found.answer(tasks(10))) == expected(10)  # a second pass, with the workers that are there
        assert found.model_calls > calls > 300 / 4
        assert len(found.reports) == 3
    finally:
        found.close()


def test_all_workers_lost_before_they_answer_end_the_run_in_one_line(tmp_path: Path) -> None:
    found = dispatcher([partial(scripted, {"i0": 99, "i1": 99, "i2": 99}, tmp_path, 1)] * 2)
    with pytest.raises(Fp2Error, match="every worker was lost, the last: SIGKILL"):
        list(found.answer(tasks(40)))


def test_a_worker_with_another_model_is_refused(tmp_path: Path) -> None:
    found = dispatcher([partial(scripted, {}, tmp_path, 4, "other")])
    with pytest.raises(Fp2Error, match="has another model"):
        list(found.answer(tasks(2)))


def test_a_mistake_in_a_worker_is_the_users_error_and_ends_all() -> None:
    model = {"name": "x", "engine": "hf", "id": "/nowhere/model", "dtype": "float32"}
    processes = Processes([partial(build_engine, model, {"name": "hf", "device": "cpu"}, Decoding())] * 2, ["cpu"] * 2)
    found = Dispatcher(processes, 2, "x")
    with pytest.raises(Fp2Error, match=r"worker . \(cpu\): there is no model directory '/nowhere/model'"):
        list(found.answer(tasks(2)))
    assert not processes._processes


def test_a_reader_that_stops_early_ends_the_workers(tmp_path: Path) -> None:
    found = dispatcher([partial(scripted, {}, tmp_path, 1)] * 2)
    batches = found.answer(tasks(400))
    next(batches)
    pid = found.runtime["pid"]
    started = time.monotonic()
    batches.close()
    assert time.monotonic() - started < 2
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_inbox_ends_a_pass_even_if_the_engine_stops_before_it(tmp_path: Path) -> None:
    class Lazy(Scripted):
        def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
            next(iter(tasks))
            yield []

    class Over(BaseException):
        pass

    inbox, said = iter([*tasks(3), None]), []

    def receive() -> Any:
        item = next(inbox, Over)
        if item is Over:
            raise Over
        return item

    with pytest.raises(Over):
        serve(lambda: Lazy({}, tmp_path, 1), receive, said.append)
    assert isinstance(said[0], Ready)
    assert isinstance(said[-1], Done)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": []}, "no device is named"),
        ({"devices": ["gpu"]}, "unknown device 'gpu'"),
        ({"devices": ["cpu"], "ray": {"actors": 2}}, "engine.ray is set beside it"),
        ({"devices": ["cpu"], "device": "cuda"}, "engine.device is set beside it"),
        ({"devices": ["cpu"], "device_map": "auto"}, "engine.device_map is set beside it"),
        ({"ray": {"actors": 0}}, "engine.ray"),
    ],
)
def test_contradictions_are_refused_before_anything_starts(options: dict[str, Any], message: str) -> None:
    model = {"name": "x", "engine": "hf", "id": "/nowhere", "dtype": "float32"}
    with pytest.raises(Fp2Error, match=message):
        build_engine(model, {"name": "hf", **options}, Decoding())


def test_a_gpu_that_this_process_may_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    environments = Processes([], ["cuda:1", "cuda:0", "cpu"])._environments
    assert [one["CUDA_VISIBLE_DEVICES"] for one in environments] == ["7", "4", "4,7"]
    with pytest.raises(Fp2Error, match="CUDA_VISIBLE_DEVICES shows 2"):
        Processes([], ["cuda:2"])


def test_options_of_workers_leave_the_config_hash_alone() -> None:
    assert WorkerOptions(devices=["cpu"]).identity() == WorkerOptions().identity() == {}
