"""Parameters of tests of which a few are tried on every run, and all by `make test-thorough`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thorough_but(values: Iterable[Any], *tried: Any) -> list[Any]:
    """Return `values` with the marker `thorough`, but for those in `tried`."""
    values = list(values)
    assert all(value in values for value in tried)
    return [value if value in tried else _marked(value) for value in values]


def _marked(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.thorough)
