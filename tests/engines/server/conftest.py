"""Engines for servers: no test waits long, and none finds a key in the environment."""

from __future__ import annotations

import pytest

from fp2.engines.server import client


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(client, "JITTER", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
