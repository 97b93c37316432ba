"""The files that the inference scripts of GRAS's authors write: P(Yes) of every image, a CSV per model, trait and set.

    FOLDER/llava-1.5-7b-hf_results/llava-1.5-7b-hf_kind_fairface.csv
    img,yes_prob_0,yes_prob_1,yes_prob_2,yes_prob_3,yes_prob_4

A file is one of these if it has the column `img` and the columns `yes_prob_0`, `yes_prob_1`, ..., one for each template
in the order of the script. Its name is `MODEL_TRAIT_SET.csv` (or `MODEL_TRAIT.csv`); with a column `trait` it is
`MODEL.csv` or `MODEL_SET.csv`. Other CSV files of the folder (the lists, `evaluation_results`) are passed over, and so
are other columns. Older versions of the scripts wrote percentages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fp2.extension import Fp2Error, check_names, in_number, normal_id

if TYPE_CHECKING:
    import pandas as pd

    from fp2.methods.gras.published_tests import BiasAnalysis

IMAGE: Final = "img"
TRAIT: Final = "trait"
MODEL: Final = "task.options.model"
ALL: Final = "all"
"""In place of a model: a run of each."""
_SETS: Final = ("fairface", "aiface")
_OUTCOME: Final = re.compile(r"yes_prob_(\d+)")
_DEPTH: Final = 2


@dataclass(frozen=True)
class InferenceFile:
    """One file: the model, the trait (None where a column has it), and the P(Yes) columns in the order of templates."""

    path: Path
    model: str
    trait: str | None
    columns: tuple[str, ...]


def find_inference_files(folder: Path, words: Sequence[str], where: str) -> list[InferenceFile]:
    """Return the inference files in a folder and at most two levels below it; there may be none.

    Parameters
    ----------
    folder : Path
    words : sequence of str
        The known trait words.
    where : str
        The option that names the folder.
    """
    if not folder.is_dir():
        raise Fp2Error("the folder does not exist", where=f"{where}={folder}", fix="Give the folder of the files")
    paths = [path for depth in range(_DEPTH + 1) for path in sorted(folder.glob("*/" * depth + "*.csv"))]
    found = [file for path in paths if (file := _inference_file(path, words)) is not None]
    for file in found:
        first = next(other for other in found if other.model == file.model)
        if file.columns != first.columns:
            what = f"it has {len(file.columns)} templates, {first.path.name} {len(first.columns)}"
            raise Fp2Error(what, where=str(file.path), fix="Were both written by the same script?")
    return found


def chosen_model(files: Sequence[InferenceFile | BiasAnalysis], model: str | None) -> str:
    """Return the model whose files are read: `model`, or the only one."""
    models = list(dict.fromkeys(file.model for file in files))
    if model in (None, ALL) and len(models) > 1:
        fix = f"Name one of {', '.join(models)}; on the command line, {MODEL}={ALL} makes a run of each"
        raise Fp2Error(f"the files are of {len(models)} models", where=MODEL, fix=fix)
    check_names([] if model is None else [model], models, "there are no files of the model", MODEL)
    return model or models[0]


def read_probabilities(
    files: Sequence[InferenceFile], images: Sequence[str], words: Sequence[str], tick: Callable[[], None]
) -> tuple[NDArray[np.float32], list[str]]:
    """Return P(Yes) and notes on what was unusual.

    Parameters
    ----------
    files : sequence of InferenceFile
        Of one model.
    images : sequence of str
        The ids of the images, as the files name them.
    words : sequence of str
        The trait words.
    tick : callable
        Called after each file.

    Returns
    -------
    (array, shape (n_images, n_words, n_templates), notes)
        NaN where no file has a number.
    """
    place = {_plain(image): number for number, image in enumerate(images)}
    row = {word: number for number, word in enumerate(words)}
    found = np.full((len(images), len(words), len(files[0].columns)), np.nan, dtype=np.float64)
    others: set[str] = set()
    largest: list[float] = []
    for file in files:
        largest.append(0.0)
        for word, table in _by_trait(file, row).items():
            values = table[list(file.columns)].to_numpy(dtype=np.float64)
            largest[-1] = max(largest[-1], float(np.nanmax(values, initial=0.0)))
            places = np.array([place.get(image, -1) for image in table[IMAGE]], dtype=np.int64)
            others |= set(table.loc[places < 0, IMAGE])
            _fill(found[:, row[word]], places[places >= 0], values[places >= 0], file)
        tick()
    if np.isnan(found).all():
        what = (
            f"no file is about the images of the data set ({images[0]}, ...), but about {min(others, default='none')}"
        )
        raise Fp2Error(what, where="task.files.answers", fix="Take the lists that the scripts ran on: data.root=PATH")
    left_out = in_number(
        len(others),
        f"{len(others):,} [image|images] of the inference files [is|are] not among the images of this run, and "
        "[was|were] left out",
    )
    notes = [left_out] if others else []
    if max(largest) > 1:
        found /= 100
        low = sum(one <= 1 for one in largest)
        no_number = (
            f"; {low} [file has|files have] no number above 1: make sure that [it holds|they hold] percentages too"
        )
        check = in_number(low, no_number) if low else ""
        notes.append(f"the probabilities of the inference files are percentages, and were divided by 100{check}")
    return found.astype(np.float32), notes


def _inference_file(path: Path, words: Sequence[str]) -> InferenceFile | None:
    """Return what a file's header and name say; None if it is no inference file."""
    from fp2.extension import dialect

    try:
        header = dialect(path).header
    except (OSError, UnicodeError):
        return None
    numbers = sorted(int(match.group(1)) for name in header if (match := _OUTCOME.fullmatch(name)))
    if IMAGE not in header or not numbers:
        return None
    columns = tuple(f"yes_prob_{number}" for number in numbers)
    head, _, last = path.stem.rpartition("_")
    stem = head if last in _SETS and head else path.stem
    if TRAIT in header:
        return InferenceFile(path, stem, None, columns)
    word = max((word for word in words if stem.endswith(f"_{word}")), key=len, default=None)
    if word is None:
        fix = "Give the list that the scripts ran on: task.files.traits=PATH"
        raise Fp2Error("its name ends with no word of the trait list", where=str(path), fix=fix)
    return InferenceFile(path, stem.removesuffix(f"_{word}"), word, columns)


