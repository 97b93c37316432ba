"""Runs on counterfactual sets: what was planted within scenes is found, the zeros are not, nothing else is said."""

from __future__ import annotations

import csv
import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, execute, fp2, load_config, results_of
from commands.test_runs import RELEASED
from PIL import Image

from fp2.errors import Fp2Error
from fp2.runs.logged import load_run_sections

TRUTH = (
    "{noise: {subject_sd: 2.0, image_sd: 0.5}, effects: {occupation: {skin: {VI: -1.5}}}, "
    "refusals: {lifestyle: {base: 0.05}}}"
)


def write_sets(folder: Path, n_sets: int = 24) -> Path:
    """Write three versions of each scene, one skin tone each, and images of no set beside them."""
    rng = np.random.default_rng(3)
    folder.mkdir(parents=True)
    rows = []
    for number in range(n_sets + 6):
        name = f"scene-{number}" if number < n_sets else ""
        for skin in ("I", "III", "VI"):
            file = f"{uuid.UUID(int=number * 10 + len(skin) + (3 << 100))}.png"
            pixels = np.broadcast_to(rng.integers(0, 256, 3, dtype=np.uint8), (8, 8, 3))
            Image.fromarray(np.ascontiguousarray(pixels)).save(folder / file)
            rows.append((file, name or f"alone-{number}-{skin}", name, skin, "dark" if number % 2 else "light"))
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([("file", "person", "scene", "skin", "hair"), *rows])
    return folder


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sets(tmp_path_factory.mktemp("sets") / "pictures")


@pytest.fixture
def sets_bench(own_root: Path, sets: Path) -> Bench:
    return Bench(own_root, sets)


def words(*more: str) -> list[str]:
    columns = "data.columns={image: file, subject: person, set_id: scene, skin: skin, hair: hair}"
    return ["data=counterfactual", columns, "cut.by=[skin]", f"model.truth={TRUTH}", *more]


def rows_of(results: dict[str, Any], scorer: str = "valence") -> dict[str, dict[str, Any]]:
    return {row["probe"]: row for row in results["matched"]["rows"] if row["scorer"] == scorer}


