"""The interface of the core for packages: every name is there, and importing it imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fp2 import extension
from fp2.errors import Fp2Error


def test_every_name_of_the_stub_can_be_imported() -> None:
    assert len(extension.__all__) == len(set(extension.__all__))
    for name in extension.__all__:
        assert getattr(extension, name) is not None
    assert extension.Fp2Error is Fp2Error
    assert dir(extension) == sorted(extension.__all__)


def test_a_name_that_is_none_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="never"):
        from fp2.extension import never  # type: ignore[attr-defined]  # noqa: F401


def test_the_interface_imports_no_other_module() -> None:
    code = "import sys, fp2.extension; print([name for name in sys.modules if name.startswith('fp2.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(eval(loaded)) == {"fp2.moved", "fp2.extension"}
