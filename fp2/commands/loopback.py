"""Pages served to a browser on this machine: below a secret path, on the loopback address, and to no other site.

The name of the host is checked, and the origin of a form, so that no other site's page can reach the server through the
browser. Nothing is logged: addresses hold the secret.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from fp2.errors import Fp2Error

HOST = "127.0.0.1"
HTML, CSS, SCRIPT = "text/html; charset=utf-8", "text/css; charset=utf-8", "text/javascript; charset=utf-8"
_POLICY = (
    "default-src 'none'; img-src 'self' data:; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'"
)
_LONGEST = 10_000  # bytes of a form


@dataclass(frozen=True)
class Reply:
    """What is sent back; `location` redirects there."""

    kind: str
    body: bytes
    location: str | None = None


class LoopbackServer(ThreadingHTTPServer):
    """A server of pages; a subclass answers by `get` and `post`."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        self.secret = secrets.token_urlsafe(16)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise Fp2Error(f"port {port} cannot be used", where="--port", fix="Omit it to take a free one") from error

    @property
    def address(self) -> str:
        """The address of the first page."""
        return f"http://{HOST}:{self.server_address[1]}/{self.secret}/"

    def get(self, name: str, query: str) -> Reply | None:
        """Return the page `name` (empty: the first); None if there is none."""
        return None

    def post(self, name: str, form: dict[str, str]) -> Reply | None:
        """Take a form that was sent to the page `name`; None if it takes none."""
        return None


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer

    def do_GET(self) -> None:
        """Answer with a page; anything else is not found."""
        name, query = self._asked()
        self._reply(None if name is None else self.server.get(name, query))

    def do_POST(self) -> None:
        """Take a form of an own page; a browser states the page's origin."""
        name, _ = self._asked()
        length = self.headers.get("Content-Length", "")
        origin = self.headers.get("Origin") == f"http://{HOST}:{self.server.server_address[1]}"
        if name is None or not origin or not length.isdecimal() or int(length) > _LONGEST:
            return self._reply(None)
        sent = parse_qs(self.rfile.read(int(length)).decode("utf-8", "replace"), keep_blank_values=True)
        self._reply(self.server.post(name, {key: values[0] for key, values in sent.items()}))

    def _asked(self) -> tuple[str | None, str]:
        """Return the page that is asked for and the query; None for another host, or without the secret."""
        address = urlsplit(self.path)
        own_host, prefix = f"{HOST}:{self.server.server_address[1]}", f"/{self.server.secret}/"
        requested = address.path[: len(prefix)].encode()
        is_allowed = self.headers.get("Host") == own_host and secrets.compare_digest(requested, prefix.encode())
        return (address.path.removeprefix(prefix) if is_allowed else None), address.query

    def _reply(self, reply: Reply | None) -> None:
        response = reply or Reply("text/plain", b"")
        status = HTTPStatus.NOT_FOUND if reply is None else HTTPStatus.OK
        self.send_response(HTTPStatus.SEE_OTHER if response.location is not None else status)
        for key, value in {
            **({} if response.location is None else {"Location": response.location}),
            "Content-Type": response.kind,
            "Content-Length": str(len(response.body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "same-origin",
        }.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
