"""Models behind a server with an OpenAI-compatible interface: text by chat completions, probabilities if offered.

The weights of a server cannot be known from outside. What it reports about itself is part of the response key (and of
the results), its address is not: a server whose report is unchanged is taken to be the same one. With `revision` the
user can name what the server does not report.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from fp2.engines.base import ESTIMATED, BaseEngine, ModelProfile, Price, Remembered, failed, seed_of, versions
from fp2.engines.reasoning import Split, reasoned_answer, scored_while_reasoning
from fp2.engines.server.asking import ask_about
from fp2.engines.server.chat import (
    METHOD,
    PATH,
    Completion,
    Shown,
    chat_body,
    post_chat,
    probe_images,
    read_completion,
    with_fields,
    with_limit,
)
from fp2.engines.server.client import IS_PATH, Channel, ServerClient, UnreachableError, base_name, without_folder
from fp2.engines.server.limits import Limits, Spending
from fp2.engines.server.options import KEY_VARIABLE, ServerOptions, ServerSpec, parse_addresses
from fp2.engines.server.reasoning import find_parameter, reasons, request_fields
from fp2.engines.server.replies import RefusedError
from fp2.engines.server.report import (
    Report,
    ServerReports,
    find_method,
    method_of,
    raise_if_fatal,
    request_report,
    score,
    uses_images,
)
from fp2.engines.server.scoring import Body, Probabilities, Reply, ScoringMethod
from fp2.errors import Fp2Error, nearest
from fp2.hashing import digest
from fp2.plugins import SCORING, load
from fp2.tables import Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    import sqlite3

SCORED = frozenset({"yes_no", "choice"})
_UNEQUAL = "the servers report different facts about themselves or the model"
_START = "Start the server, or correct the address"


class OpenAICompatEngine(BaseEngine):
    """Answers from a server.

    Parameters
    ----------
    spec : ServerSpec
    decoding : Decoding
        Sampled answers are requested with their own seed each; not every server uses it.
    options : ServerOptions
    connection : sqlite3.Connection, optional
        Where the server's report is remembered.
    verify_files : bool
        Try the scoring methods again even if the report has not changed.
    """

    Options = ServerOptions
    serves: ClassVar[tuple[str, ...]] = ("openai_compat",)
    takes: ClassVar[tuple[str, ...]] = ("api", "options")
    priced: ClassVar[bool] = True
    needs: ClassVar[Mapping[str, str]] = {
        "base_url": "Give http(s)://host:port/v1",
        "id": "Give its name on the server, which the address lists under /models",
    }

    def __init__(
        self,
        spec: ServerSpec,
        decoding: Decoding,
        options: ServerOptions | None = None,
        *,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> None:
        self.spec, self.decoding, self.options, self.model_calls = spec, decoding, options or ServerOptions(), 0
        self.addresses = parse_addresses(spec.base_url)
        if self.options.scoring == "sampled" and spec.options.get("temperature") not in (None, 1):
            message = "sampled answers estimate the probabilities at temperature 1"
            raise Fp2Error(message, where="model.options.temperature", fix="Set it to 1, or leave it out")
        self._verify = verify_files
        self._reports = ServerReports(connection)
        self._methods: dict[str, ScoringMethod] = {}
        self._from_memory = False
        self._trial: asyncio.Future[bool] | None = None
        self._reasons = decoding.reasoning not in ("off", "auto")
        self._silent: set[str] = set()  # addresses that did not report
        self._limits = Limits(
            self.options.requests_per_minute, self.options.tokens_per_minute, Spending(self.profile().price)
        )
        self._served_by = [Counter[str]() for _ in self.addresses]
        self._served: dict[str, set[str]] = {"models": set(), "fingerprints": set()}

    def profile(self) -> ModelProfile:
        """Return price and rate, as far as they are given."""
        chosen = self.options
        if chosen.price_input is None or chosen.price_output is None:
            return ModelProfile(rate=chosen.rate)
        return ModelProfile(price=Price(chosen.price_input, chosen.price_output), rate=chosen.rate)

    @classmethod
    def create(
        cls, model: Mapping[str, Any], options: ServerOptions, decoding: Decoding, **memory: Unpack[Remembered]
    ) -> OpenAICompatEngine:
        """Return the engine for a config; see `EngineFactory.create`."""
        key = str(model.get("api_key_env") or KEY_VARIABLE)
        fields = model.get("options") or {}
        spec = ServerSpec(model["base_url"], str(model["id"]), key, model.get("revision"), fields, model.get("api"))
        return cls(spec, decoding, options, **memory)

    def check_machine(self) -> None:
        """Raise Fp2Error if the server lists its models and this one is not among them."""
        if others := self._report.others:
            fix = nearest(self.spec.id, others)
            raise Fp2Error(f"the server has no model {self.spec.id!r}", where="model.id", fix=fix)

    @property
    def notices(self) -> list[str]:
        """What the user should know before anything is asked; for the terminal only, since it names the server."""
        messages = []
        for address in self.addresses:
            if not address.loopback:
                plain = "" if address.encrypted else ", unencrypted"
                messages.append(f"Images leave this machine: those without an answer are sent to {address.host}{plain}")
        if self._silent and not self._from_memory:
            messages.append(f"Servers that do not answer: {len(self._silent)} of {len(self.addresses)}")
        if self._from_memory:
            when = datetime.fromtimestamp(self._report.asked).isoformat(" ", "minutes")
            messages.append(f"The server does not answer; its last report of {when} is used")
        return messages

    @property
    def limitations(self) -> list[str]:
        """Whether probabilities are estimated from samples, and whether the server decides how text is sampled."""
        lines: list[str] = []
        if self.options.scoring == "sampled":
            stated = {"precision": precision} if (precision := self.options.precision) else {}
            lines.append(ESTIMATED(samples=self._method("yes_no").identity()["samples"], of="answers", **stated))
        if self.spec.options.get("temperature", 0) is None:
            lines.append("The server decides at which temperature answers are sampled; asked again, they may differ")
        return lines

    def identity(self) -> dict[str, object]:
        """Return the model's name, the server's report (`server`), and the user's `revision`."""
        model = {"model": self.spec.id}
        if IS_PATH.match(self.spec.id):  # a path stays on this machine, but two folders are two models
            model = {"model": base_name(self.spec.id), "place": digest(self.spec.id)}
        report = dict(self._report.reported)
        if isinstance(entry := report.get("model"), dict):
            report["model"] = {name: without_folder(value) for name, value in entry.items()}
            model |= {"place": digest([self.spec.id, entry])} if report["model"] != entry else {}
        return {"engine": "openai_compat", **model, "revision": self.spec.revision, "server": report}

    def method(self, question: Question, blind: bool = False) -> dict[str, object]:
        """Return how a question is asked; for probabilities, the scoring method that the server offers."""
        sampled = self.options.scoring == "sampled"
        if question.kind in SCORED and not sampled and self.decoding.reasoning not in ("off", "auto"):
            raise scored_while_reasoning(self.spec.id, switch=True, where=f"question '{question.question_id}'")
        fields = self._reasoning_fields  # found before probabilities are asked for with them
        method: dict[str, object] = {"name": METHOD}
        if question.kind in SCORED:
            method = dict(self._method(question.kind).identity())
        if self.decoding.reasoning != "auto":
            budget = self.decoding.reasoning_budget
            method["reasoning"] = {"fields": fields, "budget": budget} if budget else "off"
        if self.spec.options:
            method["options"] = dict(self.spec.options)
        if self.spec.api:
            method["api"] = self.spec.api
        return {**method, "blind": "no picture"} if blind else method  # hashed: do not reword

    def most_images(self, question: Question) -> int:
        """Return 2 in chat completions, 1 in requests for typed decisions."""
        return 2 if question.kind not in SCORED or self._method(question.kind).path == PATH else 1

    def lacking(self, question: Question) -> Mapping[str, str]:
        """Return which numbers of a yes/no answer are given `NEVER` or `SOMETIMES`; the others always."""
        return self._method(question.kind).lacking if question.kind == "yes_no" else {}

    def runtime(self) -> dict[str, object]:
        """Return what is recorded but not hashed; `served` is the model and system that the replies named."""
        return {
            "device": "server",
            "batch_size": self.options.concurrency,
            "attention": None,
            "sharing": "up to the server",
            "served": {name: sorted(map(without_folder, servers)) for name, servers in self._served.items()},
            "versions": versions(("httpx2", "pillow")),
        }

    def client(self) -> ServerClient:
        """Return a client for other requests (`ServerClient.stream`), to the servers that were planned with."""
        self._check_same_server()
        return self._client()

    @functools.cached_property
    def _reasoning_fields(self) -> dict[str, object]:
        """What switches the model's reasoning, in every request; nothing where that is left to the server."""
        if self.decoding.reasoning == "auto":
            return {}
        switch = "off" if self.decoding.reasoning == "off" else "on"
        held = self.remembered(
            f"reasoning {switch}",
            lambda client: {"parameter": find_parameter(client, self.spec.id, self.decoding)},
            "reasoning",
        )
        return request_fields(str(held["parameter"]), self.decoding)

    def remembered(self, key: str, find: Callable[[ServerClient], dict[str, object]], what: str) -> dict[str, object]:
        """Return how this server is asked for `what`: what `find` returned while its report was the present one."""
        if held := self._report.methods.get(key):
            return held
        if self._from_memory:
            message = f"the server does not answer, and was never asked for {what} before"
            raise Fp2Error(message, where="model.base_url", fix=_START)
        with self._client() as client:
            held = self._report.methods[key] = find(client)
        self._remember(self._report)
        return held

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers as they arrive."""
        tasks = iter(tasks)
        first = next(tasks, None)
        if first is None:
            return
        self._check_same_server()
        _ = self._reasoning_fields  # found before the client is made, which sends them
        self._trial = None  # of another event loop
        with self._client() as client:
            try:
                checked_tasks = self._checked(client, itertools.chain([first], tasks))
                yield from ask_about(client, checked_tasks, self._ask, self._bodies, 2 * self.options.concurrency)
            finally:
                self._count(client)

    @functools.cached_property
    def _report(self) -> Report:
        """The servers' report, requested now; the last one if none answers."""
        reports = [self._reports.get(address.base, self.spec.id) for address in self.addresses]
        remembered = next((report for report in reports if report is not None), None)
        try:
            report = self._request_report()
        except UnreachableError as error:
            if remembered is None:
                raise Fp2Error(str(error), where="model.base_url", fix=_START) from error
            self._from_memory = True
            return remembered
        if remembered is not None and remembered.reported == report.reported and not self._verify:
            report.methods, report.uses_images = remembered.methods, remembered.uses_images
        self._remember(report)
        return report

    def _remember(self, report: Report) -> None:
        for address in self.addresses:
            if address.base not in self._silent:
                self._reports.put(address.base, self.spec.id, report)

    def _request_report(self) -> Report:
        """Return what the servers report; those that do not answer are checked before they get a request.

        Raises
        ------
        UnreachableError
            If none answers.
        Fp2Error
            If two report different facts: they would give different answers.
        """
        self._silent, first, error = set(), None, None
        with self._client(attempts=2, timeout=min(10.0, self.options.timeout)) as client:
            requests = [
                client.submit(request_report(client.channel(server, only=True), self.spec.id))
                for server in client.pool.servers
            ]
            for server, future in zip(client.pool.servers, requests, strict=True):
                try:
                    report = future.result()
                except UnreachableError as silence:
                    self._silent.add(server.address.base)
                    error = silence
                    continue
                if first is not None and report.reported != first.reported:
                    raise Fp2Error(_UNEQUAL, where="model.base_url", fix="Serve the same model by the same software")
                first = first or report
        if first is None:
            raise error or UnreachableError("there is no server", silent=True)
        return first

    async def _admit(self, channel: Channel) -> None:
        """Raise RefusedError if a server that was silent reports other facts than the others, or ignores images."""
        if (await request_report(channel, self.spec.id)).reported != self._report.reported:
            raise RefusedError(_UNEQUAL)
        if self._report.uses_images and not await uses_images(channel, self.spec.id, probe_images()["black"]):
            raise RefusedError("a server ignores images")

    def _check_same_server(self) -> None:
        if not self._from_memory:
            return
        try:
            report = self._request_report()
        except UnreachableError as error:
            raise Fp2Error(str(error), where="model.base_url", fix="Start the server, then run again") from error
        if report.reported != self._report.reported:
            message = "the server's report has changed since it last answered"
            raise Fp2Error(message, where="model.base_url", fix="Run the same command again")

    def _checked(self, client: ServerClient, tasks: Iterable[ImageTask]) -> Iterator[ImageTask]:
        """Yield tasks of the kinds that the servers can answer, which is checked once for each kind."""
        for task in tasks:
            kinds = {question.kind for question in task.questions}
            for kind in sorted(kinds & SCORED):
                self._method(kind)
            if (kinds - SCORED or self.options.scoring == "sampled") and not task.blind:
                self._check_uses_images(client)
            yield task

    def _check_uses_images(self, client: ServerClient) -> None:
        """Raise if the server silently ignores images: its prompt is not longer with an image."""
        if self._report.uses_images:
            return
        try:
            used_servers = [
                client.run(uses_images(client.channel(server, only=True), self.spec.id, probe_images()["black"]))
                for server in client.pool.servers
                if server.admitted
            ]
        except (RefusedError, UnreachableError) as error:
            raise_if_fatal(error, PATH, self.spec.options)
            return  # the error is reported with each answer
        if not all(used_servers):
            raise _ignores_images()
        self._report.uses_images = True
        self._remember(self._report)

    def _method(self, kind: str) -> ScoringMethod:
        """Return the scoring method for a kind of question: remembered, or found now."""
        if self.options.scoring == "sampled":
            precision = self.options.precision if kind == "yes_no" else None
            sampled: ScoringMethod = load(SCORING, "sampled", "engine.scoring")(
                self.options.samples, self.decoding, precision
            )
            return sampled
        if kind not in self._methods:
            key = f"{kind} {self.options.scoring}"
            method = method_of(self._report.methods.get(key, {}))
            if method is None:
                if self._from_memory:
                    message = "the server does not answer, and was never asked for probabilities before"
                    raise Fp2Error(message, where="model.base_url", fix=_START)
                with self._client() as client:
                    method = find_method(client.channel(), self.spec.id, kind, self.options.scoring, probe_images())
                self._report.methods[key] = method.identity()
                self._remember(self._report)
            self._methods[kind] = method
        return self._methods[kind]

    def _client(self, *, attempts: int | None = None, timeout: float | None = None) -> ServerClient:
        name = self.spec.key_variable
        key = (os.environ.get(name) or "").strip() or None
        if key is not None and not (key.isascii() and key.isprintable()):
            raise Fp2Error("the API key has characters that an API key cannot have", where=name, fix="Copy it again")
        hosted = any(not address.loopback for address in self.addresses)
        if key is None and name != KEY_VARIABLE and hosted:  # a server without a key has the default name
            raise Fp2Error("the environment variable with the API key is not set", where=name, fix=f"export {name}=...")
        client = ServerClient(
            self.addresses,
            key,
            hide={self.spec.id: base_name(self.spec.id)} if IS_PATH.match(self.spec.id) else None,
            concurrency=self.options.concurrency,
            timeout=timeout or self.options.timeout,
            attempts=attempts or self.options.attempts,
            limits=self._limits,
            admit=self._admit,
            messages=self.spec.api == "messages",
        )
        client.fields = self.spec.options
        client.also = dict(self.__dict__.get("_reasoning_fields", {}))
        for server in client.pool.servers:
            server.admitted = server.address.base not in self._silent
        return client

    def _count(self, client: ServerClient) -> None:
        for counts, server in zip(self._served_by, client.pool.servers, strict=True):
            counts.update(replies=server.replies, failures=server.failures, excluded=int(server.excluded is not None))
            if server.reports_cache:
                counts.update(prompt_tokens=server.prompt_tokens, cached_tokens=server.cached_tokens)

    def serving(self) -> dict[str, object]:
        """Return how many requests each server answered and failed, and the share of prompts from its prefix cache.

        The share is that of the tokens, over the servers that report it; None where none does.
        """
        total = sum(self._served_by, Counter[str]())
        if not total["replies"]:
            return {}
        prompts, cached = total["prompt_tokens"], total["cached_tokens"]
        return {
            "servers": [
                {name: counts[name] for name in ("replies", "failures", "excluded")} for counts in self._served_by
            ],
            "prompt_tokens": prompts,
            "cached_tokens": cached,
            "cached_share": cached / prompts if prompts else None,
            "spent": self._limits.spending.stated(),
        }

    @property
    def spending(self) -> Spending:
        """What the replies cost so far."""
        return self._limits.spending

    def spend_at_most(self, cost: float | None) -> None:
        """Set the most that further answers may cost; see `HasPrice`."""
        self._limits.spending.most = cost

    def _bodies(self, question: Question, image: Shown = None, seed: int = 0) -> list[Body]:
        """Return the requests that ask a question, without the fields that all have."""
        if question.kind in SCORED:
            return self._method(question.kind).requests(self.spec.id, question, image, self.decoding.choice_orders)
        body = chat_body(self.spec.id, question.text, image, self.decoding, seed)
        return [body | self._longer if self._reasons else body]

    @property
    def _longer(self) -> Body:
        """The limit of tokens of an answer with reasoning before it."""
        return {"max_tokens": self.decoding.max_new_tokens + self.decoding.reasoning_budget}

    def _seed(self, task: ImageTask, question: Question) -> int:
        return seed_of(self.decoding, task, question) % 2**31  # some servers take no larger one

    def requests(self, task: ImageTask, question: Question, image: Shown) -> list[Body]:
        """Return the chat completions that ask a question about an image, complete: for a file of requests.

        Parameters
        ----------
        image : str, tuple of str or None
            As `fp2.engines.server.chat.shown` returns it; None shows none.

        Raises
        ------
        Fp2Error
            If the question is asked by another endpoint than that of chat completions.
        """
        if question.kind in SCORED and (path := self._method(question.kind).path) != PATH:
            fix = "Set engine.scoring=logprobs or engine.scoring=sampled"
            raise Fp2Error(f"{path} takes no file of requests", where="engine.scoring", fix=fix)
        fields = {**self._reasoning_fields, **self.spec.options}
        limit = str(self.remembered("token limit", self._find_limit, "the name of its limit of tokens")["name"])
        bodies = self._bodies(question, image, self._seed(task, question))
        return [with_limit(with_fields(body, fields), limit) for body in bodies]

    def _find_limit(self, client: ServerClient) -> dict[str, object]:
        """Return the name of the limit of tokens, after asking whether the server uses images."""
        try:
            used = client.run(uses_images(client.channel(), self.spec.id, probe_images()["black"]))
        except (RefusedError, UnreachableError) as error:
            raise_if_fatal(error, PATH, self.spec.options)
            raise Fp2Error(str(error), where="model.base_url", fix="Try again, or ask it by fp2 run") from error
        if not used:
            raise _ignores_images()
        return {"name": client.token_limit}

    def read(self, task: ImageTask, question: Question, replies: Sequence[Reply]) -> Answer:
        """Return the answer in the replies to `requests`, a failed one where they have none."""
        try:
            if question.kind in SCORED:
                method = self._method(question.kind)
                return _scored(task, question, method.read(replies, question, self.decoding.choice_orders))
            return self._in_words(task, question, self._read(replies[0]))
        except RefusedError as error:
            return failed(task, question, str(error))
        except Exception as error:  # a reply can contain anything
            return failed(task, question, f"the reply cannot be read ({type(error).__name__})")

    async def _ask(self, channel: Channel, task: ImageTask, question: Question, image: Shown) -> Answer:
        """Ask one question about one image; an error fails this answer only, unless it would fail every answer."""
        started = time.perf_counter()
        path = PATH
        self.model_calls += 1
        try:
            if question.kind in SCORED:
                method = self._method(question.kind)
                path = method.path
                scored = await score(channel, method, self.spec.id, question, image, self.decoding.choice_orders)
                answer = _scored(task, question, scored)
            else:
                answer = await self._ask_in_words(channel, task, question, image)
        except (RefusedError, UnreachableError) as error:
            raise_if_fatal(error, path, self.spec.options)
            return failed(task, question, str(error))
        except Fp2Error:
            raise
        except Exception as error:  # a reply can contain anything; it is the error of this answer only
            return failed(task, question, f"the server's reply cannot be read ({type(error).__name__})")
        return replace(answer, seconds=time.perf_counter() - started)

    async def _ask_in_words(self, channel: Channel, task: ImageTask, question: Question, image: Shown) -> Answer:
        """Ask for an answer in words; a model that turns out to reason is asked once more, with tokens for that."""
        reasons = self._reasons
        (body,) = self._bodies(question, image, self._seed(task, question))
        completion = self._read(await post_chat(channel, body))
        if completion.cut and completion.split.reasoning is None and not reasons:
            self._reasons |= await self._tries_reasoning(channel)
        self._reasons |= completion.split.reasoning is not None
        if self._reasons and not reasons and completion.cut and self.decoding.reasoning_budget:
            self.model_calls += 1
            completion = self._read(await post_chat(channel, body | self._longer))
        return self._in_words(task, question, completion)

    def _in_words(self, task: ImageTask, question: Question, completion: Completion) -> Answer:
        split = completion.split
        if self._reasons and completion.cut and split.reasoning is None:
            split = Split("", None)  # the prompt has opened the reasoning, and nothing has closed it
        return reasoned_answer(
            task, question, split, tokens=completion.tokens, reasoning_tokens=completion.reasoning_tokens
        )

    async def _tries_reasoning(self, channel: Channel) -> bool:
        """Return whether the model reasons, which an answer that ends at its limit does not show; asked once."""
        if self._trial is None:
            self.model_calls += 1
            self._trial = asyncio.ensure_future(reasons(channel, self.spec.id, self.decoding))
        try:
            return await asyncio.shield(self._trial)
        except (RefusedError, UnreachableError):
            return False

    def _read(self, reply: Reply) -> Completion:
        for name, key in (("models", "model"), ("fingerprints", "system_fingerprint")):
            if isinstance(value := reply.get(key), str) and value:
                self._served[name].add(value)
        return read_completion(reply, self.decoding)


def _ignores_images() -> Fp2Error:
    message = "the server ignores images: its prompt has the same length with and without one"
    return Fp2Error(message, where="model.id", fix="Serve a vision-language model")


def _scored(task: ImageTask, question: Question, scored: Probabilities) -> Answer:
    return Answer(task.image_id, question.question_id, scored.text, None, 0.0, scored.tokens, scored.numbers)
