"""The FHIBE release that a config names: terms acknowledged first, then found and read, and its oddities told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fp2.data.delimited import n_rows
from fp2.data.fhibe.load import Loaded, read_release
from fp2.data.fhibe.release import find_release
from fp2.data.fhibe.terms import acknowledge

if TYPE_CHECKING:
    from fp2.config import Config
    from fp2.progress import Progress


def open_configured(config: Config, progress: Progress) -> Loaded:
    """Return the release at `data.root` in the form `data.form`.

    Raises
    ------
    Fp2Error
        If the terms of use are not acknowledged, or as `find_release` and `read_release`.
    """
    data = config.data
    release = find_release(Path(str(data.root)), data.form)
    terms = acknowledge(Path(config.paths.state), data.accept_terms)
    fallback = Path(data.path).expanduser() if data.path else None
    with progress.steps("Reading the release", n_rows(release.table)) as tick:
        loaded = read_release(release, expand_regions=data.expand_regions, fallback=fallback, tick=tick)
    if config.model.base_url and not _is_here(config.model.base_url):
        progress.note("FHIBE's pictures will be sent to another machine: do the terms of use allow you that?")
    for line in loaded.schema.lines():
        progress.note(f"{release.version or 'release'}: {line}")
    settings = {**loaded.dataset.settings, "terms": terms}
    return replace(loaded, dataset=replace(loaded.dataset, name=data.name, settings=settings))


def _is_here(base_url: str) -> bool:
    """Whether a server's address is this machine's own."""
    host = urlsplit(base_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
