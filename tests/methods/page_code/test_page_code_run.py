"""`experiment=page_code`: the published conditions on the face crops of FHIBE, with two of the models, as one sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import fp2, results_of
from family_checkpoints import save
from fhibe_copy import write_copy
from own_code import save_chat
from page_script import write_script
from sentence_embeddings import save_embeddings
from test_page_run import put

REPOSITORIES = {"google/paligemma-3b-mix-448": lambda folder: save("paligemma", folder),
                "OpenGVLab/InternVL2-2B": save_chat}  # fmt: skip


@pytest.mark.thorough
def test_the_published_conditions_run_in_one_sweep(
    own_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    for repository, make in REPOSITORIES.items():
        put(tmp_path / "hub", repository, make, "ab" * 20)
    copy = write_copy(tmp_path, n_subjects=60, n_pairs=0)
    words = [
        "experiment=page_code",
        f"data.root={copy.root}",
        "data.accept_terms=true",
        "model.trust_remote_code=true",
        f"scorer.refusal.published={write_script(tmp_path / 'CHECKOUT')}",
        "probe.decoding.max_new_tokens=3",
        "analysis.permutations=99",
        "analysis.bootstrap=0",
        "analysis.min_subjects=5",
        "report.figures=false",
        "tracking=none",
        "data.limit=24",
        "model.image_size=28",
    ]
    models = "model=paligemma_3b_mix_448_page_code,internvl2_2b_page_code"
    assert fp2("pin", "paligemma_3b_mix_448_page_code", "internvl2_2b_page_code") == 0
    capsys.readouterr()
    assert fp2("run", *words, "hydra.mode=RUN", "model=paligemma_3b_mix_448_page_code") == 2
    said = capsys.readouterr().err
    assert "scorer=page_code_keywords" in said
    assert said.count("\n") == 1
    embeddings = save_embeddings(tmp_path / "embeddings")
    assert fp2("run", *words, models, f"scorer.page_stereotype.model={embeddings}") == 0, capsys.readouterr().err

    found = [results_of(path.parent) for path in sorted((own_root / "outputs").glob("*/*/[0-9]/results.json"))]
    assert len(found) == 2
    for results in found:
        assert results["model"]["dtype"] == "float16"
        assert (results["model"]["image_size"], results["model"]["resample"]) == (28, "lanczos")
        assert results["answers"]["answered"] == 5 * 24
        assert results["published"]["composites"]["first_region"]["probes"] == [
            "occupation",
            "education",
            "trust",
            "lifestyle",
            "neighbourhood",
        ]
        assert {"refusal", "page_confidence", "page_economic", "page_stereotype"} <= {
            one["name"] for one in results["scorers"]
        }
