"""The model that is kept: used again for the same checkpoint, released before another is loaded."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fp2.engines.hf import loading as hf_loading
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.model import HfSpec, release
from fp2.errors import without_path
from fp2.tables import Decoding, ImageTask


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    release()
    yield
    release()


def test_another_model_is_loaded_only_when_the_last_one_is_gone(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HfEngine(HfSpec(str(tiny_family("llava"))), Decoding(max_new_tokens=2), HfOptions(threads=1))
    list(engine.answer(tasks[:1]))
    old = weakref.ref(engine._session.loaded.model)
    del engine
    alive: list[bool] = []
    original = hf_loading.load_weights

    def load_weights(*args: Any) -> Any:
        alive.append(old() is not None)
        return original(*args)

    monkeypatch.setattr(hf_loading, "load_weights", load_weights)
    list(
        HfEngine(HfSpec(str(tiny_family("gemma3"))), Decoding(max_new_tokens=2), HfOptions(threads=1)).answer(tasks[:1])
    )
    assert alive == [False]


def test_the_same_model_stays_whatever_it_is_asked(tiny_family: Callable[[str], Path], tasks: list[ImageTask]) -> None:
    folder = str(tiny_family("llava"))
    engines = [
        HfEngine(HfSpec(folder, **how), Decoding(max_new_tokens=2), HfOptions(threads=1))
        for how in ({}, {"chat": False}, {"prompt": "{image}{question}"})
    ]
    for engine in engines:
        list(engine.answer(tasks[:1]))
    assert len({id(engine._session.loaded.model) for engine in engines}) == 1
    assert len({id(engine._session.loaded.lock) for engine in engines}) == 1


def test_reasons_name_no_file(tmp_path: Path) -> None:
    path = tmp_path / "jane_doe.png"
    with pytest.raises(FileNotFoundError) as told:
        path.open()
    said = without_path(told.value, path)
    assert "jane" not in said
    assert str(tmp_path) not in said
    assert said.endswith("No such file or directory: the file")
