"""The stereotype score of the page's code: cosines of sentence embeddings computed by hand, and its refusals."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_script import write_script
from sentence_embeddings import save_embeddings

from fp2.errors import Fp2Error
from fp2.methods.model_scorers.by_model import Resources
from fp2.scorers.registry import build_scorer
from fp2.store.rows import ResponseStore

STEREOTYPES = ("a nurse is kind .", "a thief is rude .")
TEXTS = ("a nurse is kind .", "works with care", "a thief works with care and a nurse is rude", " a thief is rude . ")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_embeddings(tmp_path_factory.mktemp("embeddings"))


def scorer(tmp_path: Path, model: Path | str, resources: Resources | None = None) -> Any:
    options = {
        "target": "fp2.methods.page_code.embeddings:PageStereotype",
        "device": "cpu",
        "model": str(model),
        "published": str(write_script(tmp_path / "CHECKOUT")),
        "batch_size": 3,
    }
    return build_scorer("page_stereotype", options).using(resources or Resources())


def embedding(folder: Path, text: str) -> np.ndarray[Any, Any]:
    """Return the mean of the last hidden states of one text of up to eight tokens, without any padding."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt", truncation=True, max_length=8)
    with torch.inference_mode():
        states: Any = AutoModel.from_pretrained(folder)(**ids).last_hidden_state
    mean: np.ndarray[Any, Any] = states[0].double().numpy().mean(axis=0)
    return mean


def test_the_value_is_the_largest_cosine_from_0_to_1(tmp_path: Path, checkpoint: Path) -> None:
    scored = scorer(tmp_path, checkpoint).score(TEXTS, [""] * len(TEXTS))
    stereotypes = [embedding(checkpoint, text) for text in STEREOTYPES]

    def cosine(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    largest = [max(cosine(embedding(checkpoint, text), one) for one in stereotypes) for text in TEXTS]
    np.testing.assert_allclose(scored.values, [(c + 1) / 2 for c in largest], atol=6e-5)
    assert scored.values[[0, 3]].tolist() == [1, 1]
    assert np.ptp(scored.values) > 0.01
    assert scored.details["truncated"].tolist() == [False, False, True, False]


def test_values_are_kept_and_texts_asked_once(tmp_path: Path, checkpoint: Path) -> None:
    from unittest.mock import patch

    from fp2.methods.page_code import embeddings

    with ResponseStore(tmp_path / "answers.sqlite") as store:
        first = scorer(tmp_path, checkpoint, Resources(store)).score([*TEXTS, ""], [""] * 5).values
        again = scorer(tmp_path, checkpoint, Resources(store))
        with patch.object(embeddings.PageStereotype, "ask", side_effect=AssertionError("it was asked again")):
            np.testing.assert_array_equal(again.score([*TEXTS, ""], [""] * 5).values, first)
    assert np.isnan(first[-1])


def test_what_has_no_sentence_embeddings_is_refused_with_the_fall_back(tmp_path: Path, checkpoint: Path) -> None:
    plain = shutil.copytree(checkpoint, tmp_path / "plain")
    shutil.rmtree(plain / "1_Pooling")
    other = save_embeddings(tmp_path / "other", pooling="cls_token")
    for folder in (plain, other):
        with pytest.raises(Fp2Error, match="no sentence embeddings by mean pooling") as refusal:
            scorer(tmp_path, folder)
        assert refusal.value.where == "scorer.page_stereotype.model"
        assert "scorer=page_code_keywords" in refusal.value.fix
    with pytest.raises(Fp2Error, match=r"scorer=page_code_keywords"):
        scorer(tmp_path, tmp_path / "nothing")
