"""Words of competency: the published count by hand, and a list that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fp2.errors import Fp2Error
from fp2.methods.benchmarks.competency_words import CompetencyWords


def test_different_words_of_the_list_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("Able\nskilled\nmethodical\n\n")
    scorer = CompetencyWords(words_file=str(tmp_path / "words.txt"))
    texts = ["Able, able. Skilled!", "An ABLE, skilled. methodical person", "capable; able-bodied"]
    assert scorer.score(texts, ["describe"] * 3).values.tolist() == [1.0, 3.0, 0.0]
    (tmp_path / "more.txt").write_text("able\nskilled\n")
    assert CompetencyWords(words_file=str(tmp_path / "more.txt")).lexicon != scorer.lexicon


def test_a_list_that_is_not_there_is_one_line() -> None:
    with pytest.raises(Fp2Error, match=r"the list of words cannot be read.*competency_words.txt"):
        CompetencyWords(words_file="gone.txt")
