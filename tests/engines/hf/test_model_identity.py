"""What of the machine and of a checkpoint's own code counts in the identity of a model."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from family_checkpoints import save
from family_checkpoints.duals import DUALS

from fp2.engines import base
from fp2.engines.hf.engine import HfEngine
from fp2.engines.hf.model import HfSpec
from fp2.tables import Decoding


@pytest.fixture(autouse=True)
def _versions_read_anew() -> Iterator[None]:
    base.version.cache_clear()
    yield
    base.version.cache_clear()


def hf(folder: Path, **how: Any) -> dict[str, Any]:
    return HfEngine(HfSpec(str(folder), **how), Decoding()).identity()


def test_code_of_a_checkpoints_own_counts_where_it_may_run(tiny_family: Callable[[str], Path], tmp_path: Path) -> None:
    plain = tiny_family("llava")
    assert hf(plain) == hf(plain, trust_remote_code=True), "there is no code that could run"
    folder = Path(shutil.copytree(plain, tmp_path / "net"))
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForImageTextToText": "mine.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    assert hf(folder) != hf(folder, trust_remote_code=True)


def dual(folder: Path, **how: Any) -> dict[str, Any]:
    from fp2.methods.dual.encoder import DualEncoder

    return DualEncoder(HfSpec(str(folder), **how)).identity()


CLIP = pytest.param("clip", dual, marks=pytest.mark.package(name="dual"))


@pytest.mark.parametrize(("family", "identity"), [("llava", hf), CLIP])
@pytest.mark.parametrize(
    ("package", "how", "counts"),
    [
        ("pillow", {}, True),
        ("torch", {}, True),
        ("torchvision", {}, False),
        ("torchvision", {"image_backend": "torchvision"}, True),
        ("pillow", {"image_backend": "torchvision"}, False),
        ("bitsandbytes", {"quantisation": "int8"}, True),
    ],
)
def test_the_version_family_of_what_computes_and_resizes_counts(
    family: str,
    identity: Callable[..., dict[str, Any]],
    package: str,
    how: dict[str, Any],
    counts: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = DUALS[family](tmp_path, 0) if family in DUALS else save(family, tmp_path)
    known = importlib.metadata.version
    found = []
    for number in ("90.1.0", "90.1.7", "90.2.0"):
        monkeypatch.setattr(importlib.metadata, "version", lambda name, n=number: n if name == package else known(name))
        base.version.cache_clear()
        found.append(identity(folder, **how))
    assert found[0] == found[1], "a bug fix is of the same family"
    assert (found[0] != found[2]) is counts


def test_a_missing_library_is_reported_when_the_model_is_loaded_not_before(
    tiny_family: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = importlib.metadata.version

    def version(name: str) -> str:
        if name == "torchvision":
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    engine = HfEngine(HfSpec(str(tiny_family("llava")), image_backend="torchvision"), Decoding())
    assert engine.identity()["family"]["torchvision"] == base.ABSENT
    assert engine.runtime()["versions"]["torchvision"] == base.ABSENT


def test_versions_are_read_from_the_disk_once(
    tiny_family: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HfEngine(HfSpec(str(tiny_family("llava"))), Decoding())
    engine.runtime()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: pytest.fail(f"{name} is read again"))
    engine.runtime()
