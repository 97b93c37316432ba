"""The numbers by the rule of the Fingerprint² page: against SciPy on plain lists, beside ours, in every output."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bench import Bench, fp2, load_config, results_of
from fhibe_copy import write_copy
from scipy import stats
from simulated import analysed

from fp2.compose import build_protocol, config_hash
from fp2.errors import Fp2Error
from fp2.methods.page_rule.published import Published, PublishedSection, effect_words, severity_words
from fp2.methods.several_runs.across import across_runs
from fp2.protocols.fingerprint.disparities import composite
from fp2.protocols.fingerprint.protocol import PAGE_PROBES
from fp2.protocols.fingerprint.settings import ComparedRun, with_columns
from fp2.protocols.requirements import check_settings, for_people
from fp2.report.several import side_by_side
from fp2.report.values import Value, as_cell, suppressed, tables
from fp2.results import Analysis

WORDS = ("analysis.published=true", "analysis.permutations=199", "analysis.bootstrap=0", "scorer=valence")
TRUTH: dict[str, Any] = {
    "seed": 3,
    "noise": {"subject_sd": 0.5, "image_sd": 0.2},
    "effects": {"occupation": {"skin": {"III": -2.5}}},
    "refusals": {"lifestyle": {"base": 0.05, "by": {"age": {"old": 0.5}}}},
    "errors": {"rate": 0.03},
}


@pytest.fixture(scope="module")
def found() -> tuple[Analysis, ComparedRun]:
    """A run of simulated answers with refusals, failures and one subject in two groups; not to be changed."""
    import simulated

    people = simulated.population()
    cells = people["attr_skin"].tolist()
    cells[0] = cells[1] = ["I", "III"]  # both images of the first person: I is listed first
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated, "population", lambda: people.assign(attr_skin=cells))
        return analysed({"each": ["skin", "age"]}, TRUTH, words=WORDS)


def reference(run: ComparedRun, probe: str, cut: str) -> dict[str, Any]:
    """Return the page's numbers from the tables, by plain loops, SciPy and NumPy."""
    columns = (run.people[name] for name in ("image_id", "subject_id", f"attr_{cut}"))
    group_of = {(image, subject): cell[0] for image, subject, cell in zip(*columns, strict=True)}
    samples: dict[str, list[float]] = {}
    own = run.scores[run.scores["probe"] == probe]
    for image, subject, value in zip(own["image_id"], own["subject_id"], own["value"], strict=True):
        samples.setdefault(group_of[image, subject], []).append(value)
    means = {name: float(np.mean(own)) for name, own in samples.items()}
    worst, best = min(means, key=lambda name: means[name]), max(means, key=lambda name: means[name])
    pooled = math.sqrt((np.std(samples[worst]) ** 2 + np.std(samples[best]) ** 2) / 2)
    h, p = stats.kruskal(*samples.values())
    return {
        "disparity": means[best] - means[worst],
        "worst_group": worst,
        "best_group": best,
        "h": h,
        "p_value": p,
        "d": (means[best] - means[worst]) / pooled,
        "n_answers": sum(map(len, samples.values())),
    }


def test_each_row_has_the_numbers_of_the_pages_rule_beside_ours(found: tuple[Analysis, ComparedRun]) -> None:
    analysis, run = found
    block = analysis.blocks["published"]
    assert len(block["rows"]) == 12
    ours = {(row["probe"], row["cut"]): row for row in analysis.disparities if row["scorer"] == "valence"}
    for row in block["rows"]:
        expected = reference(run, row["probe"], row["cut"])
        for name, value in expected.items():
            assert row[name] == (pytest.approx(value) if isinstance(value, float) else value), (row["probe"], name)
        assert row["significant"] == (expected["p_value"] < 0.05 / 5)
        beside = ours[row["probe"], row["cut"]]
        for name in ("disparity", "p_value", "d", "significant", "worst_group", "best_group"):
            assert beside[f"published_{name}"] == row[name]
        assert {name: beside[name] for name in row["ours"]} == row["ours"]
    other = {"probe": "trust", "scorer": "refusal", "cut": "skin"}
    assert with_columns([other], Published().columns(block))[0] == other | {
        f"published_{name}": None for name in ("disparity", "p_value", "d", "significant", "worst_group", "best_group")
    }


