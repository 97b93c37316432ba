"""`scorer=page`: version 1 of all lists in one word, which the config hash tells from the default."""

from __future__ import annotations

from bench import load_config

from fp2.compose import config_hash
from fp2.scorers.registry import build_scorers

ANSWERS = ("They may be a nurse.", "I cannot say.", "A wealthy lawyer, definitely.")


def test_it_scores_as_version_1_of_every_list_does() -> None:
    page = load_config(["scorer=page"])
    assert list(page.scorer) == ["valence", "stereotype", "confidence", "refusal", "economic"]
    for name, scorer in build_scorers(page.scorer).items():
        words = [f"scorer={name}", *([] if name == "valence" else [f"scorer.{name}.lexicon_file={name}"])]
        plain = build_scorers(load_config(words).scorer)[name]
        probes = ["occupation"] * len(ANSWERS)
        assert str(scorer.score(ANSWERS, probes).values) == str(plain.score(ANSWERS, probes).values)
        assert scorer.lexicon == plain.lexicon
        assert name == "valence" or scorer.lexicon["version"] == "1"  # type: ignore[index]


def test_the_versions_are_in_the_config_hash() -> None:
    version_1 = [f"scorer.{name}.lexicon_file={name}" for name in ("stereotype", "confidence", "refusal", "economic")]
    page = load_config(["scorer=page", "analysis.primary=valence"])
    scorers = "scorer=[valence,stereotype,confidence,refusal,economic]"
    assert config_hash(load_config([scorers, "analysis.primary=valence", *version_1])) == config_hash(page)
    assert config_hash(load_config([scorers, "analysis.primary=valence"])) != config_hash(page)
