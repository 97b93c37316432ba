"""A probe that is asked with two questions reports whether they agree about the groups."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from simulated import QUICK, TRUTH, analysed

from fp2.compose import load_config
from fp2.probes.battery import load_battery


def test_two_questions_of_a_probe_report_whether_they_agree(found: Any) -> None:
    plain = load_battery(asdict(load_config(list(QUICK)).probe))
    first = [q for q in plain.questions if q.probe == "occupation"]
    other = next(q for q in plain.questions if q.probe == "trust")
    moved = replace(other, probe="occupation", question_id="occupation_again")
    battery = replace(plain, questions=(*first, moved), probes=tuple(p for p in plain.probes if p.id == "occupation"))
    analysis, _ = analysed({"each": ["skin"]}, {"effects": TRUTH["effects"]}, battery)
    (row,) = analysis.blocks["templates"]["rows"]
    assert row["questions"] == [first[0].question_id, "occupation_again"]
    assert row["gaps"][0] > 2 * row["gaps"][1]  # planted for the words of one question, not of the other
    assert row["interaction_adjusted_p"] <= 0.05
    json.dumps(analysis.blocks, allow_nan=False)
    assert "templates" not in found[0].blocks  # one question a probe
