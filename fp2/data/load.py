"""The data set that a config names."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fp2.data.base import Dataset, DataSource, LoadContext, source_class

if TYPE_CHECKING:
    from fp2.config import Config
    from fp2.progress import Progress


def load_configured(config: Config, progress: Progress) -> Dataset:
    """Return the data set of `config.data`, before anything is left out or sampled.

    Raises
    ------
    Fp2Error
        As `data_source` and the data set's own `load`.
    """
    remote = config.model.base_url
    context = LoadContext(
        Path(config.paths.state),
        Path(config.paths.data),
        progress,
        remote if remote and not _is_local(remote) else None,
    )
    dataset = configured_source(config).load(context)
    for line in dataset.schema_lines:
        progress.note(f"{dataset.release or 'release'}: {line}")
    return dataset


def configured_source(config: Config) -> DataSource[Any]:
    """Return the data set of `config.data`, whose options are checked."""
    return source_class(asdict(config.data))(config.data)


def _is_local(base_url: str) -> bool:
    """Whether a server's address is on this machine."""
    host = urlsplit(base_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
