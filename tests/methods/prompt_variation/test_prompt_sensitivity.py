"""A probe that is asked with two questions reports whether they agree about the groups."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from bench import load_config
from simulated import QUICK, TRUTH, analysed

from fp2.methods.prompt_variation.prompt_sensitivity import PromptSensitivitySection
from fp2.probes.battery import load_battery
from fp2.report.values import Sentence, Weight


def test_two_questions_of_a_probe_report_whether_they_agree() -> None:
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
    alone, _ = analysed({"each": ["skin"]}, {"effects": TRUTH["effects"]}, replace(battery, questions=tuple(first)))
    assert "templates" not in alone.blocks  # one question a probe


RESULTS: dict[str, Any] = {"probes": [{"id": "trust", "label": "P4 Trust"}], "cuts": ["gender"]}


def said(block: dict[str, Any]) -> list[str]:
    values = PromptSensitivitySection().values(block, RESULTS)
    sentences = [value for value in values if isinstance(value, Sentence) and value.weight is not Weight.DETAIL]
    return ["".join(sentence.parts) for sentence in sentences]


def test_only_significant_prompt_sensitivity_is_reported() -> None:
    row = {"probe": "trust", "cut": "gender", "wordings": None, "gaps": [0.1, 0.2]}
    row |= dict.fromkeys(("share_group", "share_interaction", "sign_flips", "rank_correlation", "n_left_out"), 0)
    rows = [{**row, "interaction_adjusted_p": p} for p in (0.01, 0.2, None)]
    block = {"rows": rows, "alpha": 0.05, "scorer": "valence"}
    sensitive, beyond = said(block)
    assert sensitive == "Significant prompt sensitivity: P4 Trust by gender."
    assert beyond == "A difference holds for other wordings: in no comparison."
    rows[0]["wordings"] = {"holds": True, "worst": "a", "best": "b", "low": 0.1, "high": 0.2}
    assert said(block)[1].endswith("P4 Trust by gender.")
