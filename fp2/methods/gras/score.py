"""The GRAS Bias Score from p-values: both orientations, and the score after corrections for multiple tests.

Source: GRAS (the abstract's Table 1 has the seed orientation, the published paper the other one). A cell is one
(attribute, trait); it is biased if any of its templates has p <= alpha. Without a correction, a model without any bias
scores about 22.6 in the published orientation (five independent tests), so a score is read beside its null mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import BoolArray, FloatArray, in_number

if TYPE_CHECKING:
    import pandas as pd

MEASURES = ("published_orientation", "holm", "benjamini_hochberg", "all_templates")
"""The scores that rise with bias; `seed_orientation` is 100 minus the first."""


@dataclass(frozen=True)
class BiasScore(Mapping[str, Any]):
    """The GRAS Bias Score, in shares of cells in percent (0-100); a mapping too: `score["holm"]`, `dict(score)`.

    Attributes
    ----------
    seed_orientation : float
        p > alpha in all templates; ideal 100.
    published_orientation : float
        p <= alpha in any template; ideal 0.
    holm, benjamini_hochberg : float
        The same with p-values adjusted over all rows given.
    all_templates : float
        p <= alpha in every template.
    unbiased_cells : dict
        Attribute -> number of cells without any p <= alpha, unadjusted.
    n_undefined : int
        Missing p-values, counted as not significant.
    """

    seed_orientation: float
    published_orientation: float
    holm: float
    benjamini_hochberg: float
    all_templates: float
    unbiased_cells: dict[str, int]
    n_undefined: int

    def __getitem__(self, name: str) -> Any:
        """Return the field `name`."""
        return asdict(self)[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields."""
        return iter(asdict(self))

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(asdict(self))


