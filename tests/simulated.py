"""A run of the simulator's answers, compared as the fingerprint does, without the pipeline around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
from bench import load_config

from fp2.ask.answers import RowAnswers, RunTables
from fp2.compose import build_protocol
from fp2.cuts import Cut, resolve_cuts
from fp2.methods.peeps.planted.engine import simulate
from fp2.methods.peeps.planted.truth import load_truth
from fp2.probes.battery import Battery, load_battery
from fp2.protocols.base import Asks, Job
from fp2.protocols.fingerprint.settings import ComparedRun, comparison_of
from fp2.protocols.requirements import for_battery, for_people
from fp2.results import Analysis
from fp2.runs.stages import scored
from fp2.scorers.registry import build_scorers

QUICK = ("analysis.permutations=2999", "analysis.bootstrap=0", "scorer=default")
TRUTH: dict[str, Any] = {
    "effects": {"occupation": {"skin": {"III": -2.5}}},
    "refusals": {"lifestyle": {"base": 0.05, "by": {"age": {"old": 0.3}}}},
    "errors": {"rate": 0.02, "by": {"age": {"old": 0.2}}},
}


def population(n: int = 90) -> pd.DataFrame:
    """Return `n` people with two images each: three skin types and two ages, crossed."""
    rows = [
        {
            "image_id": f"{person}-{k}",
            "subject_id": f"p{person}",
            "n_people": 1,
            "set_id": None,
            "attr_skin": [("I", "II", "III")[person % 3]],
            "attr_age": [("young", "old")[person // 3 % 2]],
        }
        for person in range(n)
        for k in range(2)
    ]
    return pd.DataFrame(rows)


def analysed(
    cut: dict[str, Any],
    truth: dict[str, Any] | None = None,
    battery: Battery | None = None,
    words: tuple[str, ...] = QUICK,
) -> tuple[Analysis, ComparedRun]:
    """Return what the fingerprint finds in simulated answers, and the tables that supplements read."""
    config = load_config(list(words))
    battery = battery or load_battery(asdict(config.probe))
    people, scorers = population(), build_scorers(config.scorer)
    answers = simulate(people, battery.questions, load_truth(truth or TRUTH)).drop(columns="level")
    return compared(config, battery, people, answers, resolve_cuts(cut, ["skin", "age"]), scorers)


def compared(
    config: Any,
    battery: Battery,
    people: pd.DataFrame,
    answers: pd.DataFrame,
    cuts: Sequence[Cut],
    scorers: Any = None,
) -> tuple[Analysis, ComparedRun]:
    """Return what the fingerprint finds in answers, and the tables that supplements read."""
    scorers = scorers or build_scorers(config.scorer)
    protocol, job = (
        for_people(for_battery(build_protocol(config), battery), people),
        Job(config, cuts, battery, scorers),
    )
    assert isinstance(protocol, Asks)
    tables = scored(protocol, RunTables(people, RowAnswers(answers), None), job)
    assert isinstance(tables.answers, RowAnswers)
    assert tables.scores is not None
    found = protocol.analyse(tables, job)
    comparison = comparison_of(config, len(battery.probes), len(cuts))
    run = ComparedRun(
        config, battery, tables.answers.frame, tables.scores, people, cuts, scorers, comparison, found.disparities
    )
    return found, run