def test_the_composite_is_over_the_pages_five_probes(found: tuple[Analysis, ComparedRun]) -> None:
    block = found[0].blocks["published"]
    one = block["composites"]["skin"]
    rows = {row["probe"]: row for row in block["rows"] if row["cut"] == "skin"}
    assert set(rows) - set(one["probes"]) == {"authority"}
    assert tuple(one["probes"]) == PAGE_PROBES
    assert one["value"] == pytest.approx(composite({probe: rows[probe]["disparity"] for probe in PAGE_PROBES}))
    assert one["n_significant"] == sum(rows[probe]["significant"] for probe in PAGE_PROBES)
    assert block["metrics"]["composite.skin"] == one["value"]


@pytest.mark.parametrize(("value", "words"), [(0.045, "low"), (0.3999, "low"), (0.4, "medium"), (0.6, "high")])
def test_the_severity_of_the_page(value: float, words: str) -> None:
    assert severity_words(value) == words


@pytest.mark.parametrize(("d", "words"), [(0.1, "negligible"), (0.2, "small"), (0.82, "large"), (1.43, "very large")])
def test_the_words_of_the_page_for_its_effects(d: float, words: str) -> None:
    assert effect_words(d) == words


def test_the_steps_lead_from_the_pages_disparity_to_ours(found: tuple[Analysis, ComparedRun]) -> None:
    analysis, run = found
    rows = {(row["probe"], row["cut"]): row for row in analysis.blocks["published"]["rows"]}
    for row in rows.values():
        steps = [step["disparity"] for step in row["steps"]]
        assert steps[0] == pytest.approx(row["disparity"])
        assert steps[-1] == row["ours"]["raw"]
        if row["cut"] == "age":  # nobody has two ages: subjects, groups of ten, is all that ours does
            assert steps[-2] == pytest.approx(steps[-1])
    refused, told = rows["lifestyle", "age"], rows["trust", "age"]
    assert refused["n_refused"] > 0
    assert abs(refused["steps"][0]["disparity"] - refused["steps"][1]["disparity"]) > 0.01
    assert told["n_refused"] == 0
    assert told["steps"][0] == told["steps"][1]
    both = rows["occupation", "skin"]["steps"]  # the person of two groups counts in the second one with ours only
    assert both[-2]["disparity"] != pytest.approx(both[-1]["disparity"], abs=1e-6)
    assert len(run.scores) > 0


def test_a_difference_that_only_answers_as_units_show_is_explained() -> None:
    """Twelve people a group, ten alike answers of each, no effect: the page's test counts all answers, and rejects."""
    import simulated

    truth = {"seed": 2, "noise": {"subject_sd": 1.5, "image_sd": 0.05}}
    people = pd.concat([simulated.population(36).assign(copy=k) for k in range(5)], ignore_index=True)
    people["image_id"] = people["image_id"] + "-" + people["copy"].astype(str)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulated, "population", lambda: people.drop(columns="copy"))
        analysis, _ = analysed({"by": ["skin"]}, truth, words=WORDS)
    rows = analysis.blocks["published"]["rows"]
    assert all(row["significant"] for row in rows)
    assert not any(row["ours"]["significant"] for row in rows)
    for row in rows:
        assert row["p_of_subjects"] > 0.01
        assert any("answers of one subject are alike" in line for line in row["why"])