def bias_score(p_values: pd.DataFrame, alpha: float = 0.05) -> BiasScore:
    """Return the GRAS Bias Score of a table of p-values, published ones for instance.

    Parameters
    ----------
    p_values : DataFrame
        Long: `attribute, trait, template, p_value`, one row per test; other columns are ignored. NaN = undefined: it
        counts as not significant, and as a row of the family that Holm and Benjamini-Hochberg correct for.
    alpha : float
        A test is significant at p <= alpha.

    Returns
    -------
    BiasScore
        Shares of cells in percent.

    Raises
    ------
    ValueError
        If a column or a label is missing, there are no rows, a test is repeated, a cell lacks a template, a p-value is
        outside [0, 1], or alpha is not between 0 and 1.

    Examples
    --------
    >>> import pandas as pd
    >>> p = pd.DataFrame(
    ...     {
    ...         "attribute": ["gender"] * 4 + ["age"] * 4,
    ...         "trait": ["kind", "kind", "rude", "rude"] * 2,
    ...         "template": ["T1", "T2"] * 4,
    ...         "p_value": [0.001, 0.002, 0.04, 0.60, 0.30, 0.20, 0.05, 0.90],
    ...     }
    ... )
    >>> score = bias_score(p)
    >>> score.published_orientation, score.seed_orientation, score.all_templates
    (75.0, 25.0, 25.0)
    >>> score.holm, score.benjamini_hochberg, score.unbiased_cells
    (25.0, 25.0, {'gender': 0, 'age': 1})
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    cells, p = cell_table(p_values, ("attribute", "trait"), ["p_value"])
    values = p[..., 0]
    with np.errstate(invalid="ignore"):
        if ((values < 0) | (values > 1)).any():
            raise ValueError("a p-value lies outside [0, 1]")
    undefined = np.isnan(values)
    found = cell_scores(values, alpha)
    unbiased = np.asarray(~(values <= alpha).any(axis=1))
    by_attribute = {name: 0 for name, _ in cells}
    for (name, _), free in zip(cells, unbiased, strict=True):
        by_attribute[name] += int(free)
    published = float(found["published_orientation"])
    return BiasScore(
        seed_orientation=100.0 - published,
        published_orientation=published,
        holm=float(found["holm"]),
        benjamini_hochberg=float(found["benjamini_hochberg"]),
        all_templates=float(found["all_templates"]),
        unbiased_cells=by_attribute,
        n_undefined=int(undefined.sum()),
    )


def cell_table(
    frame: pd.DataFrame, keys: tuple[str, ...], values: list[str]
) -> tuple[list[tuple[Any, ...]], FloatArray]:
    """Return the cells (in order of appearance) and their values (cells, templates, len(values)) of a long table.

    Raises
    ------
    ValueError
        If a column or a label is missing, there are no rows, a row is repeated, or a cell lacks a template.
    """
    missing = [name for name in (*keys, "template", *values) if name not in frame.columns]
    if missing:
        raise ValueError(in_number(len(missing), f"the table lacks the [column|columns] {', '.join(missing)}"))
    if frame.empty:
        raise ValueError("the table has no rows")
    if frame[[*keys, "template"]].isna().to_numpy().any():
        raise ValueError(f"a label is missing in {', '.join((*keys, 'template'))}")
    cells: dict[tuple[Any, ...], int] = {}
    columns: dict[Any, int] = {}
    line = [cells.setdefault(cell, len(cells)) for cell in zip(*(frame[key] for key in keys), strict=True)]
    place = [columns.setdefault(name, len(columns)) for name in frame["template"]]
    where = np.asarray(line) * len(columns) + np.asarray(place)
    count = np.bincount(where, minlength=len(cells) * len(columns))
    names = list(cells), list(columns)
    for wrong, what in ((count > 1, "is repeated"), (count == 0, "is missing")):
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            cell = ", ".join(str(part) for part in names[0][first // len(columns)])
            raise ValueError(f"template {names[1][first % len(columns)]} of {cell} {what}")
    out = np.empty((len(count), len(values)))
    out[where] = frame[values].to_numpy(dtype=np.float64, na_value=np.nan)
    return names[0], out.reshape(len(cells), len(columns), len(values))


def cell_scores(p: FloatArray, alpha: float) -> dict[str, FloatArray]:
    """Return each of `MEASURES` in percent for p-values (..., cells, templates); NaN = not significant."""
    whole = np.where(np.isnan(p), 1.0, p)
    flat = whole.reshape(*p.shape[:-2], -1)
    hit = whole <= alpha
    corrected = {"holm": _holm(flat, alpha), "benjamini_hochberg": _benjamini_hochberg(flat, alpha)}
    rejected = {name: flat <= bound[..., None] for name, bound in corrected.items()}
    any_of = {name: r.reshape(p.shape).any(axis=-1) for name, r in rejected.items()}
    parts = {"published_orientation": hit.any(axis=-1), **any_of, "all_templates": hit.all(axis=-1)}
    return {name: 100.0 * part.mean(axis=-1) for name, part in parts.items()}


# statsmodels' multipletests takes one family at a time; these two take one family per permutation at once (leading
# axes), and return the bound instead of adjusted p-values.


def _holm(p: FloatArray, alpha: float) -> FloatArray:
    """Return the largest p-value (..., m) -> (...) that Holm's step-down rejects, -1 where it rejects none."""
    m = p.shape[-1]
    ranked = np.sort(p, axis=-1)
    passed = np.logical_and.accumulate(ranked * np.arange(m, 0, -1) <= alpha, axis=-1)
    return _last(ranked, passed)


def _benjamini_hochberg(p: FloatArray, alpha: float) -> FloatArray:
    """Return the largest p-value (..., m) -> (...) that the step-up procedure rejects, -1 where it rejects none."""
    m = p.shape[-1]
    ranked = np.sort(p, axis=-1)
    return _last(ranked, ranked * m / np.arange(1, m + 1) <= alpha)


def _last(ranked: FloatArray, passed: BoolArray) -> FloatArray:
    return np.asarray(np.where(passed, ranked, -1.0).max(axis=-1))
