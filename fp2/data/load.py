"""The data set that a config names."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fp2.data.base import Dataset, DataSource, LoadContext, data_source, source_class

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
    """Return the data set of `config.data`; keys that it does not have are left out where they are at their default.

    Raises
    ------
    Fp2Error
        As `data_source`.
    """
    given, usual = asdict(config.data), asdict(type(config.data)())
    known = {option.name for option in fields(source_class(given).Options)}
    return data_source({name: value for name, value in given.items() if name in known or value != usual[name]})


def _is_local(base_url: str) -> bool:
    """Whether a server's address is on this machine."""
    host = urlsplit(base_url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
