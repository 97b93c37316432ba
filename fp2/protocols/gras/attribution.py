"""Valence-based rates: to whom are more of the positive and of the negative traits attributed than to all?

Source: GRAS. A trait counts for a group when the group's mean P(Yes) is strictly above the mean over the attribute's
whole image set in every template; the rate is the share of the traits of one polarity that count. Both groups of a
pair may be above in no trait, so rates of two groups need not sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.protocols.gras.groups import FloatArray
from fp2.protocols.gras.score import cell_table

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.protocols.gras.answers import GrasAnswers
    from fp2.protocols.gras.compare import Comparison
    from fp2.protocols.gras.options import GrasOptions
    from fp2.protocols.gras.units import Sums


def attribution_rates(group_means: pd.DataFrame) -> pd.DataFrame:
    """Return the share of traits of each polarity that are attributed to a group more than to all.

    Parameters
    ----------
    group_means : DataFrame
        Long: `attribute, group, trait, polarity, template, group_mean, overall_mean`, one row per group, trait and
        template. `overall_mean` is over the attribute's whole image set. A missing mean is above nothing: that trait
        does not count, but stays in the number of traits.

    Returns
    -------
    DataFrame
        `attribute, group, polarity, share` (0-1), in order of appearance.

    Raises
    ------
    ValueError
        If a column or a label is missing, there are no rows, a row comes twice, a trait lacks a template, or a trait
        has two polarities.

    Examples
    --------
    >>> import pandas as pd
    >>> means = pd.DataFrame(
    ...     {
    ...         "attribute": "gender",
    ...         "group": ["Female"] * 4 + ["Male"] * 4,
    ...         "trait": ["kind", "kind", "rude", "rude"] * 2,
    ...         "polarity": ["positive", "positive", "negative", "negative"] * 2,
    ...         "template": ["T1", "T2"] * 4,
    ...         "group_mean": [0.62, 0.58, 0.20, 0.26, 0.58, 0.54, 0.24, 0.22],
    ...         "overall_mean": [0.60, 0.56, 0.22, 0.24] * 2,
    ...     }
    ... )
    >>> attribution_rates(means)
      attribute   group  polarity  share
    0    gender  Female  positive    1.0
    1    gender  Female  negative    0.0
    2    gender    Male  positive    0.0
    3    gender    Male  negative    0.0
    """
    import pandas as pd

    keys = ("attribute", "group", "trait", "polarity")
    cells, values = cell_table(group_means, keys, "template", ["group_mean", "overall_mean"])
    if len({cell[:3] for cell in cells}) < len(cells):
        raise ValueError("a trait has two polarities")
    above = np.asarray((values[..., 0] > values[..., 1]).all(axis=1))
    counted: dict[tuple[Any, ...], list[bool]] = {}
    for (attribute, group, _, polarity), counts in zip(cells, above, strict=True):
        counted.setdefault((attribute, group, polarity), []).append(bool(counts))
    rows = [(*key, float(np.mean(found))) for key, found in counted.items()]
    return pd.DataFrame(rows, columns=["attribute", "group", "polarity", "share"])


def attribution_intervals(
    answers: GrasAnswers,
    people: pd.DataFrame,
    attributes: Sequence[Cut],
    options: GrasOptions | None = None,
    *,
    units: str = "images",
    smallest_effect: float = 0.0,
    level: float = 0.95,
) -> pd.DataFrame:
    """Return the attribution rates of a run's answers with intervals (`rate_intervals`); whole subjects are resampled.

    Parameters
    ----------
    answers, people, attributes, options
        As for `analyse`; `options.bootstrap` resamples, groups of fewer than `options.min_subjects` left out.
    units : str
        `images` (means over pictures, as published) or `subjects` (means over people).
    smallest_effect : float
        A trait counts only where the group's mean is above the overall mean by more than this in every template.
    level : float
        Of the interval.

    Returns
    -------
    DataFrame
        `attribute, group, polarity, share, low, high` (0-1).

    Raises
    ------
    Fp2Error
        If the outcome was not recorded, or an attribute has fewer than two groups to compare.
    """
    import pandas as pd

    from fp2.protocols.gras.analysis import prepare
    from fp2.protocols.gras.options import GrasOptions

    settings = options or GrasOptions()
    comparison = prepare(answers, people, attributes, settings).comparison(units)
    polarity = [trait.polarity for trait in answers.traits]
    share = rates(comparison, comparison.observed()[1], polarity, smallest_effect)[:, 0]
    drawn = [rates(comparison, sums, polarity, smallest_effect) for sums in comparison.resamples(settings.bootstrap)]
    low, high = rate_intervals(share, np.concatenate(drawn, axis=1), level)
    table = pd.DataFrame(rate_labels(comparison, polarity), columns=["attribute", "group", "polarity"])
    return table.assign(share=share, low=low, high=high)


def rate_intervals(share: FloatArray, drawn: FloatArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return bias-corrected percentile intervals (Efron 1987, BC) of rates (rows,) from their resamples (rows, B).

    A resample has more noise than the data, and noise makes it rarer that all templates agree: plain percentiles would
    lie too low.
    """
    from scipy.special import ndtr, ndtri

    below = ((drawn < share[:, None]).mean(axis=1) + (drawn <= share[:, None]).mean(axis=1)) / 2
    shift = ndtri(np.clip(below, 0.5 / drawn.shape[1], 1 - 0.5 / drawn.shape[1]))
    ends = [ndtr(2 * shift + ndtri(q)) for q in ((1 - level) / 2, (1 + level) / 2)]
    low, high = (np.array([np.quantile(row, at) for row, at in zip(drawn, end, strict=True)]) for end in ends)
    return np.minimum(low, share), np.maximum(high, share)


def rate_labels(comparison: Comparison, polarity: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (attribute, group, polarity) of each rate, in the order of `rates`."""
    return [
        (attribute.name, group, sign)
        for attribute in comparison.design.attributes
        for group in attribute.groups
        for sign in dict.fromkeys(polarity)
    ]


def rates(comparison: Comparison, sums: Sequence[Sums], polarity: Sequence[str], above: float = 0.0) -> FloatArray:
    """Return the rates (groups x polarities, b) of sums (one per image set) that `comparison` gave."""
    signs = {sign: np.array([own == sign for own in polarity]) for sign in dict.fromkeys(polarity)}
    found: dict[int, list[FloatArray]] = {}
    for part, own in zip(comparison.design.sets, sums, strict=True):
        mean = own.mean
        for place, (number, span) in enumerate(zip(part.attributes, part.spans, strict=True)):
            everybody = part.everybody(place)
            with np.errstate(invalid="ignore"):
                higher = mean[:, span] - mean[:, everybody : everybody + 1] > above
            counts = np.asarray(higher.reshape(*higher.shape[:2], *comparison.shape).all(axis=3))  # (b, G, K)
            found[number] = [counts[:, g][:, on].mean(axis=1) for g in range(counts.shape[1]) for on in signs.values()]
    return np.stack([row for number in range(len(found)) for row in found[number]])
