"""What `fp2 batch` does: the same plan, keys and store as `fp2 run`, with files between asking and answering."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    NOT_SUPPLIED,
    Answer,
    Asks,
    Fp2Error,
    OpenAICompatEngine,
    Output,
    Progress,
    ResponseStore,
    WithdrawnImages,
    ask,
    check_cost,
    check_names,
    digest,
    expected_cost,
    failed,
    finish_purges,
    load_config,
    load_inputs,
    open_images,
    open_storage,
    plan_answers,
    register_origins,
    shown,
)
from fp2.methods.batch.vendors import VENDORS, Vendor

if TYPE_CHECKING:
    from fp2.extension import Config, ImageTask, Inputs, Question, Storage

Body = Mapping[str, Any]
HALF = 0.5
"""The price of a batch, of that of single requests: OpenAI, Anthropic and Google state it."""


@dataclass(frozen=True)
class Planned:
    """A run that is asked by files.

    Attributes
    ----------
    inputs : Inputs
    engine : OpenAICompatEngine
    storage : Storage
    withdrawn : WithdrawnImages
    """

    inputs: Inputs
    engine: OpenAICompatEngine
    storage: Storage
    withdrawn: WithdrawnImages


@contextmanager
def _planned(config: Config, progress: Progress) -> Iterator[Planned]:
    """Yield what the run of a config plans, with its store open."""
    finish_purges(config, progress)
    with ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store:
        protocol, inputs = load_inputs(config, store, progress)
        engine = inputs.engine
        if not isinstance(protocol, Asks) or not isinstance(engine, OpenAICompatEngine):
            fix = "Choose model=openai, anthropic, gemini or openai_compat"
            raise Fp2Error("only models behind a server have a batch API", where="model", fix=fix)
        withdrawn = WithdrawnImages(Path(config.paths.state), inputs.people)
        yield Planned(
            inputs, engine, open_storage(protocol, inputs, plan_answers(protocol, inputs), withdrawn), withdrawn
        )


def _vendor(name: str | None, config: Config) -> Vendor:
    if name is None:
        name = config.model.name if config.model.name in VENDORS else "openai"
    check_names([name], VENDORS, "unknown form", "--form")
    return VENDORS[name]


def _stem(storage: Storage, task: ImageTask) -> Iterator[tuple[Question, str]]:
    """Yield the questions of a task with the beginning of their requests' ids, which says which answer it is."""
    for question, key in zip(task.questions, storage.lease_keys(task), strict=True):
        yield question, digest([key, question.text, question.sample])[:56]  # 64 characters are allowed with the number


def write(overrides: Sequence[str], form: str | None, folder: Path, *, as_json: bool = False) -> None:
    """Write the requests of all answers that the store lacks into files of a folder, split by the vendor's limits."""
    config = load_config(overrides)
    vendor = _vendor(form, config)
    if any(folder.glob("requests-*")):
        raise Fp2Error("the folder has requests already", where=f"--to {folder}", fix="Name another, or delete them")
    with Output(as_json) as out, _planned(config, Progress(quiet=as_json)) as planned:
        storage, battery = planned.storage, planned.inputs.battery
        assert battery is not None
        if (price := planned.engine.profile().price) is not None:
            full = expected_cost(storage.forecast(), planned.engine, battery.questions, battery.decoding, price)
            cost = replace(full, amount=full.amount * HALF)
            out.say(f"cost         {cost}, at half the price", cost=cost.amount)
            if config.answers.max_cost is not None:
                check_cost([cost], config.answers.max_cost)
        storage.load()
        folder.mkdir(parents=True, exist_ok=True)
        unread = Counter[str]()
        names = _write_files(vendor, _requests(planned, unread), folder)
        for name in names:
            out.path("requests", folder / name)
        n = sum(names.values())
        out.say(
            f"{n:,} requests in {len(names)} file(s); they contain the images: delete them when they are sent",
            requests=n,
            unread=unread.total(),
        )
        if unread:
            out.say(f"{unread.total():,} image(s) cannot be read: {next(iter(unread))}")


def _requests(planned: Planned, unread: Counter[str]) -> Iterator[tuple[str, Body]]:
    """Yield (id, chat completion) of every answer that is missing; count why images cannot be read."""
    for task in planned.storage.open_tasks():
        try:
            image = None if task.blind else shown(open_images(task))
        except Exception as error:  # a decoder can raise anything; the next run reports it with the image's answers
            unread[str(error)] += 1
            continue
        for question, stem in _stem(planned.storage, task):
            for number, body in enumerate(planned.engine.requests(task, question, image)):
                yield f"{stem}-{number}", body