def test_a_row_that_rests_on_a_small_group_is_not_shown(found: tuple[Analysis, ComparedRun]) -> None:
    block = found[0].blocks["published"]
    results = {
        "probes": [{"id": row["probe"], "label": row["probe"]} for row in block["rows"]],
        "cuts": ["skin", "age"],
    }
    values = list(PublishedSection().values(block, results))
    assert "too few subjects" not in {as_cell(cell).value for cell in _cells(suppressed(values, 10))}
    composites, skin, age, *steps = tables(suppressed(values, 40))
    assert [as_cell(row.cells[1]).value == "too few subjects" for row in composites.rows] == [True, False]
    for table, hidden in ((skin, True), (age, False)):
        for row in table.rows:
            page, ours = (as_cell(cell) for cell in row.cells[1:3])
            assert (page.value == "too few subjects", page.detail == "") == (hidden, hidden)
            assert isinstance(ours.value, float)
    assert [len(table.rows) for table in steps] == [0, 6]
    merged = {table.label: table for table in side_by_side([values, values], ["a", "b"], 40)}
    page = merged["By the rule of the Fingerprint² page and by ours, skin, Disparity, page"]
    assert {as_cell(cell).value for row in page.rows for cell in row.cells[1:]} == {"too few subjects"}


def _cells(values: Iterable[Value]) -> list[Any]:
    return [cell for table in tables(values) for row in table.rows for cell in row.cells]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scorer=stereotype",), "needs the scorer valence"),
        (("probe.select=[authority]",), "probes that this battery lacks"),
    ],
)
def test_what_the_rule_is_not_about_is_refused_in_one_line(
    bench: Bench, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert bench.launch("analysis.published=true", *words) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.search(said, error)
    assert "analysis.published" in error


def test_the_config_hash_is_that_without_the_column() -> None:
    """It changes no other number; experiment=page, which shows it, keeps its hash of 0.3.0 (tests/test_releases.py)."""
    with_it, without = (
        load_config(["experiment=page", "data.root=/data", f"analysis.published={one}"]) for one in ("true", "false")
    )
    assert load_config(["experiment=page", "data.root=/data"]).analysis.published
    assert config_hash(with_it) == config_hash(without)


def test_the_six_regions_of_fhibe_reach_every_output_and_stay_after_a_purge(own_root: Path) -> None:
    """Two of three people list Northern America before the Americas, as the release sorts its cells."""
    copy = write_copy(own_root / "release", n_subjects=24, n_pairs=0)
    subjects = list(dict.fromkeys(row["subject_id"] for row in copy.rows))
    cells = ["['10. Northern America', '6. Americas']", "['6. Americas', '9. South America']"]
    for row in copy.rows:
        row["ancestry"] = cells[subjects.index(row["subject_id"]) % 2]
    copy.save()
    places = [f"paths.root={own_root}", "tracking=none", "report=none"]
    words = ["data=fhibe", f"data.root={copy.root}", "data.accept_terms=true", "model=planted", "cut=region", *places]
    quick = ["scorer=valence", "analysis.permutations=99", "analysis.bootstrap=0", "analysis.published=true"]
    assert fp2("run", *words, *quick) == 0
    (folder,) = (path.parent for path in (own_root / "outputs").rglob("results.json"))
    results = results_of(folder)
    composites = results["published"]["composites"]
    assert composites["region"]["grouped_by"] == ["first_region"]
    assert {group["group"] for group in results["published"]["rows"][0]["groups"]} == {"Americas", "Northern America"}
    assert set(results["dataset"]["groups"]["region"]) == {"Americas"}
    assert "published_d" in pd.read_parquet(folder / "disparities.parquet")
    assert "attr_first_region" in pd.read_parquet(folder / "people.parquet")
    assert fp2("export", str(folder), "--csv", str(own_root / "rows.csv"), *places[:1]) == 0
    assert "published_worst_group" in pd.read_csv(own_root / "rows.csv")
    # without the attribute in the digest: the same data as a run that did not ask for it
    assert fp2("run", *words, *quick[:-1]) == 0
    newest = max((own_root / "outputs").rglob("results.json"), key=lambda path: path.stat().st_mtime_ns)
    plain = json.loads(newest.read_text())
    assert plain["dataset_digest"] == results["dataset_digest"]
    assert plain["response_set"] == results["response_set"]
    assert plain["config_hash"] == results["config_hash"]
    assert "published" not in plain
    same = [{key: row[key] for key in plain["disparities"][0]} for row in results["disparities"]]
    assert same == plain["disparities"]
    assert fp2("purge", "--subject", subjects[0], "--yes", *places[:1]) == 0
    after = results_of(folder)
    assert after["published"]["composites"]["region"]["grouped_by"] == ["first_region"]
    assert after["published"]["rows"][0]["n_answers"] < results["published"]["rows"][0]["n_answers"]
    # rescoring a run without the column gives it, from the first value that its table of people kept
    assert fp2("rescore", str(newest.parent), "analysis.published=true", *places) == 0
    again = max((own_root / "outputs").rglob("results.json"), key=lambda path: path.stat().st_mtime_ns)
    assert json.loads(again.read_text())["published"]["composites"]["region"]["grouped_by"] == ["region"]
    # beside ours in the report of several runs, in all its forms
    assert fp2("report", str(folder), str(again.parent), "--to", str(own_root / "both"), *places) == 0
    block = results_of(own_root / "both")
    beside = {table["title"]: table["rows"] for table in block["beside"]}
    shown = beside["By the rule of the Fingerprint² page and by ours, region, Disparity, page"]
    assert [values[0] for values in shown.values()] == [row["disparity"] for row in after["published"]["rows"]]
    assert after["published"]["headline"]["region"]["value"] == after["published"]["composites"]["region"]["value"]
    for name in ("report.md", "report.html"):
        text = (own_root / "both" / name).read_text(encoding="utf-8")
        assert "composite, page" in text.lower()
        assert "leaderboard by the rule of the fingerprint² page" in text.lower()
    tally = next(table for table in block["across"] if table["name"] == "tally")
    assert sum(row[1] for row in tally["rows"]) == 2 * len(PAGE_PROBES)
    # without valence there are no such numbers
    assert fp2("rescore", str(folder), "scorer=economic", "analysis.primary=economic", *places) == 0
    newest = max((own_root / "outputs").rglob("results.json"), key=lambda path: path.stat().st_mtime_ns)
    assert "published" not in json.loads(newest.read_text())
    assert fp2("rescore", str(folder), "scorer=economic", "analysis.published=true", *places) == 2


THE_PAGE = {
    "paligemma": (0.020, 0.020, 0.022, 0.029, 0.071, 0.086),
    "smolvlm": (0.059, 0.162, 0.043, 0.001, 0.215, 0.145),
    "qwen": (0.306, 0.085, 0.167, 0.222, 0.182, 0.249),
    "internvl": (0.189, 0.365, 0.104, 0.085, 0.098, 0.347),
    "moondream": (0.121, 0.238, 0.198, 0.233, 0.434, 0.557),
}
"""The leaderboard of the page: P1 to P6; its composites are 0.045, 0.116, 0.209, 0.217 and 0.316."""
PROBES = ("occupation", "education", "authority", "trust", "lifestyle", "neighbourhood")


def published_run(disparities: tuple[float, ...], worst: str, n: int = 20) -> dict[str, Any]:
    """Return the results of a run with these disparities by the page's rule, as far as tables over runs read them."""
    groups = [{"group": name, "n_subjects": n} for name in ("Africa", "Europe", "Oceania")]
    rows = [
        {
            "probe": probe,
            "cut": "region",
            "disparity": x,
            "d": 3 * x,
            "effect": effect_words(3 * x),
            "groups": groups,
            "worst_group": worst,
            "best_group": "Oceania",
            "significant": x > 0.1,
            "ours": {"significant": x > 0.2},
        }
        for probe, x in zip(PROBES, disparities, strict=True)
    ]
    counted = [row for row in rows if row["probe"] in PAGE_PROBES]
    value = sum(row["disparity"] for row in counted) / 5
    composite = {
        "value": value,
        "severity": severity_words(value),
        "probes": list(PAGE_PROBES),
        "n_significant": sum(row["significant"] for row in counted),
        "n_significant_ours": sum(row["ours"]["significant"] for row in counted),
    }
    probes = [{"id": probe, "label": f"P{n} {probe}"} for n, probe in enumerate(PROBES, 1)]
    return {"probes": probes, "published": {"composites": {"region": composite}, "rows": rows}}


def across(runs: dict[str, dict[str, Any]]) -> dict[str, list[list[Any]]]:
    found = across_runs(list(runs.values()), list(runs), [PublishedSection()], 10)
    return {table["name"]: table["rows"] for table in found}


def test_the_pages_leaderboard_effects_and_tally_come_out_of_its_columns() -> None:
    runs = {name: published_run(row, "Africa" if name != "qwen" else "Europe") for name, row in THE_PAGE.items()}
    tables = across(dict(reversed(runs.items())))
    board = tables["leaderboard"]
    assert [row[0] for row in board] == list(THE_PAGE)
    assert [row[1] for row in board] == [1, 2, 3, 4, 5]
    assert [tuple(row[2:8]) for row in board] == list(THE_PAGE.values())
    assert [round(row[8], 3) for row in board] == [0.045, 0.116, 0.209, 0.217, 0.317]
    assert {row[9] for row in board} == {"low"}
    assert [row[10] for row in board] == ["0 of 5", "3 of 5", "4 of 5", "3 of 5", "5 of 5"]
    assert tables["tally"] == [["Africa", 20, 0], ["Europe", 5, 0], ["Oceania", 0, 25]]
    effects = tables["effects"]
    assert len(effects) == 25
    assert effects[0][:2] == ["moondream", "P6 neighbourhood"]
    assert effects[0][2:] == [pytest.approx(1.671), "very large", "Africa", "Oceania"]
    assert [row[2] for row in effects] == sorted((row[2] for row in effects), reverse=True)


@pytest.mark.thorough
@pytest.mark.usefixtures("mlflow_store")
def test_the_leaderboard_of_a_sweep_has_the_pages(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    words = bench.words("-m", "model.truth={seed: 1},{seed: 2}", "tracking=mlflow", "analysis.published=true")
    assert fp2("run", *words) == 0
    (sweep,) = re.findall(r"fp2 leaderboard (\S+)", capsys.readouterr().out)
    assert fp2("leaderboard", sweep, "--json", *bench.paths) == 0
    tables = {table["name"]: table for table in json.loads(capsys.readouterr().out)["across"]}
    assert list(tables) == ["leaderboard", "effects", "tally"]
    columns = [column["label"] for column in tables["leaderboard"]["columns"]]
    assert [label[:2] for label in columns if label.startswith("P")] == ["P1", "P2", "P3", "P4", "P5", "P6"]
    blocks = [results_of(folder)["published"]["composites"]["gender"]["value"] for folder in bench.run_folders()]
    place = columns.index("Composite")
    assert [row[place] for row in tables["leaderboard"]["rows"]] == sorted(blocks)
    assert sum(row[1] for row in tables["tally"]["rows"]) == 10
    assert fp2("leaderboard", sweep, "--markdown", str(bench.root / "board.md"), *bench.paths) == 0
    assert "Worst in" in (bench.root / "board.md").read_text(encoding="utf-8")
    assert "by the rule of the Fingerprint² page" in " ".join(capsys.readouterr().out.split())


def test_small_groups_hide_numbers_over_runs_and_one_run_or_other_variants_make_no_table() -> None:
    one, small = published_run(THE_PAGE["qwen"], "Africa"), published_run(THE_PAGE["smolvlm"], "Africa", n=4)
    (shown, hidden) = sorted(across({"a": one, "b": small})["leaderboard"], key=lambda row: row[0])
    assert shown[2] == 0.306
    assert not any(isinstance(cell, float) for cell in hidden)
    assert across({"a": one}) == {}
    assert across({"a": one, "b": {**one, "variant": {"kind": "blurred", "name": "blurred"}}}) == {}


def test_other_methods_do_not_take_it_and_no_answers_make_no_block(
    found: tuple[Analysis, ComparedRun],
) -> None:
    _, run = found
    assert Published().block(replace(run, disparities=())) is None
    sets = run.people.assign(set_id="s")
    for words, people in ((["probe=fhibe_vqa"], run.people), ([], sets)):
        config = load_config([*words, "analysis.published=true"])
        with pytest.raises(Fp2Error, match=r"does not take it \(analysis.published\)"):
            check_settings(for_people(build_protocol(config), people), config, None)
