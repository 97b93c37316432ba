"""What a server tells of itself and how it gives probabilities: found out once, remembered beside the answers.

A plan needs both, since they are part of what an answer depends on. A server that is there is asked (two small
requests); what it offers for probabilities is tried out again only when it tells something new of itself. A server that
is not there is taken to be as it was last time, so that a run whose answers are all in the store needs no server.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fp2.engines.server_http import RefusedError, ServerClient, UnreachableError
from fp2.engines.server_scoring import Scored, Way
from fp2.engines.server_tokens import FirstTokens
from fp2.engines.server_typed import TypedDecisions
from fp2.engines.server_words import PATH, count_of, post_chat, words_body
from fp2.errors import Fp2Error
from fp2.store.database import add_table, as_user_error, file_of
from fp2.tables import ChoiceOrders, Decoding, Question

SCORINGS = ("auto", "systemone", "decisions", "logprobs")
_CREATE = """
CREATE TABLE IF NOT EXISTS server_reports (
    address TEXT NOT NULL, model TEXT NOT NULL, asked REAL NOT NULL, json TEXT NOT NULL, PRIMARY KEY (address, model)
) WITHOUT ROWID
"""
_TOLD = ("id", "owned_by", "root", "parent", "max_model_len", "meta")  # the rest of an entry changes at every start
_PROBES: Mapping[str, Question] = {
    "yes_no": Question("probe", "probe", "Is this picture dark?", "yes_no"),
    "choice": Question("probe", "probe", "What is this picture like?", "choice", choices=("dark", "bright")),
}


@dataclass
class Report:
    """`told` is what the server says of itself, `ways` how it is asked for probabilities, by kind of question.

    `sees` is whether it is known to look at pictures when it answers in words. `asked` is when `told` was found out
    (seconds since 1970).
    """

    told: dict[str, Any]
    ways: dict[str, dict[str, Any]] = field(default_factory=dict)
    sees: bool = False
    asked: float = 0.0


class ServerReports:
    """Reports by address and model, in the table `server_reports` of an open SQLite database (or nowhere).

    Raises
    ------
    Fp2Error
        If the database cannot be read or written; so do the methods.
    """

    def __init__(self, connection: sqlite3.Connection | None = None) -> None:
        self._connection = connection
        if connection is not None:
            with as_user_error(file_of(connection)):
                add_table(connection, "server_reports", _CREATE)

    def recall(self, address: str, model: str) -> Report | None:
        """Return what was last found out, if anything was."""
        if self._connection is None:
            return None
        query = "SELECT json, asked FROM server_reports WHERE address = ? AND model = ?"
        with as_user_error(file_of(self._connection)):
            row = self._connection.execute(query, (address, model)).fetchone()
        return None if row is None else Report(**json.loads(row[0]), asked=row[1])

    def keep(self, address: str, model: str, report: Report) -> None:
        """Remember a report in place of the last one."""
        if self._connection is not None:
            held = json.dumps({"told": report.told, "ways": report.ways, "sees": report.sees})
            row = (address, model, report.asked, held)
            with as_user_error(file_of(self._connection)):
                self._connection.execute("INSERT OR REPLACE INTO server_reports VALUES (?, ?, ?, ?)", row)


def ask_report(client: ServerClient, model: str) -> Report:
    """Ask a server what it says of a model (`/models`) and of itself (`/version`); either may tell nothing.

    Raises
    ------
    UnreachableError
        If there is no server.
    Fp2Error
        If it refuses the key.
    """
    told: dict[str, Any] = {}
    listed = _told(client, "/models")
    entries = listed.get("data")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            told["model"] = {name: entry[name] for name in _TOLD if entry.get(name) is not None}
    version = _told(client, "/version", from_origin=True).get("version")
    if isinstance(version, str):
        told["version"] = version
    return Report(told, asked=time.time())


def _told(client: ServerClient, path: str, *, from_origin: bool = False) -> dict[str, Any]:
    """Return what is at `path`, nothing if the server refuses to tell or fails over it."""
    try:
        return client.run(client.get(path, from_origin=from_origin))
    except RefusedError as error:
        if error.status == 401:
            raise key_refused(error) from error
        return {}
    except UnreachableError as error:
        if error.silent:
            raise
        return {}  # it is there


def key_refused(error: RefusedError) -> Fp2Error:
    """Return the one line for a wrong or missing key."""
    return Fp2Error(str(error), where="model.api_key_env", fix="Put the server's key into the variable that it names")


def ways(scoring: str) -> list[Way]:
    """Return the ways to try, the best first: all of them (`auto`), or those of one name."""
    known: dict[str, list[Way]] = {
        "systemone": [TypedDecisions("systemone", "assets"), TypedDecisions("systemone", "images")],
        "decisions": [TypedDecisions("decisions", "parts"), TypedDecisions("decisions", "options")],
        "logprobs": [FirstTokens(20), FirstTokens(5)],
    }
    return [way for name, some in known.items() if scoring in ("auto", name) for way in some]


def find_way(client: ServerClient, model: str, kind: str, scoring: str, pictures: Mapping[str, str]) -> Way:
    """Return the first way of asking for probabilities that works, by asking about a black and a white picture.

    A way works if numbers come back and depend on the picture: some servers take no notice of a picture (or of the wish
    for `top_logprobs`) without a word.

    Parameters
    ----------
    kind : {"yes_no", "choice"}
    scoring : str
        One of `SCORINGS`.
    pictures : Mapping
        `black` and `white`: base64 of a PNG each.

    Raises
    ------
    Fp2Error
        If none works, or the server fails.
    """
    reasons: dict[str, str] = {}
    for way in ways(scoring):
        try:
            black, white, again = (
                _value(ask(client, way, model, _PROBES[kind], pictures[name], "given"))
                for name in ("black", "white", "black")
            )
        except RefusedError as error:
            if error.status == 401:
                raise key_refused(error) from error
            reasons[way.path] = f"{way.path}: {error}"
            continue
        except UnreachableError as error:
            fix = "Try again, or name another way"
            raise Fp2Error(
                f"asking for probabilities ({way.path}): {error}", where="engine.scoring", fix=fix
            ) from error
        if abs(black - white) > 2 * abs(black - again):
            return way
        reasons[way.path] = f"{way.path}: the numbers do not depend on the picture"
    raise Fp2Error(
        f"the server gives no probabilities ({'; '.join(reasons.values())})",
        where=f"engine.scoring={scoring}",
        fix="Ask in words (kind: text), or serve the model where these are offered (docs/servers.md)",
    )


def looks_at_pictures(client: ServerClient, model: str, picture: str) -> bool:
    """Return whether a prompt is longer with a picture than without; True if the server does not tell how long it is.

    Raises
    ------
    RefusedError, UnreachableError
    """
    sizes = []
    for shown in (None, picture):
        body = words_body(model, "Say yes.", shown, Decoding(max_new_tokens=1), 0)
        sizes.append(count_of(client.run(post_chat(client, body)), "prompt_tokens"))
    return None in sizes or sizes[0] != sizes[1]


def way_of(identity: Mapping[str, Any]) -> Way | None:
    """Return the way with this identity, if this version still has it."""
    return next((way for way in ways("auto") if way.identity() == identity), None)


def ask(
    client: ServerClient, way: Way, model: str, question: Question, picture: str | None, how: ChoiceOrders
) -> Scored:
    """Ask one question and wait; see `ask_async`."""
    return client.run(ask_async(client, way, model, question, picture, how))


async def ask_async(
    client: ServerClient, way: Way, model: str, question: Question, picture: str | None, how: ChoiceOrders
) -> Scored:
    """Send what `way` sends for a question, one request after the other, and read the numbers.

    Raises
    ------
    RefusedError, UnreachableError
        Nothing else: a server may write anything into its reply.
    """
    post = partial(post_chat, client) if way.path == PATH else partial(client.post, way.path)
    replies = [await post(body) for body in way.bodies(model, question, picture, how)]
    try:
        return way.read(replies, question, how)
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(f"the server's reply cannot be read ({type(error).__name__})") from error


def _value(scored: Scored) -> float:
    return float(scored.numbers["p"][0] if "p" in scored.numbers else scored.numbers["p_yes_norm"])
