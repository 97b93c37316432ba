"""Charts as figure files, drawn with Matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fp2.report.values import Chart


def write_charts(charts: Sequence[Chart], results: Mapping[str, Any], folder: Path) -> Iterator[Path]:
    """Draw charts as PNG files into `folder` and yield their paths; charts of one `file` are its panels."""
    raise NotImplementedError
