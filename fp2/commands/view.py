"""`fp2 view`: read a run's answers beside the images they are about, in a browser on this machine."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.progress import Progress, Terminal

if TYPE_CHECKING:
    from fp2.runs.viewer import Viewed

HOST = "127.0.0.1"
_POLICY = "default-src 'none'; img-src 'self' data:; style-src 'self'; form-action 'self'; base-uri 'none'"


def view(words: Sequence[str], overrides: Sequence[str], port: int) -> None:
    """Serve the answers of one or two runs until Ctrl-C; print the address.

    Raises
    ------
    Fp2Error
        For more than two runs, runs that cannot be shown (`fp2.runs.viewer.load_viewed`), and a port that is taken.
    """
    from fp2.runs.viewer import load_viewed

    if not 1 <= len(words) <= 2:
        raise Fp2Error(f"{len(words)} runs were given", where="fp2 view", fix="Give one, or two")
    with tempfile.TemporaryDirectory(prefix="fp2-view-") as scratch:
        viewed = load_viewed(words, load_config(overrides), Path(scratch), Progress())
    with server_of(viewed, port) as server:
        Terminal().print(f"{server.address}  (Ctrl-C ends it)", soft_wrap=True)
        server.serve_forever()


class ViewServer(ThreadingHTTPServer):
    """Serves one `Viewed` below a secret path, on the loopback address."""

    daemon_threads = True

    def __init__(self, viewed: Viewed, port: int) -> None:
        self.viewed, self.secret = viewed, secrets.token_urlsafe(16)
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """The address of the first page."""
        return f"http://{HOST}:{self.server_address[1]}/{self.secret}/"


def server_of(viewed: Viewed, port: int) -> ViewServer:
    """Return the server, listening; port 0 takes a free one.

    Raises
    ------
    Fp2Error
        If the port cannot be used.
    """
    try:
        return ViewServer(viewed, port)
    except (OSError, OverflowError) as error:
        raise Fp2Error(f"port {port} cannot be used", where="--port", fix="Omit it to take a free one") from error


class _Handler(BaseHTTPRequestHandler):
    server: ViewServer

    def do_GET(self) -> None:
        """Answer with a page, the styles or an image; anything else is not found.

        The name of the host is checked, so that no other site's page can reach the server through the browser.
        """
        from PIL.Image import DecompressionBombError

        from fp2.report.view import read_query, render, stylesheet, thumbnail

        address, viewed = urlsplit(self.path), self.server.viewed
        own = f"{HOST}:{self.server.server_address[1]}"
        prefix = f"/{self.server.secret}/"
        asked = address.path[: len(prefix)].encode()
        if self.headers.get("Host") != own or not secrets.compare_digest(asked, prefix.encode()):
            return self._reply(HTTPStatus.NOT_FOUND, "text/plain", b"")
        name = address.path.removeprefix(prefix)
        if not name:
            page = render(
                viewed.rows, viewed.groups, viewed.names, viewed.scorer, viewed.labels, viewed.images,
                read_query(address.query),
            )  # fmt: skip
            return self._reply(HTTPStatus.OK, "text/html; charset=utf-8", page.encode())
        if name == "style.css":
            return self._reply(HTTPStatus.OK, "text/css; charset=utf-8", stylesheet().encode())
        path = viewed.images.get(name.removeprefix("image/"))
        if path is None:
            return self._reply(HTTPStatus.NOT_FOUND, "text/plain", b"")
        try:
            return self._reply(HTTPStatus.OK, "image/jpeg", thumbnail(path))
        except (OSError, ValueError, SyntaxError, DecompressionBombError):
            return self._reply(HTTPStatus.NOT_FOUND, "text/plain", b"")

    def _reply(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for key, value in {
            "Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
        }.items():  # fmt: skip
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: addresses hold the secret."""
