"""`fp2 export` of a run of every installed protocol: what it found is in every format, or one line says why not."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from annotations import agreement_words, write_annotations
from bench import REPOSITORY, execute, fp2, results_of
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from fp2.errors import Fp2Error
from fp2.methods.exports.formats import to_csv, to_latex, to_ml_bom, to_model_card
from fp2.plugins import PROTOCOLS, installed, load
from fp2.report.reading import leaves
from fp2.report.section import DISPARITIES, load_sections
from fp2.report.values import findings

RELEASED = REPOSITORY / "tests" / "releases" / "0.3.0" / "runs"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Finished runs of all kinds: those of version 0.3.0, and the annotator agreement."""
    root = tmp_path_factory.mktemp("annotated")
    annotated = write_annotations(root)
    words = [*agreement_words(annotated, root, f"task.files.labels={annotated / 'labels.csv'}"), "report=none"]
    return [*sorted(path for path in RELEASED.iterdir()), execute(words, root / "run").folder]


@pytest.mark.parametrize("protocol", sorted(installed(PROTOCOLS)))
def test_what_a_run_of_every_protocol_found_is_exported(protocol: str, folders: list[Path]) -> None:
    shown = load_sections(load(PROTOCOLS, protocol, "").states.sections or [DISPARITIES])
    mine = [one for one in folders if any(section.applies(results_of(one)) for section in shown)]
    assert mine, f"no finished run of {protocol}: add one to `folders`"
    results = results_of(mine[0])
    rows = pd.read_csv(io.StringIO(to_csv(results, shown)))
    assert len(rows) > 0
    latex = to_latex(results, shown)
    assert latex.count(r"\begin{table}") == latex.count(r"\end{tabular}") > 0
    blocks = [(one, results.get(one.name, {})) for one in shown if one.applies(results)]
    stated_findings = [finding for one, block in blocks for finding in findings(one.values(block, results))]
    if "name" in rows:
        names = set(rows["name"].dropna())
        assert names >= {one.name for one in stated_findings} or shown[0].name == "disparities"
    blocks = [one["headline"] for one in results.values() if isinstance(one, dict) and "headline" in one]
    stated = [value for block in blocks for _, value in leaves(block) if type(value) in (int, float)]
    numbers = pd.concat([rows[name] for name in ("value", "low", "high")]).tolist() if stated else []
    assert all(any(value == pytest.approx(one) for one in numbers) for value in stated)
    if results["model"]["name"] == "nobody asked":
        for write in (to_model_card, to_ml_bom):
            with pytest.raises(Fp2Error, match="the run is about no model"):
                write(results, shown)
        return
    card = yaml.safe_load(to_model_card(results, shown).strip("-\n"))["model-index"][0]["results"][0]
    assert all(isinstance(one["value"], (int, float)) for one in card["metrics"])
    assert card["metrics"]
    bom = to_ml_bom(results, shown)
    assert JsonStrictValidator(SchemaVersion.V1_7).validate_str(bom) is None
    assert metrics_of(bom)


def metrics_of(bom: str) -> list[dict[str, Any]]:
    """Return the performance metrics of a ML-BOM."""
    found = json.loads(bom)["components"][0]["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    return list(found)


def test_every_large_group_has_a_metric(tmp_path: Path) -> None:
    results = results_of(RELEASED / "default")
    found = {one["slice"]: one for one in metrics_of(to_ml_bom(results))}
    labels = {probe["id"]: probe["label"] for probe in results["probes"]}
    groups = {
        f"{labels[row['probe']]}, {row['cut'].replace('_', ' ')}: {g['group']}, {g['n_subjects']} subjects": g
        for row in results["disparities"]
        for g in row["groups"]
        if row["scorer"] == "valence" and row["raw"] is not None and g["eligible"] and g["n_subjects"] >= 10
    }
    means = {where: float(one["value"]) for where, one in found.items() if one["type"] == "mean valence"}
    assert means == pytest.approx({where: group["mean"] for where, group in groups.items()}, rel=1e-5)
    assert "P1 Occupation, region: Asia, 12 subjects" in means
    words = ("export", str(RELEASED / "default"), f"--ml-bom={tmp_path / 'bom'}", "report.suppress_below=13")
    assert fp2(*words) == 0
    kept = {one["slice"] for one in metrics_of((tmp_path / "bom").read_text("utf-8")) if one["type"] == "mean valence"}
    assert kept == {where for where, group in groups.items() if group["n_subjects"] >= 13}


def test_findings_without_disparities_are_exported(tmp_path: Path) -> None:
    """GRAS has no disparities: before, its files were empty and the exit status 0."""
    files = {kind: tmp_path / f"out.{kind}" for kind in ("csv", "parquet", "latex", "model-card", "ml-bom")}
    assert fp2("export", str(RELEASED / "gras"), *(f"--{kind}={path}" for kind, path in files.items())) == 0
    stated = results_of(RELEASED / "gras")["gras"]["headline"]
    for table in (pd.read_csv(files["csv"]), pd.read_parquet(files["parquet"])):
        found = table.set_index("name")
        assert found.loc["published_orientation_images", "value"] == stated["published_orientation_images"]
        size = stated["omega_squared_subjects"]
        ends = found.loc["omega_squared_subjects", ["value", "low", "high"]].tolist()
        assert ends == [size["value"], size["low"], size["high"]]
        assert "traits by region" in found.index
    metrics = [
        one for one in metrics_of(files["ml-bom"].read_text("utf-8")) if one["type"].startswith("Traits attributed")
    ]
    shares, chances = (
        {one["slice"]: one["value"] for one in metrics if one["type"].endswith(f"by region, {column}")}
        for column in ("Share", "By chance")
    )
    block = results_of(RELEASED / "gras")["gras"]
    regions = next(one for one in block["attributes"] if one["name"] == "region")["groups"]
    large = {group["group"] for group in regions if group["n_subjects"] >= 10}
    assert {where.partition(",")[0] for where in shares} == large
    row = next(row for row in block["units"]["images"]["attribution"] if row["attribute"] == "region")
    label = f"{row['group']}, {row['polarity']}"
    assert float(shares[label]) == pytest.approx(row["share"])
    assert float(chances[label]) == pytest.approx(row["null_mean"], rel=1e-5)


@pytest.mark.parametrize("kind", ["csv", "parquet", "latex", "model-card", "ml-bom"])
def test_a_run_that_found_nothing_is_refused_in_one_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = results_of(RELEASED / "gras")
    del results["gras"]
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert fp2("export", str(tmp_path), f"--{kind}={tmp_path / 'out'}") == 2
    assert not (tmp_path / "out").exists()
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("error")]
    assert line.startswith("error: the run has no ")
