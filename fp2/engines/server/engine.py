"""A client for any server that speaks OpenAI's API: words by chat completions, probabilities in the ways it offers.

Nobody can say from outside which weights a server has. What it tells of itself counts in the response key (and is put
into the results), its address does not: a server that tells nothing new is taken to be the same one. `revision` is
there for the user to say what the server does not.
"""

from __future__ import annotations

import functools
import itertools
import os
import queue
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fp2.engines.base import failed, seed_of
from fp2.engines.packages import versions
from fp2.engines.server import chat as server_words
from fp2.engines.server.client import (
    IS_PATH,
    RefusedError,
    ServerClient,
    UnreachableError,
    base_name,
    parse_address,
    place_free,
)
from fp2.engines.server.report import (
    SCORINGS,
    Report,
    ServerReports,
    ask_async,
    ask_report,
    find_way,
    key_refused,
    looks_at_pictures,
    way_of,
)
from fp2.engines.server.scoring import Way
from fp2.engines.server_pictures import picture, png, probe_pictures
from fp2.errors import Fp2Error, nearest, without_path
from fp2.hashing import digest
from fp2.tables import Answer, Decoding, ImageTask, Question

SCORED = frozenset({"yes_no", "choice"})
_START = "Start the server, or mend the address"


@dataclass(frozen=True)
class ServerSpec:
    """Which server and model.

    `id` is the name that the server knows the model by, `key_variable` the environment variable that holds the key (if
    the server wants one), `revision` the user's own word for which weights it serves.
    """

    base_url: str
    id: str
    key_variable: str = "OPENAI_API_KEY"
    revision: str | None = None