def _write_files(vendor: Vendor, requests: Iterable[tuple[str, Body]], folder: Path) -> dict[str, int]:
    """Write requests; return how many are in each file, by its name. Only the owner may read the files."""
    counts: dict[str, int] = {}
    for number, lines in enumerate(_split(vendor, requests), 1):
        name = f"requests-{number:03}{vendor.suffix}"
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(vendor.begin.encode())
            counts[name] = 0
            for line in lines:
                file.write((vendor.between.encode() if counts[name] else b"") + line)
                counts[name] += 1
            file.write(vendor.end.encode())
    return counts


def _split(vendor: Vendor, requests: Iterable[tuple[str, Body]]) -> Iterator[Iterator[bytes]]:
    """Yield the lines of each file, within the vendor's limits; a file's lines are taken before the next file."""
    lines = (json.dumps(vendor.request(name, body), ensure_ascii=False).encode() for name, body in requests)
    waiting = next(lines, None)

    def one_file() -> Iterator[bytes]:
        nonlocal waiting
        number, size = 0, len(vendor.begin) + len(vendor.end)
        while waiting is not None and number < vendor.most_requests:
            size += len(waiting) + len(vendor.between)
            if number and size > vendor.most_bytes:
                return
            yield waiting
            number, waiting = number + 1, next(lines, None)

    while waiting is not None:
        yield one_file()


def read(overrides: Sequence[str], form: str | None, files: Sequence[Path], *, as_json: bool = False) -> None:
    """Take the results in files into the store, as answers under the keys of the run that the settings describe.

    A result that failed is a failed answer; one that is missing is left for the next run or batch.
    """
    config = load_config(overrides)
    vendor = _vendor(form, config)
    for path in files:
        if not path.is_file():
            raise Fp2Error("no such file", where=str(path))
    results = {name: (body, reason) for path in files for name, body, reason in vendor.results(path)}
    with Output(as_json) as out, _planned(config, Progress(quiet=as_json)) as planned:
        storage = planned.storage
        stems = {stem for task in storage.open_tasks() for _, stem in _stem(storage, task)}  # all: nothing is loaded
        others = sum(name.rpartition("-")[0] not in stems for name in results)
        if others == len(results):
            what = f"none of {len(results):,} results is of this run"
            fix = "Give the settings with which the requests were written, and --form"
            raise Fp2Error(what, where=str(files[0]), fix=fix)
        with planned.withdrawn.writing() as images:
            keys = storage.keys_by_image()
            register_origins(config, planned.inputs.dataset, keys, planned.inputs.store, without=images)
        supplied = _Results(planned.engine, storage, results)
        ask(storage, supplied, attempts=1, error_budget=1.0)  # type: ignore[arg-type]
        counts = supplied.counts
        for name, n in (
            ("answers", counts["answers"]),
            ("failed", counts["failed"]),
            ("missing", counts["missing"]),
            ("of others", others),
        ):
            out.say(f"{name:<12} {n:,}", **{name.replace(" ", "_"): n})
        spent = {**(all_in := planned.engine.spending.stated()), "cost": all_in["cost"] and all_in["cost"] * HALF}
        cost = "" if spent["cost"] is None else f", cost {spent['cost']:,.4g} (half the price)"
        out.say(f"{'tokens':<12} {spent['tokens_in']:,} in, {spent['tokens_out']:,} out{cost}", spent=spent)
        if counts["failed"] + counts["missing"]:
            out.say("What failed or is missing is asked by fp2 run, and written again by fp2 batch write")


class _Results:
    """Answers questions from results, in the place of an engine in the asking loop."""

    def __init__(
        self, engine: OpenAICompatEngine, storage: Storage, results: Mapping[str, tuple[Body | None, str]]
    ) -> None:
        self._engine, self._storage, self._results = engine, storage, results
        self.counts = Counter[str]()
        self.model_calls = 0

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield the answers of each stimulus; what has no result yet is neither an answer nor a failure."""
        for task in tasks:
            answers = [self._answer(task, question, stem) for question, stem in _stem(self._storage, task)]
            self.counts.update(map(_outcome, answers))
            yield answers

    def _answer(self, task: ImageTask, question: Question, stem: str) -> Answer:
        requests = self._engine.requests(task, question, None)
        if any(f"{stem}-{number}" not in self._results for number in range(len(requests))):
            return Answer(task.image_id, question.question_id, None, NOT_SUPPLIED)
        found = [self._results[f"{stem}-{number}"] for number in range(len(requests))]
        spending = self._engine.spending
        for request, (body, _) in zip(requests, found, strict=True):
            if body is not None:
                spending.add(body, spending.expected(request))
        if all(body is None for body, _ in found):
            return failed(task, question, found[0][1])
        return self._engine.read(task, question, [body or {} for body, _ in found])


def _outcome(answer: Answer) -> str:
    if answer.error is None:
        return "answers"
    return "missing" if answer.error == NOT_SUPPLIED else "failed"
