"""A server that is slow without end, sends too much, or repeats the key: every fault costs its own answer only."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import ssl
import time
import tracemalloc
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

import pytest
from bench import Bench
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from fake_server import FakeServer, Reply, completion, serving, words

from fp2.compose.validation import looks_random
from fp2.engines.server import replies
from fp2.engines.server.engine import OpenAICompatEngine
from fp2.engines.server.options import ServerOptions, ServerSpec
from fp2.engines.server.replies import spellings
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask

CHAT, MODELS = "/v1/chat/completions", "/v1/models"
KEY = "sk-a/secret+that=stays-here?"


def ask(server: FakeServer, tasks: list[ImageTask], **options: object) -> list[Answer]:
    spec = ServerSpec(server.url, "some/model")
    engine = OpenAICompatEngine(spec, Decoding(max_new_tokens=7), ServerOptions(**options))  # type: ignore[arg-type]
    return [answer for batch in engine.answer(tasks) for answer in batch]


def one(server: FakeServer, tasks: list[ImageTask], **options: object) -> Answer:
    (answer,) = ask(server, [replace(tasks[0], questions=tasks[0].questions[:1])], **options)
    return answer


def after_the_check(reply: Reply) -> object:
    """Answer the two requests that find out whether images are used, then with `reply`."""
    return lambda seen, before: reply if before >= 2 else words(seen, before)


def dripping() -> Iterator[bytes]:
    yield b'{"choices": ['
    while True:
        time.sleep(0.05)
        yield b" "


def test_a_byte_at_a_time_without_end_has_a_deadline(tasks: list[ImageTask]) -> None:
    started = time.monotonic()
    with serving({CHAT: after_the_check(Reply(None, stream=dripping()))}) as server:  # type: ignore[dict-item]
        answer = one(server, tasks, timeout=0.3, attempts=1)
    assert "did not end its reply within 0.6 s" in str(answer.error)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("encoding", ["gzip", None])
def test_a_reply_without_end_is_cut_off(
    encoding: str | None, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "MAX_REPLY", 1_000_000)
    if encoding:
        bomb = gzip.compress(json.dumps(completion("a" * 100_000_000)).encode())
        assert len(bomb) < 200_000
        reply = Reply(bomb, headers={"Content-Encoding": "gzip"})
    else:
        reply = Reply(None, stream=itertools.repeat(b"[" * 10_000))
    with serving({CHAT: after_the_check(reply)}) as server:  # type: ignore[dict-item]
        one(server, tasks, attempts=1)  # imports are no part of the measurement
        tracemalloc.start()
        server.seen.clear()
        answer = one(server, tasks, attempts=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "longer than 1 MB" in str(answer.error)
    assert peak < 30_000_000


def test_a_compressed_reply_is_read(tasks: list[ImageTask]) -> None:
    packed = gzip.compress(json.dumps(completion("fine", prompt=99)).encode())
    with serving({CHAT: after_the_check(Reply(packed, headers={"Content-Encoding": "gzip"}))}) as server:  # type: ignore[dict-item]
        assert one(server, tasks).text == "fine"
    for headers, said in (({"Content-Encoding": "br"}, "not asked for"), ({"Content-Encoding": "gzip"}, "compressed")):
        with serving({CHAT: after_the_check(Reply("plain", headers=headers))}) as server:  # type: ignore[dict-item]
            assert said in str(one(server, tasks, attempts=1).error)


def test_an_answer_far_longer_than_its_tokens_is_not_stored(tasks: list[ImageTask]) -> None:
    with serving({CHAT: after_the_check(Reply(completion("a" * 1_000_000)))}) as server:  # type: ignore[dict-item]
        answer = one(server, tasks)
    assert answer.text is None
    assert "1000000 characters, far more than 7 tokens" in str(answer.error)


def headers_alone() -> Iterator[bytes]:
    time.sleep(1.0)
    yield b""


@pytest.mark.parametrize(
    "silent",
    [
        lambda: Reply(completion("late"), wait=1.0),
        lambda: Reply(None, stream=dripping()),
        lambda: Reply(None, stream=headers_alone()),
    ],
    ids=["silent", "dripping", "headers alone"],
)
def test_a_server_that_falls_silent_is_given_up_soon(silent: Callable[[], Reply], tasks: list[ImageTask]) -> None:
    many = [replace(tasks[0], image_id=f"image {place}") for place in range(60)]
    replies = {CHAT: lambda seen, before: silent() if before >= 2 else words(seen, before)}
    with serving(replies) as server:  # type: ignore[arg-type]
        started = time.monotonic()
        answers = ask(server, many, timeout=0.3, attempts=2, concurrency=4)
        seconds = time.monotonic() - started
        asked = len(server.asked(CHAT))
    assert len(answers) == 60 * len(tasks[0].questions)
    assert all(answer.error is not None for answer in answers)
    assert any("stopped answering" in str(answer.error) for answer in answers)
    assert asked < 30  # of 60 images x questions x 2 attempts
    assert seconds < 20


@pytest.mark.parametrize(
    "spelt",
    [
        KEY,
        quote(KEY, safe=""),
        KEY.encode().hex(),
        *(base64.b64encode(b"x" * offset + f"{KEY} and more".encode()).decode() for offset in range(3)),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
    ],
)
def test_a_key_that_the_server_repeats_is_masked(
    spelt: str, tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    body = completion(f"You said {spelt}.", prompt=99) | {"model": f"m {spelt}"}
    with serving({CHAT: after_the_check(Reply(body))}) as server:  # type: ignore[dict-item]
        text = str(one(server, tasks).text)
    assert text.startswith("You said")
    assert "KEY" in text
    assert not any(secret in text for secret in spellings(KEY))
    with serving({CHAT: after_the_check(Reply({"error": f"no {spelt}"}, 422))}) as server:  # type: ignore[dict-item]
        error = str(one(server, tasks).error)
    assert not any(secret in error for secret in spellings(KEY))


def test_a_short_key_is_no_secret() -> None:
    assert spellings("EMPTY") == ()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model.api_key_env=sk-abcdefghijklmnopqrst", "looks like an API key"),
        ("model.api_key_env=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH", "looks like an API key"),
        ("model.api_key_env=my-key", "not the name of an environment variable"),
        ("model.api_key_env='two words'", "not the name of an environment variable"),
        ("model.revision=sk-abcdefghijklmnopqrst", "looks like an API key"),
    ],
)
def test_a_key_in_the_config_is_refused_and_written_nowhere(
    bench: Bench, override: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = override.partition("=")[2].strip("'")
    server = ("model=openai_compat", "model.id=m", "model.base_url=http://127.0.0.1:9/v1")
    assert bench.launch(*server, override) == 2
    assert bench.launch("-m", *server, override, "cut.by=[gender],[region]") == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert secret not in captured.err + captured.out
    for path in bench.root.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()


def test_the_usual_names_of_variables_are_accepted(bench: Bench) -> None:
    assert bench.config("model.api_key_env=OPENAI_API_KEY").model.api_key_env == "OPENAI_API_KEY"
    for name in (
        "MY_KEY",
        "my_key",
        "AZURE_OPENAI_API_KEY_2",
        "_K",
        "TOGETHERCOMPUTEAPIKEY",
        "myOpenAiKey",
        "K2",
        "AZURE_OPENAI_SERVICE_KEY_OF_THE_SECOND_PROJECT",
    ):
        assert not looks_random(name)
    for key in (
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH",
        "abcdefghiJKLMNOPQrstuvwxyzABCDEFGH",
        "A1B2C3D4E5F6A7B8C9D0E1F2",
        "ab_1234567890abcdefgh",
    ):
        assert looks_random(key)


def self_signed(path: Path) -> Path:
    """Write key and certificate of 127.0.0.1, which nobody else has signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made up")]), datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
    certificate = built.add_extension(address, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + certificate.public_bytes(Encoding.PEM))
    return path


def test_a_certificate_that_nobody_signed_is_refused(tasks: list[ImageTask], tmp_path: Path) -> None:
    """No image is sent; a client that trusts the certificate gets a reply."""
    certificate = self_signed(tmp_path / "own.pem")
    with serving({CHAT: words}, certificate) as server:
        url = server.url.replace("http://", "https://")
        engine = OpenAICompatEngine(ServerSpec(url, "m"), Decoding(max_new_tokens=7), ServerOptions(attempts=1))
        with pytest.raises(Fp2Error, match="no connection to the server"):
            list(engine.answer(tasks[:1]))
        assert not server.seen
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/nothing", context=ssl.create_default_context(cafile=str(certificate)))
