"""Options of `task=fhibe_scores`: a wrong type or value ends in one line before the run starts."""

from __future__ import annotations

from typing import Any

import pytest

from fp2.errors import Fp2Error
from fp2.methods.fhibe.scores.options import Metric, ScoresOptions
from fp2.plugins import read_options

RECALL = {"recall": {"higher_is_better": True}}


def test_valid_options_are_read() -> None:
    options = read_options(
        ScoresOptions,
        {
            "metrics": {"lpips": {"higher_is_better": False, "range": [0, 1], "smallest_effect": 0}, "recall": True},
            "within": "visible_keypoints >= 25",
            "attributes": ["age"],
            "depth": None,
            "top_k": 5,
            "error_model": {"trees": 7, "alpha": 0.01},
            "patterns": True,
            "sensitive": None,
        },
        "task.options",
    )
    assert options.metrics[0] == Metric("lpips", higher_is_better=False, range=(0.0, 1.0), smallest_effect=0.0)
    assert options.within == ("visible_keypoints >= 25",)
    assert options.attributes == ("age",)
    assert options.error_model == {"trees": 7, "alpha": 0.01}
    assert options.patterns == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"metrics": {"r": {"higher_is_better": "no", "range": [0, 1]}}}, "true or false"),
        ({"metrics": {"r": {"yes_no": 1}}}, "true or false"),
        ({"metrics": {"r": {"range": ["a", 1]}}}, "a number"),
        ({"metrics": {"r": {"range": [0, 1, 2]}}}, "2 numbers"),
        ({"metrics": {"r": {"range": [1, 0]}}}, "empty"),
        ({"metrics": {"r": {"smallest_effect": "0.1"}}}, "a number"),
        ({"metrics": {"r": {"smallest_effect": -0.1}}}, "at least 0"),
        ({"metrics": {"r": {"higher_is_better": False}}}, "range"),
        ({"metrics": {"r": False}}, "range"),
        ({"metrics": {"r": {"column": 3}}}, "3 is not a text"),
        ({"metrics": ["r"]}, "a table"),
        ({"columns": "image"}, "a table"),
        ({"metrics": RECALL, "depth": "two"}, "a whole number"),
        ({"metrics": RECALL, "depth": 0}, "at least 1"),
        ({"metrics": RECALL, "top_k": 2.5}, "a whole number"),
        ({"metrics": RECALL, "pixels": "no"}, "true or false"),
        ({"metrics": RECALL, "attributes": 5}, "a list"),
        ({"metrics": RECALL, "within": ["age = "]}, "invalid syntax"),
        ({"metrics": RECALL, "simulate": "yes"}, "a table"),
        ({"metrics": RECALL, "error_model": {"folds": 1}}, "at least 2"),
        ({"metrics": RECALL, "error_model": {"trees": "many"}}, "a whole number"),
        ({"metrics": RECALL, "error_model": {"trees": True}}, "a whole number"),
        ({"metrics": RECALL, "error_model": {"resamples": 0}}, "at least 2"),
        ({"metrics": RECALL, "error_model": {"least": 5, "most": 3}}, "more than most"),
        ({"metrics": RECALL, "patterns": {"low": 25}}, "from"),
        ({"metrics": RECALL, "patterns": {"support": "x"}}, "a number"),
        ({"metrics": RECALL, "patterns": {"looked_into": -1}}, "at least 0"),
    ],
)
def test_mistakes_are_refused_in_one_line(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Fp2Error) as error:
        read_options(ScoresOptions, given, "task.options")
    assert words in str(error.value)
    assert "\n" not in str(error.value)
