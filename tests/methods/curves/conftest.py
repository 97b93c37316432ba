"""The simulated run that the specifications of an analysis are tried on."""

from __future__ import annotations

import pytest
from simulated import analysed

from fp2.protocols.fingerprint.settings import ComparedRun
from fp2.results import Analysis


@pytest.fixture(scope="session")
def found() -> tuple[Analysis, ComparedRun]:
    """What the fingerprint finds in the default simulated answers, by skin type and age; not to be changed."""
    return analysed({"each": ["skin", "age"]})
