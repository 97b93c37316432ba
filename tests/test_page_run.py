"""`experiment=page`: five models, pinned from the local cache of the hub, on FHIBE, in one sweep with its report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from bench import fp2, results_of
from family_checkpoints import save
from fhibe_copy import write_copy
from own_code import save_chat, save_query

PAGE = {
    "google/paligemma-3b-mix-448": lambda folder: save("paligemma", folder),
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": lambda folder: save("smolvlm", folder),
    "Qwen/Qwen2.5-VL-3B-Instruct": lambda folder: save("qwen2_5_vl", folder),
    "OpenGVLab/InternVL2-2B": save_chat,
    "vikhyatk/moondream2": save_query,
}
FAMILIES = ["paligemma", "smolvlm", "qwen2_5_vl", "internvl_chat", "moondream1"]
COMMITS = {repository: f"{number + 1:x}" * 40 for number, repository in enumerate(PAGE)}


def put(hub: Path, repository: str, make: Callable[[Path], object], commit: str, ref: str | None = "main") -> Path:
    """Lay a checkpoint out as the hub's client does: snapshots by commit, and what a branch was."""
    folder = hub / f"models--{repository.replace('/', '--')}"
    make(folder / "snapshots" / commit)
    if ref is not None:
        (folder / "refs").mkdir(exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
    return folder


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local cache of the hub with the five models, as small checkpoints."""
    folder = tmp_path_factory.mktemp("hub")
    for repository, make in PAGE.items():
        put(folder, repository, make, COMMITS[repository])
    return folder


@pytest.fixture(autouse=True)
def offline(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
    return


@pytest.mark.thorough
def test_the_five_models_run_in_one_sweep(own_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = write_copy(tmp_path, n_subjects=60, n_pairs=0)
    words = [
        "experiment=page",
        f"data.root={copy.root}",
        "data.accept_terms=true",
        "model.trust_remote_code=true",
        "probe.select=[trust]",
        "probe.decoding.max_new_tokens=3",
        "analysis.permutations=99",
        "analysis.bootstrap=0",
        "cut=pronoun",
        "scorer=valence",
        "analysis.min_subjects=5",
        "report.figures=false",
        "tracking=none",
        "data.limit=24",
    ]
    assert fp2("run", *words) == 2
    said = capsys.readouterr().err
    assert "no pinned commit: internvl2_2b, moondream2" in said
    assert "fp2 pin internvl2_2b moondream2" in said
    assert said.count("\n") == 1
    assert not (own_root / "outputs").exists()  # nothing was begun

    assert fp2("pin", "experiment=page") == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(any(f"{repository} at {commit}" in line for line in lines) for repository, commit in COMMITS.items())
    assert sum("code of its own" in line for line in lines) == 2
    assert yaml.safe_load((own_root / "pins.yaml").read_text(encoding="utf-8")) == COMMITS

    assert fp2("run", *words) == 0, capsys.readouterr().err
    assert "5 of 5 runs finished" in capsys.readouterr().out
    folders = sorted(path.parent for path in (own_root / "outputs").glob("*/*/[0-9]/results.json"))
    found = [results_of(folder) for folder in folders]
    assert {results["model"]["id"]: results["model"]["revision"] for results in found} == COMMITS
    for folder, results in zip(folders, found, strict=True):
        logged = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        assert logged["model"]["revision"] == COMMITS[results["model"]["id"]]
        assert "pins" not in json.dumps(logged)
        assert results["answers"]["failed"] == 0

    (report,) = (own_root / "outputs").glob("*/*/report")
    together = results_of(report)
    assert {run["id"]: run["revision"] for run in together["runs"]} == COMMITS
    assert [run["family"] for run in together["runs"]] == FAMILIES
    assert all(run["parameters"] > 10_000 for run in together["runs"])
    assert together["missing"] == []
    html = (report / "report.html").read_text(encoding="utf-8")
    assert "Disparities of 5 models" in html  # two probes are no fingerprint
    assert all(family in html for family in FAMILIES)
