"""`fp2 view`: read a run's answers beside the images they are about, in a browser on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.commands.loopback import CSS, HTML, LoopbackServer, Reply
from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.progress import Progress, Terminal

if TYPE_CHECKING:
    from fp2.runs.viewer import Viewed


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
    with ViewServer(viewed, port) as server:
        Terminal().print(f"{server.address}  (Ctrl-C ends it)", soft_wrap=True)
        server.serve_forever()


class ViewServer(LoopbackServer):
    """Serves one `Viewed`."""

    def __init__(self, viewed: Viewed, port: int) -> None:
        self.viewed = viewed
        super().__init__(port)

    def get(self, name: str, query: str) -> Reply | None:
        """Return a page, the styles or an image."""
        from PIL.Image import DecompressionBombError

        from fp2.report.page import stylesheet
        from fp2.report.view import read_query, render, thumbnail

        viewed = self.viewed
        if not name:
            page = render(
                viewed.rows, viewed.groups, viewed.names, viewed.scorer, viewed.labels, viewed.images, read_query(query)
            )
            return Reply(HTML, page.encode())
        if name == "style.css":
            return Reply(CSS, stylesheet("view.css").encode())
        if (path := viewed.images.get(name.removeprefix("image/"))) is None:
            return None
        try:
            return Reply("image/jpeg", thumbnail(path))
        except (OSError, ValueError, SyntaxError, DecompressionBombError):
            return None
