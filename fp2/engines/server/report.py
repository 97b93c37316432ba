"""What a server reports about itself and which scoring method it offers: found once, and remembered with the answers.

A plan needs both, since answers depend on them. A server that answers is asked (two small requests); the scoring
methods are tried again only if its report has changed. A server that does not answer is taken to be as it was last
time, so that a run whose answers are all in the store needs no server.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeVar

from fp2.engines.server.chat import PATH, Shown, chat_body, post_chat
from fp2.engines.server.client import Channel, UnreachableError
from fp2.engines.server.options import SAMPLING
from fp2.engines.server.replies import RefusedError, token_count
from fp2.engines.server.scoring import Probabilities, Reply, ScoringMethod, TopLogprobs
from fp2.errors import Fp2Error
from fp2.plugins import SCORING, installed, load
from fp2.store.database import CachedTable
from fp2.tables import ChoiceOrders, Decoding, Question

_MODEL_FIELDS = ("id", "owned_by", "root", "parent", "max_model_len", "meta")  # the others change with every start
_PROBES: Mapping[str, Question] = {
    "yes_no": Question("probe", "probe", "Is this picture dark?", "yes_no"),
    "choice": Question("probe", "probe", "What is this picture like?", "choice", choices=("dark", "bright")),
}

TYPED = "typed_decisions"
_T = TypeVar("_T")


@dataclass
class Report:
    """What is known about a server and a model.

    Attributes
    ----------
    reported : dict
        What the server reports about itself; part of the identity.
    methods : dict
        The identity of the scoring method for each kind of question.
    uses_images : bool
        Whether the server is known to use images when it answers in words.
    asked : float
        When `reported` was requested (seconds since 1970).
    others : tuple of str
        The models that the server lists, where the asked one is not among them; it is not stored.
    """

    reported: dict[str, object]
    methods: dict[str, dict[str, object]] = field(default_factory=dict)
    uses_images: bool = False
    asked: float = 0.0
    others: tuple[str, ...] = ()


class ServerReports:
    """Reports by address and model, in the table `server_reports` of an open SQLite database (or nowhere)."""

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        self._table = CachedTable(
            connection, "server_reports", ["address", "model"], "asked REAL NOT NULL, json TEXT NOT NULL"
        )

    def get(self, address: str, model: str) -> Report | None:
        """Return the last report, if there is one and it matches its checksum."""
        for asked_at, content in self._table.get([(address, model)]).values():
            report = json.loads(content)
            return Report(report["told"], report["ways"], report["sees"], asked=asked_at)
        return None

    def put(self, address: str, model: str, report: Report) -> None:
        """Keep a report in place of the last one."""
        content = json.dumps({"told": report.reported, "ways": report.methods, "sees": report.uses_images})
        self._table.put([(address, model, report.asked, content)])


async def request_report(channel: Channel, model: str) -> Report:
    """Return what a server says about a model (`/models`) and about itself (`/version`); either may report nothing.

    Raises
    ------
    UnreachableError
        If there is no server.
    Fp2Error
        If it refuses the key.
    """
    reported: dict[str, object] = {}
    listed = (await _get(channel, "/models", model)).get("data")
    entries = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    for entry in entries:
        if entry.get("id") == model:
            reported["model"] = {name: entry[name] for name in _MODEL_FIELDS if entry.get(name) is not None}
    others = tuple(str(entry["id"]) for entry in entries if entry.get("id") is not None)
    if any(fnmatchcase(model, name) or name == f"{model}:latest" for name in others):  # gateways, Ollama
        others = ()
    version = (await _get(channel, "/version", model, from_origin=True)).get("version")
    if isinstance(version, str):
        reported["version"] = version
    return Report(reported, asked=time.time(), others=others)


async def _get(channel: Channel, path: str, model: str, *, from_origin: bool = False) -> dict[str, object]:
    """Return the object at `path`, an empty one if the server refuses or fails."""
    try:
        return await channel.get(path, from_origin=from_origin)
    except RefusedError as error:
        if error.status == 401:
            await _check_key(channel, model, error)
        return {}
    except UnreachableError as error:
        if error.silent:
            raise
        return {}  # the server is there


async def _check_key(channel: Channel, model: str, error: RefusedError) -> None:
    """Raise if the key is refused for questions too: some hosts list their models to other credentials only."""
    try:
        await post_chat(channel, chat_body(model, "Say yes.", None, Decoding(max_new_tokens=1), 0), also=False)
    except RefusedError as refused:
        if refused.status == 401:
            raise key_refused(error) from refused


def key_refused(error: RefusedError) -> Fp2Error:
    """Return the one line for a wrong or missing key."""
    return Fp2Error(str(error), where="model.api_key_env", fix="Put the server's key into the variable that it names")


def raise_if_fatal(error: RefusedError | UnreachableError, path: str, options: Collection[str] | None = None) -> None:
    """Raise if every other question would fail too: a wrong key, an unknown model or endpoint, a field that is refused.

    `options` are the user's fields of a request; without them, which fields the server takes is being tried.
    """
    if options is not None and isinstance(error, RefusedError) and error.status in (400, 422):
        words = set(re.findall(r"\w+", str(error)))
        for name in words.intersection(options):
            fix = "Correct it, or remove it (~model.options.NAME)"
            raise Fp2Error(str(error), where=f"model.options.{name}", fix=fix) from error
        if refused := [name for name in SAMPLING if name in words]:
            fix = f"Leave it to the server: {' '.join(f'+model.options.{name}=null' for name in refused)}"
            raise Fp2Error(str(error), where=f"model.options.{refused[0]}", fix=fix) from error
    if isinstance(error, RefusedError) and error.status == 401:
        raise key_refused(error) from error
    if isinstance(error, RefusedError) and error.status == 404:
        fix = "Check model.id, and model.base_url (it mostly ends in /v1)"
        raise Fp2Error(f"{path}: {error}", where="model.id", fix=fix) from error


def scoring_methods(name: str) -> list[ScoringMethod]:
    """Return the scoring methods of a name in the order of preference, or all of them (`auto`)."""
    typed = load(SCORING, TYPED, "engine.scoring") if TYPED in installed(SCORING) else {}
    methods_of: dict[str, list[ScoringMethod]] = {**typed, "logprobs": [TopLogprobs(20), TopLogprobs(5)]}
    return [method for key, methods in methods_of.items() if name in ("auto", key) for method in methods]


def find_method(channel: Channel, model: str, kind: str, scoring: str, images: Mapping[str, str]) -> ScoringMethod:
    """Return the first scoring method that works, by asking about a black and a white image.

    A method works if numbers are returned and depend on the image: some servers silently ignore the image (or the
    parameter `top_logprobs`).

    Parameters
    ----------
    kind : {"yes_no", "choice"}
    scoring : str
        See `scoring_methods`.
    images : Mapping
        `black` and `white`: base64 of a PNG each.
    """
    reasons: dict[str, str] = {}
    for method in scoring_methods(scoring):
        try:
            black, white, second_image = (
                _value(channel.client.run(score(channel, method, model, _PROBES[kind], images[name], "given")))
                for name in ("black", "white", "black")
            )
        except RefusedError as error:
            if error.status == 401:
                raise key_refused(error) from error
            reasons[method.path] = f"{method.path}: {error}"
            continue
        except UnreachableError as error:
            message, fix = f"asking for probabilities ({method.path}): {error}", "Try again, or name another method"
            raise Fp2Error(message, where="engine.scoring", fix=fix) from error
        if abs(black - white) > 2 * abs(black - second_image):
            return method
        reasons[method.path] = f"{method.path}: the numbers do not depend on the image"
    raise Fp2Error(
        f"the server returns no probabilities ({'; '.join(reasons.values())})",
        where=f"engine.scoring={scoring}",
        fix="Set engine.scoring=sampled, which estimates them, or use another server (docs/servers.md)",
    )


def method_of(identity: Mapping[str, object]) -> ScoringMethod | None:
    """Return the scoring method with this identity, if this version still has it."""
    return next((method for method in scoring_methods("auto") if method.identity() == identity), None)


async def uses_images(channel: Channel, model: str, image: str) -> bool:
    """Return whether a prompt is longer with an image than without; True if the server does not report its length.

    Raises
    ------
    RefusedError, UnreachableError
    """
    sizes = []
    for picture in (None, image):
        body = chat_body(model, "Say yes.", picture, Decoding(max_new_tokens=1), 0)
        sizes.append(token_count(await post_chat(channel, body, also=False), "prompt_tokens"))
    return None in sizes or sizes[0] != sizes[1]


async def score(
    channel: Channel, method: ScoringMethod, model: str, question: Question, image: Shown, orders: ChoiceOrders
) -> Probabilities:
    """Send the requests of a scoring method, one after the other until they suffice, and read the numbers.

    Raises
    ------
    RefusedError, UnreachableError
        No other error: a server may write anything into its reply.
    """
    post = partial(post_chat, channel) if method.path == PATH else partial(channel.post, method.path)
    replies: list[Reply] = []
    for body in method.requests(model, question, image, orders):
        if _read(method.suffice, replies):
            break
        replies.append(await post(body))
    return _read(method.read, replies, question, orders)


def _read(read: Callable[..., _T], replies: list[Reply], *about: object) -> _T:
    """Return what `read` makes of replies. Raises RefusedError whatever is wrong with them."""
    try:
        return read(replies, *about)
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(f"the server's reply cannot be read ({type(error).__name__})") from error


def _value(scored: Probabilities) -> float:
    return float(scored.numbers["p"][0] if "p" in scored.numbers else scored.numbers["p_yes_norm"])
