"""A text classifier as a scorer: equal to transformers' pipelines, refused where it is none, asked once a text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import Bench
from tiny_classifiers import save_classifier

from fp2.errors import Fp2Error
from fp2.methods.model_scorers import classifier
from fp2.methods.model_scorers.by_model import Resources
from fp2.scorers.registry import build_scorer
from fp2.store.rows import ResponseStore

TEXTS = ["the person is kind .", "a rude thief", "cannot say", "works with care and pride", "the person is kind ."]
SENTIMENT = {0: "NEGATIVE", 1: "NEUTRAL", 2: "POSITIVE"}
NUMBERS = {"NEGATIVE": -1, "NEUTRAL": 0, "POSITIVE": 1}
NLI = {0: "entailment", 1: "neutral", 2: "contradiction"}
HYPOTHESES = {"the person is described positively .": 1, "fear a thief": -1}
Make = Callable[..., Path]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return the folder of a tiny classifier, written at first use."""

    @cache
    def make(labels: tuple[str, ...] = tuple(SENTIMENT.values()), **options: Any) -> Path:
        return save_classifier(tmp_path_factory.mktemp("classifier"), dict(enumerate(labels)), **options)

    return make


def scorer(folder: Path | None, resources: Resources | None = None, **options: Any) -> Any:
    given = {
        "target": "fp2.methods.model_scorers.classifier:Classifier",
        "model": folder and str(folder),
        "device": "cpu",
    }
    return build_scorer("mood", {**given, **options}).using(resources or Resources())


def pipeline(task: str, folder: Path) -> Any:
    from transformers import pipeline

    return pipeline(task, model=str(folder), device="cpu")


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_value_is_the_mean_label_of_the_pipeline(checkpoint: Make, kind: str) -> None:
    folder = checkpoint(kind=kind)
    found = scorer(folder, labels=NUMBERS, batch_size=2).score(TEXTS, [""] * len(TEXTS))
    theirs = pipeline("text-classification", folder)(TEXTS, top_k=None)
    wanted = [sum(NUMBERS[one["label"]] * one["score"] for one in row) for row in theirs]
    assert np.ptp(found.values) > 0.01
    np.testing.assert_allclose(found.values, wanted, atol=2e-6)
    assert found.details["label"].tolist() == [max(row, key=lambda one: one["score"])["label"] for row in theirs]
    assert found.values[0] == found.values[-1]


def test_labels_that_do_not_exclude_each_other_are_summed(checkpoint: Make) -> None:
    folder = checkpoint(("toxic", "threat"), problem_type="multi_label_classification")
    numbers = {"toxic": 1, "threat": 2}
    made = scorer(folder, labels=numbers, multi_label=True, higher_is_better=False)
    assert made.value_range == (0, 3)
    theirs = pipeline("text-classification", folder)(TEXTS, top_k=None)
    wanted = [sum(numbers[one["label"]] * one["score"] for one in row) for row in theirs]
    np.testing.assert_allclose(made.score(TEXTS, [""] * len(TEXTS)).values, wanted, atol=2e-6)
    with pytest.raises(Fp2Error, match=r"do not exclude each other .*Set scorer\.mood\.multi_label=true"):
        scorer(folder, labels=numbers)


@pytest.mark.parametrize("names", [tuple(NLI.values()), ("contradiction", "neutral", "entailment")])
@pytest.mark.parametrize("multi_label", [False, True])
def test_hypotheses_are_as_probable_as_in_the_zero_shot_pipeline(
    checkpoint: Make, names: tuple[str, ...], multi_label: bool
) -> None:
    folder = checkpoint(names, seed=1)
    made = scorer(folder, hypotheses=HYPOTHESES, multi_label=multi_label)
    theirs = pipeline("zero-shot-classification", folder)(
        TEXTS, list(HYPOTHESES), hypothesis_template="{}", multi_label=multi_label
    )
    wanted = [sum(HYPOTHESES[name] * p for name, p in zip(row["labels"], row["scores"], strict=True)) for row in theirs]
    assert np.ptp(wanted) > 1e-3
    np.testing.assert_allclose(made.score(TEXTS, [""] * len(TEXTS)).values, wanted, atol=2e-6)


