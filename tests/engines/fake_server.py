"""A small server on loopback with given replies, which records its requests. No test in here."""

from __future__ import annotations

import base64
import io
import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fp2.data.pixels import pixel_sha256

SENT = "data:image/png;base64,"


@dataclass
class Reply:
    """What goes back: a JSON value, raw text or bytes, after `wait` seconds; `stream` yields a body in parts."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0
    stream: Iterator[bytes] | None = None


@dataclass
class Seen:
    """A request that came in."""

    path: str
    body: Any
    headers: Mapping[str, str]
    at: float


@dataclass
class FakeServer:
    """`routes` maps a path to a function from (request, how many came to that path before) to the reply."""

    routes: dict[str, Callable[[Seen, int], Reply]]
    seen: list[Seen] = field(default_factory=list)
    port: int = 0
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def asked(self, path: str) -> list[Seen]:
        return [one for one in self.seen if one.path == path]

    def reply(self, seen: Seen) -> Reply:
        with self._lock:
            before = len(self.asked(seen.path))
            self.seen.append(seen)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            route = self.routes.get(seen.path)
            found = Reply({"error": {"message": "no such path"}}, 404) if route is None else route(seen, before)
            time.sleep(found.wait)
            return found
        finally:
            with self._lock:
                self._now -= 1


@contextmanager
def serving(
    routes: Mapping[str, Callable[[Seen, int], Reply]], certificate: Path | None = None
) -> Iterator[FakeServer]:
    """Yield a running server; it is gone afterwards. `certificate`: a PEM file with key, to speak TLS."""
    fake = FakeServer(dict(routes))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            reply = fake.reply(Seen(self.path, body, dict(self.headers), time.monotonic()))
            text = reply.body if isinstance(reply.body, str | bytes) else json.dumps(reply.body)
            data = text.encode() if isinstance(text, str) else text
            try:
                if reply.stream is not None:
                    self._stream(reply)
                    return
                self.send_response(reply.status)
                for name, value in {**reply.headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the client has left

        def _stream(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            assert reply.stream is not None
            for part in reply.stream:
                self.wfile.write(part)
                self.wfile.flush()
            self.close_connection = True

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    fake.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def decoded(data: str) -> Image.Image:
    """Return the image in a data URL or bare base64."""
    image = Image.open(io.BytesIO(base64.b64decode(data.removeprefix(SENT))))
    assert image.format == "PNG"
    return image


def darkness(image: Image.Image | None) -> float:
    """Return a probability that depends on the image alone: 0.9 for black, 0.1 for white, 0.5 for none."""
    return 0.5 if image is None else 0.9 - 0.8 * float(np.asarray(image.convert("RGB")).mean()) / 255


def picture_of(body: Mapping[str, Any]) -> Image.Image | None:
    """Return the image in a chat completion."""
    urls = [part["image_url"]["url"] for part in body["messages"][0]["content"] if part["type"] == "image_url"]
    return decoded(urls[0]) if urls else None


def text_of(body: Mapping[str, Any]) -> str:
    """Return the words in a chat completion."""
    return str(next(part["text"] for part in body["messages"][0]["content"] if part["type"] == "text"))


def completion(text: str | None, prompt: int = 9, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **more}
    return {"model": "m-2026", "choices": [choice], "usage": {"prompt_tokens": prompt, "completion_tokens": 3}}


def words(seen: Seen, before: int) -> Reply:
    """Answer with the digest of the pixels and the question: what came over is what was sent."""
    image = picture_of(seen.body)
    shown = "nothing" if image is None else pixel_sha256(image.convert("RGB"))
    return Reply(completion(f" {shown} {text_of(seen.body)} \n", prompt=9 if image is None else 99))


def tokens(seen: Seen, before: int) -> Reply:
    """Answer with the most likely first tokens: `Yes`, ` yes`, `No`, or letters that favour the place A."""
    if not seen.body.get("logprobs"):
        return words(seen, before)
    dark = darkness(picture_of(seen.body))
    if "Answer with the letter" in text_of(seen.body):
        spread = {"A": 0.5, "B": 0.3 * dark, " B": 0.1 * dark, "The": 0.05}
    else:
        spread = {"Yes": 0.6 * dark, "\u2581yes": 0.2 * dark, "No": 0.8 * (1 - dark), "Well": 0.1}
    top = [{"token": token, "logprob": math.log(p)} for token, p in sorted(spread.items(), key=lambda one: -one[1])]
    more = {"logprobs": {"content": [{**top[0], "top_logprobs": top[: seen.body["top_logprobs"]]}]}}
    return Reply(completion("Yes", **more))


def biased(shown: list[str], dark: float) -> dict[str, float]:
    """Return the probabilities of options that favour the first place, and `dark` among the options."""
    weights = {
        option: (2.0 if place == 0 else 1.0) * (dark if option == "dark" else 0.3) for place, option in enumerate(shown)
    }
    return {option: weight / sum(weights.values()) for option, weight in weights.items()}


def systemone(seen: Seen, before: int, *, field_name: str = "assets", mass: bool = False) -> Reply:
    """Answer typed questions; the image is looked for in one field only, as real servers do."""
    image = None
    if field_name == "assets" and seen.body.get("assets"):
        ((name, asset),) = seen.body["assets"].items()
        assert name in seen.body["state"]
        assert (asset["type"], asset["format"]) == ("image", "png")
        image = decoded(asset["data_base64"])
    elif field_name in ("images", "urls") and seen.body.get("images"):
        (given,) = seen.body["images"]
        if isinstance(given, str) != (field_name == "urls"):
            return Reply({"error": {"message": "images: Input should be of another type"}}, 400)
        image = decoded(given if field_name == "urls" else given["url"])
    dark, answers = darkness(image), {}
    for name, question in seen.body["questions"].items():
        answers[name] = {"type": "noul", "noul": dark}
        if question["type"] == "choice":
            answers[name] = {"type": "choice", "probabilities": biased(list(question["criteria"]), dark)}
        if mass:
            answers[name]["x_label_mass"] = 0.5
    return Reply({"model": "m", "answers": answers, "usage": {"input_tokens": 5, "output_tokens": 0}})


def decisions(seen: Seen, before: int) -> Reply:
    """Answer in OpenAI's form of typed decisions; SGLang's is refused."""
    if "images" in seen.body:
        return Reply({"error": {"message": "unknown field images"}}, 400)
    parts = seen.body["input"][0]["content"] if isinstance(seen.body["input"], list) else []
    dark, answers = darkness(decoded(parts[0]["image_url"]) if parts else None), []
    for question in seen.body["questions"]:
        if question["type"] == "predicate":
            answers.append({"type": "predicate", "name": question["name"], "probability": dark})
        else:
            spread = biased([choice["value"] for choice in question["choices"]], dark)
            listed = [{"value": value, "probability": p} for value, p in spread.items()]
            answers.append({"type": "choice", "name": question["name"], "probabilities": listed})
    return Reply({"model": "m", "answers": answers[::-1]})


def named_decisions(seen: Seen, before: int) -> Reply:
    """Answer in SGLang's form of typed decisions, with the mass; OpenAI's is refused."""
    if not isinstance(seen.body["input"], str):
        return Reply({"object": "error", "message": "input must be text"}, 400)
    images = seen.body.get("images")
    dark, answers = darkness(decoded(images[0]["url"]) if images else None), {}
    for question in seen.body["questions"]:
        spread = {"yes": dark, "no": 1 - dark}
        if question["type"] == "choice":
            spread = biased([option["name"] for option in question["options"]], dark)
        answers[question["id"]] = {"type": question["type"], "probabilities": spread, "label_mass": 0.25}
    return Reply({"model": "m", "answers": answers})
