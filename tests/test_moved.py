"""Packages that were moved are importable at their old paths too."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from fp2 import extension
from fp2.moved import MOVED, MOVED_NAMES
from fp2.plugins import load_path


@pytest.mark.parametrize("old", MOVED)
def test_the_old_path_is_the_same_module(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {MOVED[old]}"):
        module = import_module(old)
    assert module is import_module(MOVED[old])
    assert module.__name__ == module.__spec__.name == MOVED[old]


def test_old_targets_resolve_to_the_present_classes() -> None:
    old = load_path("fp2.protocols.narrow.checkpoints:Detector", "target")
    assert old is load_path("fp2.methods.fhibe.narrow.checkpoints:Detector", "target")


def test_a_fresh_process_imports_the_old_path_first() -> None:
    code = (
        "from fp2.protocols.gras import bias_score\n"
        "import fp2.methods.gras.score, fp2.protocols.gras.score\n"
        "assert fp2.methods.gras.bias_score is bias_score\n"
        "assert fp2.protocols.gras.score is fp2.methods.gras.score\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_that_never_was_is_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="never"):
        import_module("fp2.protocols.never")
    with pytest.raises(ModuleNotFoundError, match="never"):
        import_module("fp2.protocols.gras.never")


def test_a_name_that_moved_to_a_package_is_given_with_a_warning() -> None:
    assert not set(MOVED_NAMES) & set(extension.__all__)
    for name, module in MOVED_NAMES.items():
        with pytest.warns(DeprecationWarning, match=f"{name} is now in {module}"):
            value = getattr(extension, name)
        assert value is not None