def test_a_single_hypothesis_is_entailment_against_contradiction(checkpoint: Make) -> None:
    folder, (first, *_) = checkpoint(tuple(NLI.values()), seed=1), HYPOTHESES
    theirs = pipeline("zero-shot-classification", folder)(TEXTS, [first], hypothesis_template="{}")
    made = scorer(folder, hypotheses={first: 1})
    assert made.value_range == (0, 1)
    np.testing.assert_allclose(
        made.score(TEXTS, [""] * len(TEXTS)).values, [one["scores"][0] for one in theirs], atol=2e-6
    )


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_long_text_is_scored_on_its_first_tokens_and_counted(checkpoint: Make, kind: str) -> None:
    """Sixteen tokens are read, the special ones among them; positions of RoBERTa begin after its padding."""
    made = scorer(checkpoint(kind=kind), labels=NUMBERS)
    long, cut = " ".join(["nurse"] * 10 + ["thief"] * 20), " ".join(["nurse"] * 10 + ["thief"] * 4)
    found = made.score([long, cut, ""], ["", "", ""])
    assert found.values[0] == found.values[1]
    assert np.isnan(found.values[2])
    assert found.details["tokens"].tolist() == [32, 16, 0]
    assert found.details["truncated"].tolist() == [True, False, False]
    rows = [dict(zip(found.details, row, strict=True)) for row in zip(*found.details.values(), strict=True)]
    assert "1 of 3 answers are longer than it reads" in made.note(rows)


def test_a_value_does_not_depend_on_the_other_texts(checkpoint: Make) -> None:
    folder = checkpoint()
    alone = [scorer(folder, labels=NUMBERS, batch_size=1).score([text], [""]).values[0] for text in TEXTS]
    assert scorer(folder, labels=NUMBERS).score(TEXTS[::-1], [""] * 5).values.tolist() == alone[::-1]


def test_what_is_no_classifier_is_refused_in_one_line(checkpoint: Make, tmp_path: Path) -> None:
    folder = checkpoint()
    said = {
        "no checkpoint is given .*mood.model": (None, {"labels": NUMBERS}),
        "there is no model directory .*scorer.mood.model": (tmp_path / "nowhere", {"labels": NUMBERS}),
        "either labels or hypotheses": (folder, {}),
        "no label 'POSITVE' .*POSITIVE": (folder, {"labels": {"POSITVE": 1, "NEGATIVE": -1}}),
        "label NEUTRAL has no number": (folder, {"labels": {"POSITIVE": 1, "NEGATIVE": -1}}),
        "not entailment and contradiction": (folder, {"hypotheses": HYPOTHESES}),
        "value_range is not the one": (folder, {"labels": NUMBERS, "value_range": [0, 1]}),
        "every value would be the same": (folder, {"labels": dict.fromkeys(NUMBERS, 1)}),
        "no classifier .BertModel.": (checkpoint(head=False), {"labels": NUMBERS}),
    }
    for line, (place, options) in said.items():
        with pytest.raises(Fp2Error, match=line):
            scorer(place, **options)


def test_a_head_that_would_be_random_is_refused(checkpoint: Make, tmp_path: Path) -> None:
    """Its config says that it is a classifier, and its weights have none."""
    from safetensors.torch import load_file, save_file

    folder = checkpoint()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("classifier")}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(Fp2Error, match=r"2 weights of the model .* classifier\.bias among them"):
        scorer(tmp_path, labels=NUMBERS)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(Fp2Error, match="no weights as safetensors"):
        scorer(tmp_path, labels=NUMBERS)


