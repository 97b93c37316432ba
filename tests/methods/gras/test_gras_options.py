"""Options of a GRAS analysis that are of a wrong type or out of range are refused before anything is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fp2.compose import build_protocol, load_config
from fp2.errors import Fp2Error
from fp2.methods.gras.options import GrasOptions
from fp2.methods.planning.plan import plan_run
from fp2.plugins import read_options

WRONG: list[tuple[str, Any]] = [
    ("permutations", "abc"), ("permutations", 50.5), ("permutations", float("inf")), ("permutations", True),
    ("permutations", 19), ("permutations", 10**9), ("bootstrap", [50]), ("min_subjects", 2.5), ("min_subjects", 1),
    ("seed", "x"), ("seed", -1), ("alpha", "abc"), ("alpha", True), ("alpha", float("nan")), ("alpha", 1),
    ("smallest_effect", float("inf")), ("smallest_effect", "0.1"), ("smallest_effect", -0.1),
    ("mass_bound", [0.5]), ("unanswered_share", {"a": 1}), ("outcome", ["p_yes"]), ("outcome", 3), ("outcome", "yes"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_is_one_line_that_names_the_option(name: str, value: Any) -> None:
    with pytest.raises(Fp2Error, match=rf"\(probe\.options\.{name}\)") as raised:
        read_options(GrasOptions, {name: value}, "probe.options")
    assert "\n" not in str(raised.value)


def test_whole_numbers_may_stand_for_shares_of_nothing() -> None:
    given = {"smallest_effect": 0, "seed": 2**70, "permutations": 20}
    assert read_options(GrasOptions, given, "probe.options").smallest_effect == 0


@pytest.mark.parametrize("word", ["permutations=abc", "permutations=inf", "alpha=abc", "outcome=[p_yes]"])
def test_the_plan_without_data_refuses_too(word: str) -> None:
    words = ["experiment=gras_paper", "model=planted", f"probe.options.{word}"]
    with pytest.raises(Fp2Error, match=rf"probe\.options\.{word.split('=')[0]}"):
        plan_run(words)
    with pytest.raises(Fp2Error):
        build_protocol(load_config(["experiment=gras", f"probe.options.{word}"]))


def test_the_smallest_effect_is_in_the_units_of_the_outcome() -> None:
    assert GrasOptions().smallest_effect == 0.02
    log_odds = GrasOptions(outcome="logit_difference")
    assert (log_odds.smallest_effect, log_odds.least_effect) == (0.08, 0.08)
    half = 1 / (1 + np.exp(-0.08))
    assert half - 0.5 == pytest.approx(0.02, abs=1e-4)  # as much as 0.02 in probability, at one half
    assert GrasOptions(outcome="logit_difference", smallest_effect=0.5).least_effect == 0.5