def _by_trait(file: InferenceFile, known: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return trait -> the rows of a file, with image paths in one form and P(Yes) as numbers."""
    from fp2.extension import number_column, read_table

    table = read_table(file.path)
    table.columns = table.columns.str.strip()
    for name in file.columns:
        try:
            numbers = number_column(table, name)
        except ValueError as error:
            raise Fp2Error(str(error), where=str(file.path)) from None
        if (bad := np.flatnonzero((numbers < 0) | (numbers > 100))).size:
            what = f"row {int(bad[0]) + 1}: {name} is {table[name].iloc[bad[0]]}, no probability"
            raise Fp2Error(what, where=str(file.path))
        table[name] = numbers
    table[IMAGE] = [_plain(str(name)) for name in table[IMAGE]]
    if file.trait:
        return {file.trait: table}
    for word in table[TRAIT].unique():
        if word not in known:
            raise Fp2Error(f"the trait {word!r} is not in the trait list", where=str(file.path))
    return {str(word): part for word, part in table.groupby(TRAIT, sort=False)}


def _fill(
    into: NDArray[np.float64], places: NDArray[np.int64], values: NDArray[np.float64], file: InferenceFile
) -> None:
    """Write the rows of a file; raise Fp2Error for an image that has other numbers already, here or in another file."""
    order = np.argsort(places, kind="stable")
    places, values = places[order], values[order]
    before = np.roll(values, 1, axis=0)
    repeated = np.zeros(len(places), dtype=bool)
    repeated[1:] = places[1:] == places[:-1]
    before[~repeated] = into[places[~repeated]]
    differs = (values != before) & ~np.isnan(values) & ~np.isnan(before)
    if n := int(differs.any(axis=1).sum()):
        raise Fp2Error(
            in_number(n, f"{n} [image is|images are] listed twice with different numbers"),
            where=str(file.path),
            fix="Keep one file for each model, trait and image set",
        )
    into[places] = np.where(np.isnan(values), into[places], values)


def _plain(image: str) -> str:
    """Return an image's path with slashes and without a leading `./`."""
    return normal_id(image).replace("\\", "/").removeprefix("./")
