"""`scorer=page`: version 1 of all lists in one word, which the config hash tells from the default."""

from __future__ import annotations

import pytest

from fp2.compose import config_hash, load_config
from fp2.errors import Fp2Error
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


def test_the_version_is_in_the_config_hash_where_it_is_given() -> None:
    plain = config_hash(load_config(["scorer=refusal"]))
    assert config_hash(load_config(["scorer=refusal", "scorer.refusal.lexicon_file=refusal"])) == plain
    assert config_hash(load_config(["scorer=refusal", "+scorer.refusal.lexicon_version=2"])) != plain


@pytest.mark.parametrize("name", ["stereotype", "confidence", "refusal", "economic"])
def test_another_version_is_refused(name: str) -> None:
    config = load_config([f"scorer={name}", f"+scorer.{name}.lexicon_version=3"])
    with pytest.raises(Fp2Error, match=rf"has version 2, not 3 \(scorer\.{name}\.lexicon_version\)"):
        build_scorers(config.scorer)
