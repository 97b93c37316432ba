"""The tests that GRAS's authors published: p-values and group means, a CSV file per model and attribute.

    CHECKOUT/evaluation_results/llava-1.5-7b-hf_gender_bias_analysis.csv
    trait,attribute,overall_mean_template_0,p_value_template_0,...,gender_Female_mean_template_0,...

One row is one trait. Columns of differences, statistics and kinds of test follow from these and are passed over. Skin
tones are numbers or names there ("1" or "MST 01"), and names here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fp2.extension import FloatArray, Fp2Error, nested
from fp2.methods.gras.attribution import attribution_rates
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.score import MEASURES, BiasScore, bias_score

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Block
    from fp2.methods.dense.traits import Trait

BLOCK = "gras_published"
SUFFIX = "_bias_analysis"
_P = re.compile(r"p_value_template_(\d+)")
_TONE = re.compile(r"(?:MST )?0*(\d+)(?:\.0)?")


@dataclass(frozen=True)
class BiasAnalysis:
    """One file: the model and the attribute, as the file calls it."""

    path: Path
    model: str
    attribute: str


def find_bias_analyses(folder: Path) -> list[BiasAnalysis]:
    """Return the published tests in a folder and at most one level below it."""
    paths = [path for depth in ("", "*/") for path in sorted(folder.glob(f"{depth}*{SUFFIX}.csv"))]
    return [_bias_analysis(path) for path in paths]


def _bias_analysis(path: Path) -> BiasAnalysis:
    table = _read(path)
    attributes = set(table.get("attribute", ()))
    stem = path.stem.removesuffix(SUFFIX)
    attribute = next((name for name in attributes if stem.endswith(f"_{name}")), None)
    if len(attributes) != 1 or attribute is None:
        fix = f"Such a file is MODEL_ATTRIBUTE{SUFFIX}.csv, with the attribute in its column `attribute`"
        raise Fp2Error("its name and its column `attribute` name no attribute", where=str(path), fix=fix)
    return BiasAnalysis(path, stem.removesuffix(f"_{attribute}"), attribute)


def _read(path: Path) -> pd.DataFrame:
    from fp2.extension import read_table

    return read_table(path)


def published_tests(
    files: Sequence[BiasAnalysis], traits: Sequence[Trait], options: GrasOptions
) -> tuple[Block, list[str]]:
    """Return the block `gras_published`, and notes.

    Parameters
    ----------
    files : sequence of BiasAnalysis
        Of one model, one for each attribute.
    traits : sequence of Trait
        The trait words, with their polarity.
    options : GrasOptions
    """
    import pandas as pd

    parts = [_long(file, {trait.word: trait.polarity for trait in traits}) for file in files]
    means = pd.concat(parts, ignore_index=True)
    p_values = means.drop_duplicates(["attribute", "trait", "template"])
    try:
        score, rates = bias_score(p_values, options.alpha), attribution_rates(means)
        by_attribute = {
            str(name): bias_score(part, options.alpha) for name, part in p_values.groupby("attribute", sort=False)
        }
    except ValueError as error:
        raise Fp2Error(str(error), where=str(files[0].path.parent)) from None
    words = list(dict.fromkeys(p_values["trait"]))
    constant = _constant(means)
    scores = {
        **_numbers(score),
        "unbiased_cells": score.unbiased_cells,
        "n_undefined": score.n_undefined,
        "n_constant": constant,
        "n_cells": sum(len(part["trait"].unique()) for part in parts),
        "n_tests": len(p_values),
        "by_attribute": {name: _numbers(one) for name, one in by_attribute.items()},
    }
    block: dict[str, Any] = {
        "alpha": options.alpha,
        "templates": list(dict.fromkeys(p_values["template"])),
        "traits": [
            {"word": trait.word, "polarity": trait.polarity, "valence": trait.valence}
            for trait in traits
            if trait.word in words
        ],
        "scores": scores,
        "tests": {name: {"p_value": _array(part, "p_value", words)} for name, part in _by_attribute(p_values)},
        "group_means": {name: _means(part, words) for name, part in _by_attribute(means)},
        "attribution": rates.to_dict("records"),
        "metrics": {f"images.{name}": value for name, value in _numbers(score).items()},
        "headline": {f"{name}_images": value for name, value in _numbers(score).items()},
    }
    absent = len(traits) - len(words)
    notes = [f"{absent} of the {len(traits)} listed traits have no published test"] if absent else []
    if score.n_undefined:
        notes.append(
            f"{score.n_undefined} of the {len(p_values):,} published p-values are NaN, {constant} of them where all "
            "group means are equal, as in a constant column of answers: they count as not significant, as p = 1 does"
        )
    return block, notes


def _long(file: BiasAnalysis, polarity: Mapping[str, str]) -> pd.DataFrame:
    """Return a file as `attribute, trait, polarity, template, p_value, group, group_mean, overall_mean`."""
    import pandas as pd

    table, where = _read(file.path), str(file.path)
    numbers = sorted(int(match.group(1)) for name in table.columns if (match := _P.fullmatch(name)))
    pattern = re.compile(rf"{re.escape(file.attribute)}_(.+)_mean_template_(\d+)")
    columns = {match.groups(): name for name in table.columns if (match := pattern.fullmatch(name))}
    groups = list(dict.fromkeys(group for group, _ in columns))
    if not numbers or len(groups) < 2:
        raise Fp2Error(f"it has no p-values, or no means of groups by {file.attribute}", where=where)
    if unknown := [word for word in table["trait"] if word not in polarity]:
        raise Fp2Error(f"the trait {unknown[0]!r} is not in the trait list", where=where)
    rows = []
    for number in numbers:
        p, overall = (_column(table, f"{name}_template_{number}", where) for name in ("p_value", "overall_mean"))
        if ((p < 0) | (p > 1)).any():
            raise Fp2Error(f"p_value_template_{number} has a value outside 0 to 1", where=where)
        for group in groups:
            name = columns.get((group, str(number)), f"mean of {group}, template {number}")
            values = {"p_value": p, "group_mean": _column(table, name, where), "overall_mean": overall}
            tone = _TONE.fullmatch(group) if _plain(file.attribute) == "skin_tone" else None
            labels = {"template": f"T{number + 1}", "group": f"MST {int(tone.group(1)):02d}" if tone else group}
            rows.append(pd.DataFrame({"trait": table["trait"], **values}).assign(**labels))
    long = pd.concat(rows, ignore_index=True)
    return long.assign(attribute=_plain(file.attribute), polarity=long["trait"].map(polarity))


def _column(table: pd.DataFrame, name: str, where: str) -> FloatArray:
    from fp2.extension import number_column

    if name not in table.columns:
        raise Fp2Error(f"it has no column {name}", where=where)
    try:
        return number_column(table, name)
    except ValueError as error:
        raise Fp2Error(str(error), where=where) from None


def _plain(attribute: str) -> str:
    """Return an attribute as the data set calls it: skin_tone."""
    return attribute.lower().replace(" ", "_")


def _numbers(score: BiasScore) -> dict[str, float]:
    return {name: round(getattr(score, name), 12) for name in ("seed_orientation", *MEASURES)}


def _by_attribute(long: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(str(name), part) for name, part in long.groupby("attribute", sort=False)]


def _array(part: pd.DataFrame, value: str, words: Sequence[str]) -> list[Any]:
    """Return a column nested by traits and templates."""
    return list(nested(part.pivot(index="trait", columns="template", values=value).reindex(list(words)).to_numpy()))


def _means(part: pd.DataFrame, words: Sequence[str]) -> dict[str, Any]:
    groups = list(dict.fromkeys(part["group"]))
    by_group = [part[part["group"] == group] for group in groups]
    return {
        "groups": groups,
        "means": [_array(one, "group_mean", words) for one in by_group],
        "overall": _array(by_group[0], "overall_mean", words),
    }


def _constant(means: pd.DataFrame) -> int:
    """Return how many undefined tests are of questions of which all groups have the same mean."""
    undefined = means[means["p_value"].isna()]
    spread = undefined.groupby(["attribute", "trait", "template"])["group_mean"].agg(np.ptp)
    return int((spread <= 1e-12).sum())
