"""Scorers of a user's own on the gold set: read as the file says, by default as range and rubric say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_server import Reply, Seen, completion, serving

from benchmarks.scorers.__main__ import main
from benchmarks.scorers.own import questions

ROWS = [
    ("a", "occupation", "A nurse.", 1),
    ("b", "trust", "A thief.", -1),
    ("c", "trust", "A man.", 0),
    ("d", "trust", "A kind thief.", 1),
]
LABELS = {"refusal": 0, "stereotype": 0, "confidence": 0, "economic": None}


def listed(seen: Seen, before: int) -> Reply:
    return Reply({"data": [{"id": "judge"}]})


def judging(seen: Seen, before: int) -> Reply:
    asked = json.loads(seen.body["messages"][1]["content"])
    label = "positive" if "nurse" in asked["answer"] else "negative" if "thief" in asked["answer"] else "neutral"
    return Reply(completion(json.dumps({"label": label})))


def test_a_judge_and_a_scorer_of_ones_own_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold, store, file = tmp_path / "gold.jsonl", tmp_path / "store.sqlite", tmp_path / "mine.yaml"
    rows = [{"id": i, "probe": probe, "text": text, "valence": label, **LABELS} for i, probe, text, label in ROWS]
    gold.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with serving({"/v1/models": listed, "/v1/chat/completions": judging}) as server:
        file.write_text(
            "judge: &judge {target: judge, rubric: valence, id: judge, base_url: '"
            + server.url
            + "'}\nstrict: {<<: *judge, read_as: {label: valence, low: -2, high: 2}}\n",
            encoding="utf-8",
        )
        assert main([str(gold), "--scorer", str(file), "--store", str(store), "--errors", "judge"]) == 0
        out = capsys.readouterr().out
        found = json.loads(out.splitlines()[-1])["gold"]
        assert found["judge"]["classes"]["-1"].items() >= {"n": 1, "precision": 0.5, "recall": 1.0}.items()
        assert found["judge"]["classes"]["1"].items() >= {"n": 2, "precision": 1.0, "recall": 0.5}.items()
        assert found["strict"]["classes"]["0"]["recall"] == 1.0
        assert found["strict"]["classes"]["1"]["precision"] is None  # of no answer: JSON has no NaN
        assert "d trust [+1] 'A kind thief.'" in out
        sent = [json.loads(one.body["messages"][1]["content"]) for one in server.asked("/v1/chat/completions")[1:]]
        assert sorted(one["answer"] for one in sent) == sorted(row[2] for row in ROWS)  # the second is not paid again
        assert {one["question"] for one in sent} == {questions()["occupation"], questions()["trust"]}


def test_a_file_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.yaml"
    valence = "{target: 'fp2.scorers.valence:Valence'"
    for text, line in {
        "mood: " + valence + "}": "the gold set has no label 'mood'",
        "mood: " + valence + ", read_as: {label: valence, lower: 1}}": "unknown key 'lower'",
        "mood: 3": "'mood' is not a mapping",
    }.items():
        file.write_text(text, encoding="utf-8")
        assert main(["--scorer", str(file)]) == 2
        assert line in capsys.readouterr().err
    assert main(["--scorer", str(tmp_path / "none.yaml")]) == 2
