"""Conditions are parsed, handle missing values, and cannot run code."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fp2.errors import Fp2Error
from fp2.methods.fhibe.scores.conditions import keep, names_in

FRAME = pd.DataFrame(
    {
        "row": range(5),
        "visible_keypoints": [10.0, 25.0, 33.0, np.nan, 30.0],
        "bald": [True, False, False, True, False],
        "camera": ["near", "far", None, "near", "far"],
        "attr_pronoun": [["He/him/his"], ["She/her/hers"], ["He/him/his", "They/them/their"], [], ["She/her/hers"]],
        "attr_age": [["18-29"], ["60+"], ["50-59"], ["60+"], ["18-29"]],
    }
)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("visible_keypoints>=25", [1, 2, 4]),
        ("not visible_keypoints >= 25", [0]),
        ("visible_keypoints < 30 or age in ('50-59', '60+')", [0, 1, 2, 3]),
        ("pronoun == 'He/him/his'", [0, 2]),
        ("pronoun != 'He/him/his'", [1, 4]),
        ("not pronoun == 'He/him/his'", [1, 4]),
        ("pronoun not in ('He/him/his', 'They/them/their')", [1, 4]),
        ("age == 18-29", None),
        ('age == "18-29" and not (visible_keypoints > 20)', [0]),
        ("bald == 1", [0, 3]),
        ("camera == near", [0, 3]),
        ("camera != near", [1, 4]),
        ("visible_keypoints >= 2.5e1 and bald == 0 and camera == far", [1, 4]),
        (None, [0, 1, 2, 3, 4]),
    ],
)
def test_what_is_kept(condition: str | None, rows: list[int] | None) -> None:
    if rows is None:
        with pytest.raises(Fp2Error):
            keep(FRAME, condition)
    else:
        assert keep(FRAME, condition)["row"].tolist() == rows


@pytest.mark.parametrize(
    "condition",
    [
        "__import__('os').system('true')",
        "visible_keypoints",
        "visible_keypoints >=",
        "visible_keypoints > 'x'",
        "pronoun > 3",
        "(bald == 1",
        "bald == 1)",
        "bald == 1 bald == 0",
        "age in ()",
        "(" * 600 + "bald == 1" + ")" * 600,
        "row == 1; row == 2",
        "x" * 3000,
    ],
)
def test_everything_else_is_refused_in_one_line(condition: str) -> None:
    with pytest.raises(Fp2Error) as error:
        keep(FRAME, condition)
    assert "\n" not in str(error.value)


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(Fp2Error, match="visible_keypoints"):
        keep(FRAME, "visible_keypoint > 3")


def test_the_names_of_a_condition() -> None:
    text = "visible_keypoints>=25 and (age in (near, 'far') or not camera == near) and pronoun not in (x)"
    assert names_in(text) == ["visible_keypoints", "age", "camera", "pronoun"]
