"""`fp2 doctor`: content where everything is in order, and what is not is named."""

from __future__ import annotations

import pytest
from bench import Bench, fp2


def test_it_is_content_here_and_names_a_broken_store(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert fp2("doctor", *bench.words("tracking=mlflow", "engine.device=cpu")) == 0
    out = capsys.readouterr().out
    assert "failed" not in out
    assert out.count("ok ") >= 8
    bench.store.parent.mkdir(parents=True, exist_ok=True)
    bench.store.write_text("not a store at all, but a text of some length" * 40, encoding="utf-8")
    assert fp2("doctor", *bench.words("engine.device=cpu")) == 1
    assert "failed" in capsys.readouterr().out
