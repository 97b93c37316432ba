"""A server that does each of more than 20 bad things, and then a good one: nothing is lost, nothing hangs."""

from __future__ import annotations

import gzip
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.torture.project import Project, Row, Yard

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "engines"))

from fake_server import Reply, completion, serving, words

CHAT = "/v1/chat/completions"
IMAGES = 6
SERVED = (
    "model=openai_compat", "model.id=m", "probe.select=[trust]", f"data.limit={IMAGES}", "engine.timeout=0.5",
    "answers.attempts=1", "scorer=valence", "analysis.min_subjects=2",
)  # fmt: skip
LONGEST = 90.0  # seconds


def dripping() -> Iterator[bytes]:
    """Send a byte at a time, without end."""
    yield b'{"choices": ['
    while True:
        time.sleep(0.05)
        yield b" "


BAD: dict[str, Callable[[], Any]] = {
    **{f"status {code}": lambda code=code: Reply({"error": {"message": "no \x1b[31m"}}, code)
       for code in (400, 401, 403, 404, 408, 413, 422, 500, 502, 503)},
    "status 429, retry in a year": lambda: Reply("", 429, {"Retry-After": "31536000"}),
    "a redirect to itself": lambda: Reply("", 302, {"Location": "/v1/chat/completions"}),
    "HTML with status 200": lambda: Reply("<html><body>Sign in</body></html>"),
    "an empty body": lambda: Reply(""),
    "JSON that is cut short": lambda: Reply('{"choices": [{"message": {"content": "A nu'),
    "a list in place of an object": lambda: Reply([1, 2]),
    "no choices": lambda: Reply({"choices": []}),
    "content that is no text": lambda: Reply({"choices": [{"message": {"content": {"a": 1}}}]}),
    "content that is null": lambda: Reply({"choices": [{"message": {"content": None}}]}),
    "a lone surrogate": lambda: Reply('{"choices": [{"message": {"content": "\\ud800"}}]}'),
    "bytes that are no UTF-8": lambda: Reply(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}'),
    "JSON nested 100,000 deep": lambda: Reply("[" * 100_000),
    "an answer of 1 MB": lambda: Reply(completion("a" * 1_000_000)),
    "a gzip bomb": lambda: Reply(gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}),
    "an unknown encoding": lambda: Reply("plain", headers={"Content-Encoding": "br"}),
    "a reply without end": lambda: Reply(None, stream=itertools.repeat(b"[" * 100_000)),
    "a byte at a time": lambda: Reply(None, stream=dripping()),
    "silence": lambda: Reply(completion("late"), wait=2.0),
    "a number that is NaN": lambda: Reply('{"choices": [{"message": {"content": "x"}}], "usage": {"tokens": NaN}}'),
}  # fmt: skip


def servers(yard: Yard) -> Iterator[Row]:
    """Yield one row: each fault after two good replies, then a good server."""
    row = Row(f"a server does one of {len(BAD)} bad things")
    chosen = list(BAD) if not yard.short else ["status 500", "a lone surrogate", "JSON that is cut short"]
    for name in chosen * yard.times(2, 1):
        project = yard.project()

        def route(seen: Any, before: int, name: str = name) -> Any:
            return BAD[name]() if before >= 4 else words(seen, before)

        with serving({CHAT: route}) as server:  # type: ignore[dict-item]
            row.add(*_tried(project, server, name))
        project.remove()
    yield row


def _tried(project: Project, server: Any, name: str) -> tuple[str, list[str]]:
    address = f"model.base_url={server.url}"
    project.words = ()
    ended = project.run(*SERVED, address)
    kept, wrong = project.stored(), []
    if not ended.one_line or "\x1b[31m" in ended.said:
        wrong.append(f"{name}: {ended.said[-600:]}")
    if ended.status not in (0, 2, 3):
        wrong.append(f"{name}: exit status {ended.status}")
    if ended.seconds > LONGEST:
        wrong.append(f"{name}: it took {ended.seconds:.0f} s")
    server.routes[CHAT] = words
    again = project.run(*SERVED, address)
    if again.status != 0 or project.stored() != IMAGES:
        wrong.append(f"{name}: then {again.status}, {project.stored()} answers: {again.said[-300:]}")
    return f"exit status {ended.status}, {'some' if kept else 'no'} answers stored", wrong
