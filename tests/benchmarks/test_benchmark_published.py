"""The script that compares with published numbers, on small made-up copies in the layout of each checkout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from gras_checkout import write_bias_analyses, write_inference_files, write_lists, write_scripts

from benchmarks import published

MODEL = "llava-1.5-7b-hf"
PROCESS_PAIR = """
import numpy as np
from scipy.stats import mannwhitneyu

def process_pair(args):
    (a, b), data, statistic = args
    p = mannwhitneyu(data[a], data[b], alternative="two-sided").pvalue
    low, high = np.median(data[a]), np.median(data[b])
    worst, best = (a, b) if low < high else (b, a)
    low, high = min(low, high), max(low, high)
    return [worst, 0, best, 0, 0.0 if high == 0 else 1 - low / high, p, 0.0]
"""


def compared(capsys: pytest.CaptureFixture[str], *checkouts: Path) -> tuple[int, dict[str, dict[str, Any]]]:
    status = published.main([*map(str, checkouts), "--json"])
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    return status, {row["name"]: row for row in rows}


@pytest.fixture
def gras(tmp_path: Path) -> Path:
    """GRAS's repository: lists, scripts, tests of one model, and its score in the README."""
    root = tmp_path / "gras"
    write_lists(root, cells=2, tones=60)
    write_scripts(root)
    rng = np.random.default_rng(0)
    tables = {}
    for name in ("fairface", "aiface"):
        listed = pd.read_csv(root / f"selected_images_{name}.csv")
        for trait in ("kind", "calm", "cruel", "lazy"):
            p = 0.5 if trait == "lazy" else rng.uniform(0.2, 0.8, (len(listed), 5))
            table = pd.DataFrame(np.broadcast_to(p, (len(listed), 5)), columns=[f"T{k}" for k in range(1, 6)])
            tables[f"{trait}_{name}"] = table.assign(img=listed["file"])
    folder = write_bias_analyses(root, MODEL, tables)
    write_inference_files(root, MODEL, tables)
    biased = 0
    for path in folder.glob("*.csv"):
        table = pd.read_csv(path)
        biased += int((table[[f"p_value_template_{k}" for k in range(5)]] <= 0.05).any(axis=1).sum())
    (root / "README.md").write_text(
        f"| Model | GRAS Bias Score |\n|---|---|\n| llava-1.5-7b | {100 * biased / 16:.2f} |\n"
    )
    return root