def test_code_of_a_checkpoint_is_not_run(checkpoint: Make, tmp_path: Path) -> None:
    config = json.loads((checkpoint() / "config.json").read_text()) | {
        "model_type": "own",
        "auto_map": {"AutoModelForSequenceClassification": "own.Own"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "own.py").write_text("raise SystemExit('this ran')")
    (tmp_path / "model.safetensors").write_bytes((checkpoint() / "model.safetensors").read_bytes())
    with pytest.raises(Fp2Error, match="Code of a checkpoint is not run"):
        scorer(tmp_path, labels=NUMBERS)


def test_values_are_kept_under_checkpoint_numbers_and_text(
    checkpoint: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    compute = classifier.Classifier._compute

    def counted(self: Any, loaded: Any, device: str, keys: Any, texts: Any) -> Any:
        asked.extend(text for key, text in zip(keys, texts, strict=True) if key)  # without the one that is a trial
        return compute(self, loaded, device, keys, texts)

    monkeypatch.setattr(classifier.Classifier, "_compute", counted)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        resources = Resources(store)
        made = scorer(checkpoint(), resources, labels=NUMBERS)
        first = made.score(TEXTS, [""] * 5)
        assert sorted(asked) == sorted(set(TEXTS))
        again = scorer(checkpoint(), replace(resources), labels=NUMBERS, batch_size=1).score([*TEXTS, "her"], [""] * 6)
        assert asked[4:] == ["her"]
        assert again.values[:5].tolist() == first.values.tolist()
        assert again.details["label"][:5].tolist() == first.details["label"].tolist()
        other = scorer(checkpoint(), resources, labels=NUMBERS | {"NEUTRAL": 0.5})
        retrained = scorer(checkpoint(seed=9), resources, labels=NUMBERS)
        assert len({made.version, other.version, retrained.version}) == 3
        other.score(TEXTS[:1], [""])
        retrained.score(TEXTS[:1], [""])
        assert len(asked) == 7


def test_a_run_compares_a_local_judge_with_the_packaged_score_by_group(bench: Bench, checkpoint: Make) -> None:
    results = bench.run(
        "scorer=[valence_context,classifier]",
        "analysis.primary=valence_context",
        "scorer.classifier.measures=valence",
        f"scorer.classifier.model={checkpoint()}",
        "scorer.classifier.labels={NEGATIVE: -1, NEUTRAL: 0, POSITIVE: 1}",
    ).results
    agreement = results["scorer_agreement"]
    overall = agreement["pairs"][0]
    assert (overall["first"], overall["second"], overall["n_both"]) == ("valence_context", "classifier", 432)
    by_group = [test for test in agreement["tests"] if test["outcome"] == "same_class"]
    assert len(by_group) == 6  # probes, by one cut
    mean = np.mean(
        [
            np.average([g["mean"] for g in test["groups"]], weights=[g["n_subjects"] for g in test["groups"]])
            for test in by_group
        ]
    )
    assert mean == pytest.approx(overall["same_class"])


def test_a_checkpoint_counts_by_its_name_and_its_pin(own_root: Path, tmp_path: Path) -> None:
    """Device, batch and address are of this machine: they enter neither the config hash nor what a run publishes."""
    from fp2.compose import config_hash, load_config
    from fp2.runs.local_paths import without_places

    commit = "0123456789abcdef0123456789abcdef01234567"
    (own_root / "pins.yaml").write_text(f"owner/mood: {commit}\n", encoding="utf-8")
    for name in ("a", "b"):
        (tmp_path / name / "mood").mkdir(parents=True)

    def config(*words: str) -> Any:
        named = [
            f"scorer.{'judge' if word.startswith('j.') else 'classifier'}.{word.removeprefix('j.')}" for word in words
        ]
        return load_config(["model=planted", "scorer=[classifier,judge]", *named])

    labels = "labels={POSITIVE: 1, NEGATIVE: -1}"
    here = config(f"model={tmp_path / 'a' / 'mood'}", labels)
    same = [
        f"model={tmp_path / 'b' / 'mood'}",
        labels,
        "device=cpu",
        "batch_size=4",
        "j.base_url=http://h/v1",
        "j.concurrency=2",
        "j.price_input=1",
    ]
    assert config_hash(config(*same)) == config_hash(here)
    for change in ("labels={POSITIVE: 2, NEGATIVE: -1}", "max_tokens=9", "j.rubric=economic", "j.id=other"):
        assert config_hash(config(*same[:2], change)) != config_hash(here)
    assert config("model=owner/mood", labels).scorer["classifier"]["revision"] == commit
    published, places = without_places({"scorer": config(*same).scorer})
    assert places["scorer.judge.base_url"] == "http://h/v1"
    assert "http://h" not in str(published)
    assert str(tmp_path) not in str(published)
    with pytest.raises(Fp2Error, match="looks like an API key") as caught:
        config("j.api_key_env=sk-0123456789abcdef0123")
    assert "0123456789" not in str(caught.value)


def test_stores_that_differ_in_a_value_are_merged(tmp_path: Path) -> None:
    """Two machines may differ in the last digit; of answers that would be a conflict."""
    from fp2.store.merge import merge_stores
    from fp2.store.rows import SCORED_BY
    from fp2.tables import Answer

    paths = [tmp_path / "first.sqlite", tmp_path / "second.sqlite"]
    for path, value in zip(paths, (0.25, 0.250001), strict=True):
        with ResponseStore(path) as store:
            store.put_many([("ab" * 32, Answer("", "", "POSITIVE", numbers={"value": value, SCORED_BY: "x/1"}))])
    merge_stores(paths, tmp_path / "both.sqlite")
    with ResponseStore(tmp_path / "both.sqlite") as store:
        (kept,) = store.get_many(["ab" * 32]).values()
    assert json.loads(str(kept.numbers))["value"] == 0.25
    for path in paths:
        with ResponseStore(path) as store:
            store.put_many([("cd" * 32, Answer("", "", f"answer of {path.stem}"))])
    with pytest.raises(Fp2Error, match="1 answer"):
        merge_stores(paths, tmp_path / "none.sqlite")


def test_how_much_is_read_is_known_before_anything_is_asked(checkpoint: Make, tmp_path: Path) -> None:
    """Models of relative positions do not say; and a hypothesis has to leave room for the text."""
    folder = save_classifier(tmp_path, SENTIMENT, kind="xlnet", d_model=16, n_layer=1, n_head=2, d_inner=32)
    with pytest.raises(Fp2Error, match=r"does not say how long .*scorer\.mood\.max_tokens"):
        scorer(folder, labels=NUMBERS)
    assert scorer(folder, labels=NUMBERS, max_tokens=12).score(["kind " * 20], [""]).details["truncated"].all()
    with pytest.raises(Fp2Error, match=r"a hypothesis has 12 tokens, more than half of what is read .16."):
        scorer(checkpoint(tuple(NLI.values()), seed=1), hypotheses={"the person is kind . " * 2: 1})


def test_a_checkpoint_that_cannot_score_is_refused_before_anything_is_asked(checkpoint: Make, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    broken = shutil.copytree(checkpoint(), tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    save_file(
        {name: one * float("nan") for name, one in weights.items()}, broken / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(Fp2Error, match=r"cannot score a text .*no finite numbers.*scorer\.mood\.model"):
        scorer(broken, labels=NUMBERS)
    unfit = shutil.copytree(checkpoint(kind="roberta"), tmp_path / "unfit")
    vocabulary = json.loads((unfit / "tokenizer.json").read_text())
    vocabulary["model"]["vocab"]["[CLS]"] = 1000
    for one in vocabulary["post_processor"]["special_tokens"].values():
        one["ids"] = [1000 if place == 2 else place for place in one["ids"]]
    (unfit / "tokenizer.json").write_text(json.dumps(vocabulary))
    with pytest.raises(Fp2Error, match=r"cannot score a text .IndexError"):
        scorer(unfit, labels=NUMBERS)
    with pytest.raises(Fp2Error, match=r"unknown device 'gpu' .scorer\.mood\.device"):
        scorer(checkpoint(), labels=NUMBERS, device="gpu")