class OpenAICompatEngine:
    """Answers from a server.

    Parameters
    ----------
    spec : ServerSpec
    decoding : Decoding
        Sampled answers are asked for with a seed of their own each; whether a server heeds it is the server's affair.
    scoring : {"auto", "systemone", "decisions", "logprobs"}
        How to ask for probabilities; `auto` takes the first that the server offers.
    concurrency : int
        Requests on their way at once.
    timeout : float
        Seconds without a sign of the server after which a try has failed.
    attempts : int
        How often a request is tried before its answer has failed.
    connection : sqlite3.Connection, optional
        Where is remembered what the server told of itself.
    verify : bool
        Try out again what the server offers, even when that is remembered.
    """

    def __init__(
        self,
        spec: ServerSpec,
        decoding: Decoding,
        *,
        scoring: str = "auto",
        concurrency: int = 8,
        timeout: float = 120.0,
        attempts: int = 5,
        connection: sqlite3.Connection | None = None,
        verify: bool = False,
    ) -> None:
        if scoring not in SCORINGS:
            raise Fp2Error(f"unknown value {scoring!r}", where="engine.scoring", fix=nearest(scoring, SCORINGS))
        for name, value in (("concurrency", concurrency), ("timeout", timeout), ("attempts", attempts)):
            if value <= 0:
                raise Fp2Error(f"{name} is {value}", where=f"engine.{name}", fix="It must be above 0")
        self.spec, self.decoding, self.model_calls = spec, decoding, 0
        self.address = parse_address(spec.base_url)
        self._scoring, self._verify = scoring, verify
        self._concurrency, self._timeout, self._attempts = concurrency, timeout, attempts
        self._reports = ServerReports(connection)
        self._ways: dict[str, Way] = {}
        self._from_memory = False
        self._seen: dict[str, set[str]] = {"models": set(), "fingerprints": set()}

    @property
    def notices(self) -> list[str]:
        """What the user should be told before anything is asked; for the terminal only, since it names the server."""
        lines = []
        if not self.address.loopback:
            open_ = "" if self.address.encrypted else ", unencrypted"
            lines.append(f"Pictures leave this machine: those not answered yet are sent to {self.address.host}{open_}")
        if self._from_memory:
            when = datetime.fromtimestamp(self._report.asked).isoformat(" ", "minutes")
            lines.append(f"The server does not answer; it is taken to be as it was on {when}")
        return lines

    def identity(self) -> dict[str, Any]:
        """Return what is known of the model: its name, what the server told (`server`), and the user's `revision`."""
        model = {"model": self.spec.id}
        if IS_PATH.match(self.spec.id):  # no machine's folder leaves it, yet two folders are two models
            model = {"model": base_name(self.spec.id), "place": digest(self.spec.id)}
        told = dict(self._report.told)
        if isinstance(entry := told.get("model"), dict):
            told["model"] = {name: place_free(value) for name, value in entry.items()}
            model |= {"place": digest([self.spec.id, entry])} if told["model"] != entry else {}
        return {"engine": "openai_compat", **model, "revision": self.spec.revision, "server": told}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how a question is asked; for probabilities, the way that the server offers (tried out if unknown)."""
        method = self._way(question.kind).identity() if question.kind in SCORED else {"name": server_words.METHOD}
        return {**method, "blind": "no picture"} if blind else method

    def lacking(self, question: Question) -> Mapping[str, str]:
        """Return which numbers of a yes/no answer come `never` or `sometimes`; always, what is not named."""
        return self._way(question.kind).lacking if question.kind == "yes_no" else {}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """Return nothing: a real model sees the pixels only."""
        return {}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded but never hashed; `served` is what the replies said of model and system."""
        return {
            "device": "server",
            "batch_size": self._concurrency,
            "attention": None,
            "sharing": "up to the server",
            "served": {name: sorted(place_free(value) for value in found) for name, found in self._seen.items()},
            "versions": versions(("httpx2", "pillow")),
        }

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers as they come.

        Raises
        ------
        Fp2Error
            If there is no server, it refuses the key, does not know the model, looks at no picture, or is no longer the
            one that the plan was made for.
        """
        tasks = iter(tasks)
        first = next(tasks, None)
        if first is None:
            return
        self._check_same_server()
        with self._client() as client:
            yield from self._all(client, itertools.chain([first], tasks))

    @functools.cached_property
    def _report(self) -> Report:
        """What the server tells of itself, asked now; from memory if it is not there."""
        remembered = self._reports.recall(self.address.base, self.spec.id)
        try:
            fresh = self._ask_report()
        except UnreachableError as error:
            if remembered is None:
                raise Fp2Error(
                    str(error), where="model.base_url", fix="Start the server, or mend the address"
                ) from error
            self._from_memory = True
            return remembered
        if remembered is not None and remembered.told == fresh.told and not self._verify:
            fresh.ways, fresh.sees = remembered.ways, remembered.sees
        self._reports.keep(self.address.base, self.spec.id, fresh)
        return fresh

    def _ask_report(self) -> Report:
        with self._client(attempts=2, timeout=min(10.0, self._timeout)) as client:
            return ask_report(client, self.spec.id)

    def _check_same_server(self) -> None:
        """Refuse to ask a server that is not the one whose report went into the plan."""
        if not self._from_memory:
            return
        try:
            fresh = self._ask_report()
        except UnreachableError as error:
            raise Fp2Error(str(error), where="model.base_url", fix="Start the server, then run again") from error
        if fresh.told != self._report.told:
            what = "the server tells something else of itself than when it was last there"
            raise Fp2Error(what, where="model.base_url", fix="Run the same command again, now that it is there")

    def _settle(self, client: ServerClient, task: ImageTask) -> None:
        """Find out, once, what has to be known of the server before a task is asked."""
        kinds = {question.kind for question in task.questions}
        for kind in sorted(kinds & SCORED):
            self._way(kind)
        if kinds - SCORED and not task.blind:
            self._check_sight(client)

    def _check_sight(self, client: ServerClient) -> None:
        """Refuse a server that drops pictures without a word: the prompt is as long with a picture as without one."""
        if self._report.sees:
            return
        try:
            sees = looks_at_pictures(client, self.spec.id, probe_pictures()["black"])
        except (RefusedError, UnreachableError) as error:
            self._raise_if_hopeless(error, server_words.PATH)
            return  # what is wrong will be told with each answer
        if not sees:
            what = "the server takes no notice of pictures: a prompt is as long with one as without"
            raise Fp2Error(what, where="model.id", fix="Serve a vision-language model")
        self._report.sees = True
        self._reports.keep(self.address.base, self.spec.id, self._report)

    def _way(self, kind: str) -> Way:
        """Return how to ask for probabilities: remembered, or found out now."""
        if kind not in self._ways:
            name = f"{kind} {self._scoring}"
            way = way_of(self._report.ways.get(name, {}))
            if way is None:
                if self._from_memory:
                    what = "the server does not answer, and it was never asked for probabilities before"
                    raise Fp2Error(what, where="model.base_url", fix=_START)
                with self._client() as client:
                    way = find_way(client, self.spec.id, kind, self._scoring, probe_pictures())
                self._report.ways[name] = way.identity()
                self._reports.keep(self.address.base, self.spec.id, self._report)
            self._ways[kind] = way
        return self._ways[kind]

    def _client(self, *, attempts: int | None = None, timeout: float | None = None) -> ServerClient:
        name = self.spec.key_variable
        key = (os.environ.get(name) or "").strip() or None
        if key is not None and not (key.isascii() and key.isprintable()):
            raise Fp2Error("the key holds characters that no key has", where=name, fix="Copy it again")
        return ServerClient(
            self.address,
            key,
            hide={self.spec.id: base_name(self.spec.id)} if IS_PATH.match(self.spec.id) else None,
            concurrency=self._concurrency,
            timeout=timeout or self._timeout,
            attempts=attempts or self._attempts,
        )

    def _all(self, client: ServerClient, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Keep twice `concurrency` questions waiting while pictures are read here; yield what has come."""
        done: queue.SimpleQueue[Future[Answer]] = queue.SimpleQueue()
        waiting = 0
        for task in tasks:
            self._settle(client, task)
            try:
                shown = None if task.blind else png(picture(task))
            except Exception as error:  # whatever a decoder raises is this picture's problem
                reason = f"the picture cannot be read: {without_path(error, task.path)}"
                yield [failed(task, question, reason) for question in task.questions]
                continue
            for question in task.questions:
                while waiting >= 2 * self._concurrency:
                    batch = _collect(done)
                    waiting -= len(batch)
                    yield batch
                client.submit(self._one(client, task, question, shown)).add_done_callback(done.put)
                waiting += 1
        while waiting:
            batch = _collect(done)
            waiting -= len(batch)
            yield batch

    async def _one(self, client: ServerClient, task: ImageTask, question: Question, picture: str | None) -> Answer:
        """Ask one question about one picture; what goes wrong is its error, unless all others would fail alike."""
        started = time.perf_counter()
        text, numbers, tokens, path = "", None, 0, server_words.PATH
        self.model_calls += 1
        try:
            if question.kind in SCORED:
                way, orders = self._way(question.kind), self.decoding.choice_orders
                path = way.path
                scored = await ask_async(client, way, self.spec.id, question, picture, orders)
                text, numbers, tokens = scored.text, scored.numbers, scored.tokens
            else:
                seed = seed_of(self.decoding, task, question) % 2**31  # all that some servers take
                body = server_words.words_body(self.spec.id, question.text, picture, self.decoding, seed)
                reply = await server_words.post_chat(client, body)
                self._note(reply)
                text, tokens = server_words.read_words(reply)
        except (RefusedError, UnreachableError) as error:
            self._raise_if_hopeless(error, path)
            return failed(task, question, str(error))
        except Fp2Error:
            raise
        except Exception as error:  # whatever a reply may hold that nobody thought of spoils this answer only
            return failed(task, question, f"the server's reply cannot be read ({type(error).__name__})")
        seconds = time.perf_counter() - started
        return Answer(task.image_id, question.question_id, text, None, seconds, tokens, numbers)

    def _note(self, reply: dict[str, Any]) -> None:
        for name, key in (("models", "model"), ("fingerprints", "system_fingerprint")):
            if isinstance(reply.get(key), str) and reply[key]:
                self._seen[name].add(reply[key])

    def _raise_if_hopeless(self, error: RefusedError | UnreachableError, path: str) -> None:
        """Raise the one line for what would befall every other question too."""
        if isinstance(error, RefusedError) and error.status == 401:
            raise key_refused(error) from error
        if isinstance(error, RefusedError) and error.status == 404:
            fix = "Check model.id, and model.base_url (it mostly ends in /v1)"
            raise Fp2Error(f"{path}: {error}", where="model.id", fix=fix) from error


def _collect(done: queue.SimpleQueue[Future[Answer]]) -> list[Answer]:
    """Wait for one answer; return it with all that have come besides."""
    batch = [done.get().result()]
    while True:
        try:
            batch.append(done.get_nowait().result())
        except queue.Empty:
            return batch