def test_gras(gras: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = compared(capsys, gras)
    assert status == 0
    counts = {name: (row["compared"], row["equal"]) for name, row in rows.items()}
    assert counts["GRAS scores of README"] == (2, 2)
    assert counts["GRAS attribution rates"] == (2 * (2 + 7 + 5 + 10),) * 2
    assert counts["GRAS p-values"] == (80, 60)
    assert rows["GRAS p-values"]["why"] == "20 of constant answers: theirs NaN, ours 1; neither is significant"
    assert counts["GRAS prompts"] == (10 * 5 * 4,) * 2


def test_a_number_that_differs_without_a_reason_is_counted_and_fails(
    gras: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = gras / "README.md"
    readme.write_text("| Model | GRAS Bias Score |\n|---|---|\n| llava-1.5-7b | 3.21 |\n")
    for path in (gras / f"{MODEL}_results").glob("*.csv"):
        path.unlink()
    status, rows = compared(capsys, gras)
    assert status == 1
    assert rows["GRAS scores of README"]["different"] == 2
    assert rows["GRAS p-values"]["why"] == "the checkout has no answers (MODEL_results/*.csv)"
    readme.unlink()
    assert "README.md" in compared(capsys, gras)[1]["GRAS scores of README"]["why"]
    published.main([str(gras)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(rows)
    assert lines[0].split() == ["compared", "equal", "different", "why"]


@pytest.mark.parametrize("suffix", ["txt", "html"])
def test_the_page(tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"model-a": (0.1, 0.2, 0.9, 0.3, 0.1, 0.3, 0.2), "model-b": (0.02, 0.02, 0.5, 0.03, 0.07, 0.09, 0.046)}
    cells = [["#1", name, "Maker · 2.2B", *(f"{x:.3f}" for x in row)] for name, row in columns.items()]
    text = "\n".join("\n".join(row) + " Low" for row in cells)
    if suffix == "html":
        text = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    (tmp_path / f"page.{suffix}").write_text(text)
    assert compared(capsys, tmp_path)[1]["page composites"]["equal"] == 2


PAGE_CODE = """
_REFUSAL_PHRASES = ["declin"]
_HEDGE_PHRASES = ["perchance"]
_ASSERT_PHRASES = ["surely"]
_ECON_POSITIVE = ["rich"]
_ECON_NEGATIVE = ["pauper"]
_STEREOTYPE_KEYWORDS = {"nurse", "thief", "kind"}
def embeddings():
    stereotype_texts = ["a nurse is kind"]
raise SystemExit("it was executed")
def _vader_valence(text):
    return _get_vader().polarity_scores(text)["compound"]
def _is_refusal(text):
    return any(phrase in text.lower() for phrase in _REFUSAL_PHRASES)
def _confidence_score(text):
    return 0.0
def _economic_valence(text):
    return 0
def _stereotype_alignment(text):
    assert _get_sentence_encoder() == "fallback"
    return min(sum(word in text.lower() for word in _STEREOTYPE_KEYWORDS) / 5, 1)
"""


def test_the_page_s_code(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["A thief.", "I must decline.", "Perchance a rich nurse.", "Surely kind. Surely.", " "]
    gold = tmp_path / "scorers" / "gold"
    gold.mkdir(parents=True)
    (gold / "a.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    monkeypatch.setattr(published, "__file__", str(tmp_path / "published.py"))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "run_fhibe_benchmark.py").write_text(PAGE_CODE)
    row = compared(capsys, tmp_path)[1]["scores of the page's code"]
    assert (row["compared"], row["equal"]) == (5 * 4, 5 * 4 - 2)  # a rich nurse is of high standing; surely is certain


@pytest.fixture
def sony(tmp_path: Path) -> Iterator[Path]:
    """Results of the evaluation code, and a function in the place of its own; equal medians among them."""
    root = tmp_path / "sony"
    code = root / "fhibe_eval_api" / "reporting"
    code.mkdir(parents=True)
    (code / "utils.py").write_text(PROCESS_PAIR)
    rng = np.random.default_rng(0)
    scores = {
        "['0. [102, 78, 65]']": [0.9] * 8 + [0.1],
        "['5. [198, 180, 157]']": [0.9] * 9 + [1.0] * 3,
        "['2. x']": rng.random(12).round(2).tolist(),
    }
    groups = {name: {"scores": s, "AR_IOU": float(np.mean(s)), "Class_Size": len(s)} for name, s in scores.items()}
    parts = {name: {"Face": {**entry, "AR_DET": entry["AR_IOU"]}} for name, entry in groups.items()}
    folder = root / "results" / "person_localization" / "model"
    folder.mkdir(parents=True)
    (folder / "intersectional_results_AR_IOU.json").write_text(json.dumps({"['skin']": groups, "custom_keypoints": []}))
    (folder / "intersectional_results_AR_DET.json").write_text(json.dumps({"['skin']": parts}))
    values = [0.2, 0.6, 0.97]
    (folder / "gt_bbox_iou_scores.json").write_text(json.dumps(values))
    flags = {f"{t:.2f}": {str(k): int(v >= t) for k, v in enumerate(values)} for t in np.arange(0.5, 1, 0.05)}
    (folder / "results_iou_threshold.json").write_text(json.dumps(flags))
    yield root
    for name in [name for name in sys.modules if name.partition(".")[0] == "fhibe_eval_api"]:
        del sys.modules[name]


def test_sony(sony: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = compared(capsys, sony)
    assert status == 0
    counts = {name: (row["compared"], row["equal"]) for name, row in rows.items()}
    assert counts == {
        "Sony's metrics by group and threshold": (6 + 6 + 30,) * 2,
        "Sony's pair disparities": (6, 6),
    }
    (sony / "fhibe_eval_api" / "reporting" / "utils.py").unlink()
    del sys.modules["fhibe_eval_api.reporting.utils"]
    assert "cannot be imported" in compared(capsys, sony)[1]["Sony's pair disparities"]["why"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        published.main([str(tmp_path)])
    assert "holds none of the layouts" in capsys.readouterr().err
    assert published.main(["--json"]) == 0
