"""`fp2 export` of a run in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from bench import Bench, fp2
from commands.test_runs import printed

from fp2.methods.exports.formats import _tex


def test_disparities_are_exported(
    runs: tuple[Bench, Any, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bench, strong, _ = runs
    files = {name: tmp_path / "out" / f"rows.{name}" for name in ("csv", "parquet", "latex", "model-card", "ml-bom")}
    words = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    out = printed(capsys, "export", strong.run_id, *words, *bench.paths)
    assert out.split() == [str(path) for path in files.values()]
    rows = strong.results["disparities"]
    for table in (pd.read_csv(files["csv"]), pd.read_parquet(files["parquet"])):
        assert table["raw"].tolist() == pytest.approx([row["raw"] for row in rows])
        assert table["verdict"].tolist() == [row["verdict"] for row in rows]
    latex = files["latex"].read_text(encoding="utf-8")
    assert latex.count(r" \\") == 1 + len(rows)
    assert "P1 " in latex
    card = yaml.safe_load(files["model-card"].read_text(encoding="utf-8").strip("-\n"))
    (result,) = card["model-index"][0]["results"]
    assert result["metrics"][0]["value"] == strong.results["composite"]
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = files["ml-bom"].read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(text) is None
    bom = json.loads(text)
    metrics = bom["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    sizes = [float(one["value"]) for one in metrics if one["type"].startswith("disparity")]
    assert sizes == pytest.approx([row["raw"] for row in rows], rel=1e-5)
    risks = bom["components"][0]["modelCard"]["considerations"]["fairnessAssessments"]
    assert [one["groupAtRisk"] for one in risks] == [r["worst_group"] for r in rows if r["verdict"] == "biased"] != []
    assert fp2("export", strong.run_id, *bench.paths) == 2
    assert "no format is given" in capsys.readouterr().err


def test_latex_is_escaped() -> None:
    assert _tex(r"50 % of a_b & \x{}") == r"50 \% of a\_b \& \textbackslash{}x\{\}"