def test_a_rescoring_is_about_the_sets_that_vary_in_its_cuts(
    sets_bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pd.read_csv(sets_bench.table)
    rows.loc[(rows["skin"] == "VI") & rows["scene"].isin(["scene-1", "scene-2"]), "hair"] = "dyed"
    table = sets_bench.root / "mixed.csv"
    rows.to_csv(table, index=False)
    each = ("cut.by=null", "cut.each=[skin,hair]", "scorer=valence", "analysis.min_subjects=2")
    own = (f"data.path={table}", f"data.image_root={sets_bench.pictures}")
    given = [*(word for word in sets_bench.words(*words(*each)) if word != "cut.by=[skin]"), *own]
    logged = execute(given, sets_bench.outputs / "logged")
    assert logged.results["n_images"] == 72
    done = ["rescore", str(logged.folder), "tracking=none", "report=none", *sets_bench.paths]
    capsys.readouterr()
    assert fp2(*done, "cut.by=[hair]") == 0
    assert "2 sets vary in hair." in capsys.readouterr().out
    found = next(results_of(folder) for folder in sets_bench.run_folders() if folder != logged.folder)
    assert (found["n_images"], found["answers"]["planned"]) == (6, 36)
    assert any("22 sets without variation in any of the cuts left out" in line for line in found["limitations"])
    capsys.readouterr()
    assert fp2(*done, "cut.groups={skin: [I], hair: [dyed]}") == 2
    assert "no counterfactual set varies in skin, hair" in capsys.readouterr().err


def test_what_is_planted_within_scenes_is_found_and_the_zeros_are_not(sets_bench: Bench) -> None:
    results = sets_bench.run(*words("scorer=default", "analysis.permutations=999", "report=default")).results
    found = rows_of(results, "valence_context")
    assert len(found) == 6
    row = found["occupation"]
    assert (row["verdict"], row["worst_version"]) == ("biased", "VI")
    assert row["family_size"] == 31
    assert row["adjusted_p"] <= 0.05
    assert row["raw"] > row["null_p95"]
    pair = next(pair for pair in row["pairs"] if (pair["first"], pair["second"]) == ("I", "VI"))
    assert pair["n_sets"] == 24
    assert pair["ci_low"] > 0
    assert not [probe for probe, row in found.items() if probe != "occupation" and row["significant"]]
    assert rows_of(results, "refusal")["occupation"]["verdict"] == "uninformative"
    assert results["disparities"] == []
    assert (results["composite"], results["severity"], results["composites"]) == (None, None, {})
    assert results["balance"] == []
    assert results["dataset"]["groups"]["skin"]["VI"] == {"n_subjects": 24, "n_images": 24}
    assert results["matched"]["cuts"][0]["n_sets"] == 24
    assert any("18 images of no set" in line for line in results["limitations"])
    assert results["matched"]["metrics"]["occupation.valence_context.skin.raw"] == row["raw"]
    json.dumps(results, allow_nan=False)


def test_other_protocols_refuse_sets_and_name_those_that_compare_them(sets_bench: Bench) -> None:
    with pytest.raises(Fp2Error, match=r"which probe=gras cannot do.*probe\.protocol=fingerprint or matched"):
        sets_bench.run(*words("probe=gras", "scorer=none"))


def test_the_report_shows_the_sets_and_no_fingerprint(sets_bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert sets_bench.launch(*words("analysis.permutations=999", "report=default")) == 0
    said = capsys.readouterr().out
    assert "Counterfactual comparison of planted" in said
    assert "24 sets vary in skin." in said
    assert "composite" not in said
    (folder,) = sets_bench.run_folders()
    assert (folder / "figures" / "matched_skin.png").stat().st_size > 10_000
    page = (folder / "dashboard.html").read_text(encoding="utf-8")
    assert "Differences within counterfactual sets" in page
    assert "Composite by" not in page
    assert page.count("data-chart=") == 3  # the largest differences, the comparison, and refusals by group
    passport = json.loads((folder / "passport.json").read_text())
    assert passport["payload"]


def test_sections_read_from_a_folder_begin_with_the_sets_as_those_of_a_new_run_do() -> None:
    folder = RELEASED / "twins"
    sections = load_run_sections(folder, load_config([]), results_of(folder)["run_id"])
    names = [section.name for section in sections]
    assert names.index("matched") < names.index("pairwise")


def test_a_purged_scene_leaves_what_a_run_without_it_finds(sets_bench: Bench, sets: Path) -> None:
    folder = sets_bench.run(*words("analysis.permutations=999")).folder
    assert fp2("purge", "--subject", "scene-3", "--yes", *sets_bench.paths) == 0
    purged = results_of(folder)
    table = pd.read_csv(sets / "people.csv").astype({"scene": "str"})
    left = sets_bench.root / "left.csv"
    table[table["scene"] != "scene-3"].replace("nan", "").to_csv(left, index=False)
    own = (f"data.path={left}", f"data.image_root={sets}")
    again = execute(
        [*sets_bench.words(*words("analysis.permutations=999")), *own], sets_bench.outputs / "again"
    ).results
    assert purged["matched"]["n_sets"] == again["matched"]["n_sets"] == 23
    for probe, row in rows_of(again).items():
        old = rows_of(purged)[probe]
        assert old["raw"] == pytest.approx(row["raw"], abs=1e-9)
        assert old["null_mean"] == pytest.approx(row["null_mean"], abs=0.02)
        assert old["versions"] == [
            {**version, "level": pytest.approx(version["level"], abs=1e-9)} for version in row["versions"]
        ]


def test_sets_are_limited_whole_and_refused_where_nothing_compares_them(sets_bench: Bench) -> None:
    few = sets_bench.run(*words("data.limit=33")).results
    assert few["matched"]["cuts"][0]["n_sets"] == 11
    with pytest.raises(Fp2Error, match="no counterfactual set varies in hair"):
        sets_bench.run(*words("cut.by=[hair]"))
    none = sets_bench.run(*words("data.limit=12")).results
    assert {row["verdict"] for row in none["matched"]["rows"]} == {"too_few_sets"}
    named = sets_bench.run(*words("data.limit=12", "probe.protocol=matched")).results
    assert named["matched"] == none["matched"]
    plain = ["data.columns={image: file, subject: person, skin: skin}", "cut.by=[skin]", "data.limit=60"]
    with pytest.raises(Fp2Error, match=r"'matched' compares counterfactual sets, and the data have none.*set_id"):
        sets_bench.run(*plain, "probe.protocol=matched")
    population = sets_bench.run(*plain).results
    assert "matched" not in population
    assert population["disparities"]
