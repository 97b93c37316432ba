"""`fp2 compare` and the files of `fp2 leaderboard` on real runs, through the command line."""

from __future__ import annotations

import csv
import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, fp2

from fp2.report.reading import number
from fp2.runs.folders import recorded_written


def truth(folder: Path, name: str, points: float, seed: int = 7) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(f"seed: {seed}\neffects: {{all: {{gender: {{f: {points}}}}}}}\n", encoding="utf-8")
    return path


FAST = ("analysis.permutations=199", "analysis.bootstrap=99")


def test_two_folders_are_compared(bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fair = bench.run(folder="fair").folder
    harsh = bench.run(f"model.truth={truth(tmp_path, 'harsh', -4)}", "model.name=harsh", folder="harsh").folder
    out, picture = tmp_path / "out" / "found.json", tmp_path / "out" / "found.png"
    page = tmp_path / "out" / "found.html"
    words = ["compare", str(fair), str(harsh), "--json", str(out), "--figure", str(picture), *FAST, *bench.paths]
    assert fp2(*words, "--html", str(page)) == 0
    shown = capsys.readouterr().out
    assert "36 subjects and 72 images shared" in shown
    assert "Positive control" in shown
    found = json.loads(out.read_text(encoding="utf-8"))
    row = found["distances"][0]
    assert (row["cut"], row["scorer"], row["n_subjects"]) == ("gender", "valence", 36)
    assert row["adjusted_p"] == pytest.approx(1 / 200)
    html = page.read_text(encoding="utf-8")
    assert "Do the fingerprints differ?" in html
    assert "36 subjects and 72 images shared" in html
    lines = re.findall(r"<tr>.*?</tr>", html, re.DOTALL)
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", one, re.DOTALL) for one in lines]
    cells = next([re.sub(r"<[^>]+>", "", cell) for cell in one] for one in rows if one[:2] == ["valence", "gender"])
    low, high = f"{row['ci_low']:.3f}", f"{row['ci_high']:.3f}"
    assert cells[2:5] == [f"{row['distance']:.3f}", f"{low} to {high}", f"{row['null_mean']:.3f}"]
    assert cells[-1] == "significant"
    apart = html.split('id="h-differ"')[1].split("</section>")[0]
    assert apart.count('<th scope="row">') == 1 + len(found["probes"])
    assert {entry["probe"] for entry in row["by_probe"]} == set(found["probes"])
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    written = recorded_written(bench.root / "state")
    assert {record.path for record in written} == {str(out), str(picture), str(page)}
    assert all(len(record.runs) == 2 and record.is_unchanged for record in written)
    keys = {"subject_id", "image_id", "response_key"}
    assert not keys & set(re.findall(r'"(\w+)":', out.read_text(encoding="utf-8")))  # aggregates only


def test_the_page_says_who_was_asked_what_and_how_to_repeat_it(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two runs that scored stereotypes with different lexicons: that score is shown, marked, and left out."""
    from fp2.report.verify import payload_digest

    monkeypatch.setenv("COLUMNS", "200")
    fair = bench.run("scorer=[valence,stereotype]", "cut.each=[gender,region]", folder="fair").folder
    older = ("scorer=[valence,stereotype]", "scorer.stereotype.lexicon_file=stereotype")
    harsh = bench.run(f"model.truth={truth(tmp_path, 'harsh', -4)}", "model.name=harsh", *older, folder="harsh").folder
    page = tmp_path / "found.html"
    assert fp2("compare", str(fair), str(harsh), *FAST, "--html", str(page), *bench.paths) == 0
    shown, html = capsys.readouterr().out, page.read_text(encoding="utf-8")
    for line in (
        "Left out, a scorer of different versions: stereotype (version 1, lexicon stereotype version 3",
        "Left out, cuts of one run only: region.",
    ):
        assert line in shown
        assert line in html
    assert "scored by different versions: not comparable between runs" in html
    kinds = [json.loads(unescape(one))["kind"] for one in re.findall(r"data-chart='([^']*)'", html)]
    assert set(kinds) == {"radar", "bars", "intervals"}
    results = [json.loads((run / "results.json").read_text(encoding="utf-8")) for run in (fair, harsh)]
    means = (
        unescape(html).split('id="h-means"')[1].split('data-cut="gender" data-scorer="valence"')[1].split("</table>")[0]
    )
    written = re.findall(r">(−?[0-9.]+)(?: [▼▲]|</td>)", means.split("<tbody", 1)[1])
    expected = [
        [row for row in one["disparities"] if (row["cut"], row["scorer"]) == ("gender", "valence")] for one in results
    ]
    wanted = []
    for name in ("f", "m"):
        for rows, one in zip(expected, results, strict=True):
            wanted.append(str(one["dataset"]["groups"]["gender"][name]["n_subjects"]))
            wanted += [number(next(g["mean"] for g in row["groups"] if g["group"] == name), 2) for row in rows]
    assert written == wanted
    for one, run in zip(results, (fair, harsh), strict=True):
        assert payload_digest(run / "passport.json") in html
        assert one["run_id"] in html
    for probe in results[0]["probes"]:
        assert probe["text"] in unescape(html)
    for said in (
        "h-answers",
        "h-data",
        "h-limits",
        "Terms of use",
        "greedy (temperature 0), at most 64 new tokens",
        "model.truth=local:harsh.yaml",
        "Answers side by side",
    ):
        assert said in html
    assert str(bench.root) not in html


def test_several_runs_are_compared_in_pairs_with_one_correction(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fp2.stats.adjustment import adjust_p_values

    monkeypatch.setenv("COLUMNS", "200")
    runs = {"fair": (0.0, 7), "harsh": (-4, 7), "cruel": (-4, 8)}
    folders = [
        str(bench.run(f"model.truth={truth(tmp_path, name, *how)}", f"model.name={name}", folder=name).folder)
        for name, how in runs.items()
    ]
    out, picture = tmp_path / "found.json", tmp_path / "found.png"
    assert fp2("compare", *folders, *FAST, "--json", str(out), "--figure", str(picture), *bench.paths) == 0
    shown = capsys.readouterr().out
    assert "2 of 3 distances of valence are significant" in shown
    assert "harsh and cruel" in shown
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["runs"], found["not_compared"]) == (["fair", "harsh", "cruel"], [])
    rows = [pair["distances"][0] for pair in found["pairs"]]
    assert [row["adjusted_p"] for row in rows] == adjust_p_values([row["p_value"] for row in rows])
    assert [row["adjusted_p"] <= 0.05 for row in rows] == [True, True, False]  # harsh and cruel differ by noise
    probes = [entry for row in rows for entry in row["by_probe"]]
    assert [entry["adjusted_p"] for entry in probes] == adjust_p_values([entry["p_value"] for entry in probes])
    alone = tmp_path / "two.json"
    assert fp2("compare", *folders[:2], *FAST, "--json", str(alone), *bench.paths) == 0
    capsys.readouterr()
    two = json.loads(alone.read_text(encoding="utf-8"))["distances"][0]
    assert (two["distance"], two["p_value"]) == (rows[0]["distance"], rows[0]["p_value"])
    assert two["adjusted_p"] == two["p_value"] < rows[0]["adjusted_p"]
    other = str(bench.run("cut.by=[region]", folder="other").folder)
    assert fp2("compare", folders[0], folders[1], other, "analysis.permutations=99", *bench.paths) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Not compared: harsh · by gender" in shown
    assert "no cut in common" in shown
    assert fp2("compare", *folders, folders[0], *bench.paths) == 2
    assert "the same run" in capsys.readouterr().err


def test_mistakes_are_one_line(finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = finished.outputs / "one"
    (tmp_path / "empty").mkdir()
    for second, said in (
        (str(folder), "the same run"),
        (str(tmp_path / "empty"), "not a run's"),
        ("0123456789abcdef", "no MLflow store yet"),
    ):
        assert fp2("compare", str(folder), second, *finished.paths) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    without = tmp_path / "without"
    without.mkdir()
    for name in ("results.json", "config.yaml"):
        (without / name).write_bytes((folder / name).read_bytes())
    assert fp2("compare", str(folder), str(without), *finished.paths) == 2
    assert "has no scores per subject and image" in capsys.readouterr().err


def test_runs_under_another_salt_share_nobody(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    elsewhere = Bench(tmp_path / "elsewhere", bench.pictures)
    assert fp2("compare", str(bench.run().folder), str(elsewhere.run().folder), *bench.paths) == 2
    assert "salted with a secret" in capsys.readouterr().err


@pytest.mark.usefixtures("mlflow_store")
def test_a_sweep_is_ranked_with_intervals(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    names = [truth(tmp_path, name, points) for name, points in (("harsh", -4), ("fair", 0.0), ("cruel", -4.2))]
    given = ",".join(str(path) for path in names)
    assert fp2("run", *bench.words("-m", f"model.truth={given}", "tracking=mlflow", "probe.select=[trust]")) == 0
    sweep = re.search(r"fp2 leaderboard (\S+)", capsys.readouterr().out)[1]  # type: ignore[index]
    table, text, picture = (tmp_path / f"board.{kind}" for kind in ("csv", "md", "png"))
    words = ["--csv", str(table), "--markdown", str(text), "--figure", str(picture)]
    assert fp2("leaderboard", sweep, *words, "analysis.alpha=0.2", *bench.paths) == 0  # the level is the runs' own
    said = capsys.readouterr()
    assert "share a letter" in said.out
    assert "Downloading" not in said.err
    with table.open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["rank"], row["rank_low"], row["rank_high"], row["ties"]) for row in rows] == [
        ("1", "1", "1", "a"),
        ("2", "2", "3", "b"),
        ("3", "2", "3", "b"),
    ]
    assert "| Model | # | Ranks | Ties | Difference |" in text.read_text(encoding="utf-8")
    assert "95 %; models that share" in " ".join(said.out.split())
    assert picture.is_file()
    assert fp2("leaderboard", *bench.paths) == 0
    assert "no rank intervals: name a sweep" in capsys.readouterr().out
    assert fp2("leaderboard", "--json", *bench.paths) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {row["run_id"] for row in printed["rows"]} == {row["run_id"] for row in rows}
    assert fp2("leaderboard", "--figure", str(picture), *bench.paths) == 2
    capsys.readouterr()
    assert fp2("compare", rows[0]["run_id"], rows[1]["run_id"], *FAST, "--json", "-", *bench.paths) == 0
    assert json.loads(capsys.readouterr().out)["first"]["run_id"] == rows[0]["run_id"]
    assert fp2("compare", rows[0]["run_id"], rows[1]["run_id"], *FAST, *bench.paths) == 0
    assert "36 subjects" in capsys.readouterr().out
    assert fp2("compare", "no-such-run", rows[0]["run_id"], *bench.paths) == 2
    assert "no-such-run" in capsys.readouterr().err
