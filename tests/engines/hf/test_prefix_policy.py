"""What may be shared: the candidates, and a check that detects what a wrong strategy does to the logits."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.families import facts_for
from fp2.engines.hf.model import HfSpec
from fp2.engines.hf.prefix_policy import LogitDifference, candidates, compare
from fp2.errors import Fp2Error
from fp2.tables import Decoding, ImageTask, Question

pytestmark = pytest.mark.package(name="prefix_sharing")

ONE = (Question("q", "x", "Is this person kind? Answer with Yes or No.", "yes_no"),)


@pytest.mark.parametrize(
    ("asked", "allowed", "fine", "attention", "ways"),
    [
        ("auto", "tree", False, "sdpa", ("tree",)),
        ("auto", "tree", False, "flash_attention_2", ("vision",)),
        ("auto", "vision", False, "sdpa", ("vision",)),
        ("auto", "auto", True, "sdpa", ("tree", "prefix", "vision", "none")),
        ("auto", "auto", True, "flash_attention_2", ("prefix", "vision", "none")),
        ("auto", "auto", False, "sdpa", ("none",)),  # rounding would hide a wrong way
        ("vision", "tree", False, "sdpa", ("vision",)),
        ("none", "auto", False, "sdpa", ("none",)),
    ],
)
def test_candidates(asked: str, allowed: str, fine: bool, attention: str, ways: tuple[str, ...]) -> None:
    assert candidates(asked, allowed, fine, attention) == ways


@pytest.mark.parametrize(
    ("asked", "allowed", "fine", "attention", "says"),
    [
        ("tree", "vision", True, "sdpa", "would give wrong answers"),
        ("vision", "none", True, "sdpa", "would give wrong answers"),
        ("tree", "tree", True, "flash_attention_2", "needs an attention that takes a mask"),
        ("tree", "auto", False, "sdpa", "can be checked in float32 only"),
    ],
)
def test_levels_that_are_refused(asked: str, allowed: str, fine: bool, attention: str, says: str) -> None:
    with pytest.raises(Fp2Error, match=says):
        candidates(asked, allowed, fine, attention)


@pytest.mark.parametrize(
    ("right", "wrong", "largest", "dtype", "quantised", "fits"),
    [
        (1e-5, 1.0, 5.0, "float32", False, True),
        (6e-4, 1.0, 5.0, "float32", False, False),
        (math.nan, 1.0, 5.0, "float32", False, False),
        (0.1, 2.0, 5.0, "bfloat16", False, True),
        (0.14, 0.4, 5.0, "bfloat16", False, False),  # a wrong prompt is hardly further off than the right one
        (0.14, 0.4, 5.0, "float32", True, False),
        (1e-7, 0.0, 5.0, "float32", False, True),  # a model whose prompts move nothing
    ],
)
def test_what_the_check_lets_through(
    right: float, wrong: float, largest: float, dtype: str, quantised: bool, fits: bool
) -> None:
    assert LogitDifference(right, wrong, largest).within(dtype, quantised) == fits


def test_branches_are_checked_even_if_the_first_image_has_one_question(
    tiny_family: Callable[[str], Path], tasks: list[ImageTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix

    """A tree whose branches see each other gives a single question the right answer."""
    original = SharedPrefix._mask

    def leaky(self: SharedPrefix, sees: Any, device: Any) -> Any:
        length = sees.shape[1]
        own = np.broadcast_to(np.tri(length, dtype=bool), (len(sees), length, length))
        return original(self, np.concatenate([sees[..., :-length], own], axis=2), device)

    monkeypatch.setattr(SharedPrefix, "_mask", leaky)
    engine = HfEngine(HfSpec(str(tiny_family("llava"))), Decoding(), HfOptions(threads=1))
    with pytest.raises(Fp2Error, match="sharing=tree changes this model's logits"):
        list(engine.answer([dataclasses.replace(tasks[0], questions=ONE)]))


def test_a_blind_first_task_selects_no_strategy(tiny_family: Callable[[str], Path], tasks: list[ImageTask]) -> None:
    engine = HfEngine(HfSpec(str(tiny_family("llava"))), Decoding(), HfOptions(threads=1))
    blind = dataclasses.replace(tasks[0], questions=ONE, variant="blind", image_id="blind")
    seen = dataclasses.replace(tasks[1], questions=ONE)
    found = [answer for batch in engine.answer([blind, seen]) for answer in batch]
    assert [answer.error for answer in found] == [None, None]
    assert engine._session._strategy is not None


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_positions_that_depend_on_the_length_share_the_features_only(
    kind: str, tiny_family: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_family("llava"), tmp_path / kind))
    config = json.loads((folder / "config.json").read_text())
    assert facts_for(config).sharing == "tree"
    config["text_config"]["rope_parameters"] = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0}
    assert facts_for(config).sharing == "vision"


def test_the_difference_is_that_of_the_logits(tiny_family: Callable[[str], Path], tasks: list[ImageTask]) -> None:
    from fp2.methods.prefix_sharing.shared_prefix import SharedPrefix

    engine = HfEngine(HfSpec(str(tiny_family("llava"))), Decoding(), HfOptions(threads=1))
    session = engine._session
    session.build_inputs(dataclasses.replace(tasks[0], questions=ONE))
    checks, plain = session._builder.check_prompts, session._plain
    assert checks is not None
    found = compare(SharedPrefix(session.loaded.model), plain, checks)
    assert found.error < 1e-5 < 1e-2 < found.control
    rows = [next(iter(plain.logits([checks], [(prompt, ())])))[2][0, 0] for prompt in range(len(checks.suffixes))]
    assert found.largest == pytest.approx(max(float(row.abs().max()) for row in rows))
    assert found.control == pytest.approx(
        max(float((rows[i] - rows[i - 1]).abs().max()) for i in range(len(rows))), rel=1e-3
    )
