"""The GRAS analysis at its edges: small groups, answers that are missing, people outside the groups compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import friedmanchisquare

from fp2.protocols.gras import attribution_rates
from fp2.protocols.gras.wording import wording_tests
from fp2.report.figures.gras import mark_of


def test_friedman_ranks_tiny_values_as_they_are() -> None:
    rng = np.random.default_rng(0)
    y = 1e-18 * rng.integers(1, 1000, (12, 1, 3))
    y[0] = 0.9  # beside it, centring loses all the other values' digits
    found = wording_tests(y)
    assert found.friedman[0] == pytest.approx(friedmanchisquare(*y[:, 0].T).statistic)


def rates_table() -> pd.DataFrame:
    rows = [
        ("age", group, trait, sign, template, 0.5, 0.4)
        for group in ("young", "old")
        for trait, sign in (("kind", "positive"), ("rude", "negative"))
        for template in ("T1", "T2")
    ]
    names = ["attribute", "group", "trait", "polarity", "template", "group_mean", "overall_mean"]
    return pd.DataFrame(rows, columns=names)


def change(column: str, value: Any) -> pd.DataFrame:
    table = rates_table()
    table.loc[(table["group"] == "old") & (table["trait"] == "kind"), column] = value
    return table


def test_rates_refuse_what_is_no_table_of_rates() -> None:
    good = rates_table()
    assert len(attribution_rates(good)) == 4
    assert len(attribution_rates(good.assign(overall_mean=np.nan))) == 4
    with pytest.raises(ValueError, match="kind has two polarities"):
        attribution_rates(change("polarity", "negative"))
    with pytest.raises(ValueError, match="old lacks the trait kind"):
        attribution_rates(good[(good["group"] != "old") | (good["trait"] != "kind")])
    with pytest.raises(ValueError, match="overall_mean of age, kind differs"):
        attribution_rates(change("overall_mean", 0.41))


def test_thirty_templates_look_different() -> None:
    assert len({mark_of(template) for template in range(30)}) == 30


def test_headline_names_the_unit_of_every_number() -> None:
    from fp2.protocols.gras.analysis import _headline

    size = {"omega_squared": {"value": 0.0}, "gap": {"value": 0.0}}
    score = {"value": 1.0, "null_mean": 1.0, "excess": 0.0, "p_value": 1.0}
    unit = {"scores": {"published_orientation": score, "seed_orientation": 99.0}, "magnitude": size}
    found = _headline({"outcome": "p_yes", "units": {"images": unit, "subjects": unit}})
    assert all(name == "outcome" or name.endswith(("_images", "_subjects")) for name in found)
