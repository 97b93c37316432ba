"""The Python interface: evaluate a model, read and compare runs, score texts, and compare groups on any outcome.

The pipeline is the command line's (`fp2.run`). Wherever a name is taken, an object may be given: a loaded model, a
DataFrame of people, a function as a scorer. Nothing is kept between calls but the files of the project.
"""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.api.objects import (
    FunctionModel,
    Scorer,
    given_answers,
    given_model,
    given_people,
    split_scorers,
    starts_with_object,
)
from fp2.api.results import Comparison, Disparity, Run
from fp2.cuts import quoted
from fp2.errors import Fp2Error
from fp2.progress import Progress  # here: Rich draws from the global random generator when it is imported

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from fp2.config import Config

__all__ = [
    "Comparison", "Disparity", "FunctionModel", "Run", "Scorer", "compare", "disparity", "evaluate", "load_run",
    "score",
]  # fmt: skip
_OF_EVERY_DATA_SET = ("seed", "limit", "offset", "stratify", "ids")


def evaluate(
    *,
    model: Any = "peeps_vlm",
    answers: str | Path | pd.DataFrame | None = None,
    data: str | pd.DataFrame = "peeps",
    probes: str | Sequence[str] | Mapping[str, str | Sequence[str]] = "fingerprint",
    cuts: str | Sequence[str] | None = None,
    scorers: object = None,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    image_root: str | Path | None = None,
    overrides: Sequence[str] = (),
    root: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Run one evaluation, as `fp2 run` does, and return it.

    Parameters
    ----------
    model : str or object
        A name of the config group `model`; or a (model, processor) pair of transformers, an engine
        (`fp2.engines.base.Engine`), a `FunctionModel`, or a function `(image, question) -> answer`.
    answers : str, Path or DataFrame, optional
        Answers that exist already, from a file in one of the forms of `docs/methods/recorded.md` or as a table with
        columns such as `image`, `question` and `text`: nothing is asked, `model` is the name of the model that gave
        them, and images need not exist.
    data : str or DataFrame
        A name of the config group `data`; or one row per person in an image, with a column `image` (a path, or a PIL
        image), perhaps `subject`, and one column per attribute.
    probes : str, sequence or mapping
        A battery of the config group `probe`; or some probes of the default battery; or your own questions, as a
        mapping of probe to question text (or several).
    cuts : str or sequence of str, optional
        Attributes by which subjects are grouped, or intersections such as `gender_x_age`. By default those of the
        config, and every attribute of a DataFrame.
    scorers : str, function, scorer, or a sequence or mapping of these, optional
        Names of the config group `scorer`, or functions from a text to a number (`Scorer` sets range and direction).
        The first is the primary scorer, of which composites are means.
    name : str, optional
        The name of a model that is given as an object.
    columns : mapping, optional
        Of a DataFrame: our names to its columns.
    image_root : str or Path, optional
        Of a DataFrame: the folder that image paths start from.
    overrides : sequence of str
        Further overrides, as on the command line: `["data.limit=200", "analysis=quick"]`.
    root : str or Path, optional
        The project's folder, by default `FP2_ROOT` or the current folder.
    progress : bool
        Whether to show progress on standard error.

    Returns
    -------
    Run
        Its `message` says why it ended early, if it did; a warning says so too.

    Raises
    ------
    Fp2Error
        For every mistake that can be seen before the model is asked.

    Examples
    --------
    >>> run = fp2.evaluate(model="peeps_vlm", data="peeps", cuts="pronoun", scorers="valence")  # doctest: +SKIP
    >>> run.disparities[["probe", "raw", "adjusted_p", "verdict"]]  # doctest: +SKIP
    """
    from fp2.compose import check_typed
    from fp2.config import primary_among
    from fp2.run import run
    from fp2.runs.inputs import CallerObjects
    from fp2.runs.outputs import fresh_folder

    names, specs, objects = split_scorers(() if scorers is None else scorers)
    is_table = not isinstance(data, str)
    attributes = _attributes(data, columns) if is_table else []
    sources = [
        *([f"model={'recorded' if answers is not None else quoted(model)}"] if isinstance(model, str) else []),
        *([] if is_table else [f"data={quoted(str(data))}"]),
        *_probe_words(probes),
        *([f"scorer=[{','.join(map(quoted, names))}]"] if names else []),
        *_cut_words(cuts if cuts is not None or not is_table else attributes),
        *overrides,
    ]
    with _project(root) as project:
        plain = asdict(_config([*sources, project]))
        engine = dataset = None
        if answers is not None or not isinstance(model, str):
            of_answers = answers is not None
            given = (
                given_answers(answers, model, name, plain["model"], plain["engine"])
                if of_answers
                else given_model(model, name)
            )
            plain["model"], plain["engine"], engine = dict(given.model), dict(given.engine), given.make
        if not isinstance(data, str):
            folder = Path(plain["paths"]["data"])
            root_folder = Path(image_root) if image_root else None
            spec, dataset = given_people(data, folder, columns, root_folder, found=answers is None)
            plain["data"] = {**spec, **{key: plain["data"][key] for key in _OF_EVERY_DATA_SET}}
        if objects:
            plain["scorer"] = _in_order(scorers, plain["scorer"] if names else {}, specs)
        chosen = any(word.startswith("analysis.primary=") for word in overrides)
        if scorers is not None and not chosen:
            keys = list(plain["scorer"])
            if keys and primary_among(keys, plain["analysis"]["primary"]) != keys[0]:
                plain["analysis"]["primary"] = keys[0]
        if isinstance(probes, Mapping):
            plain["probe"] |= {"name": "custom", "probes": _questions(probes), "select": None}
        config = _checked(plain)
        check_typed(overrides, [config])
        outcome = run(
            config,
            fresh_folder(Path(config.paths.outputs)),
            sources,
            Progress(quiet=not progress),
            CallerObjects(engine, dataset, objects),
        )
    if outcome.message:
        warnings.warn(outcome.message, stacklevel=2)
    return Run(outcome.results, outcome.folder, outcome.message)


def load_run(run: str | Path, *, root: str | Path | None = None) -> Run:
    """Return a finished run.

    Parameters
    ----------
    run : str or Path
        A folder with its files, or its id or config hash (the first characters will do).
    root : str or Path, optional
        The project's folder, by default `FP2_ROOT` or the current folder.

    Returns
    -------
    Run

    Raises
    ------
    Fp2Error
        If there is no such run.
    """
    from fp2 import artifacts
    from fp2.runs.reader import read_results, run_folder

    scratch = tempfile.TemporaryDirectory(prefix="fp2-run-")
    tables = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES, artifacts.DASHBOARD, artifacts.PASSPORT)
    with _project(root) as project:
        folder = run_folder(
            str(run), _config([project]), Path(scratch.name), (artifacts.RESULTS, artifacts.CONFIG), tables
        )
    return Run(read_results(folder), folder, None, scratch)


def compare(
    runs: Sequence[Run | str | Path], *, overrides: Sequence[str] = (), root: str | Path | None = None
) -> Comparison:
    """Compare runs pair by pair on the subjects that both have, as `fp2 compare` does, with one correction.

    Parameters
    ----------
    runs : sequence of Run, str or Path
        Two or more, as in `load_run`.
    overrides : sequence of str
        `analysis.permutations=`, `analysis.bootstrap=`, `analysis.alpha=` and `seed=`.
    root : str or Path, optional
        The project's folder.

    Returns
    -------
    Comparison
        Of more than two runs, every pair is compared, with one correction over all of them.

    Raises
    ------
    Fp2Error
        If a run cannot be read, or two have no subject, cut, scorer or probe in common.
    """
    from fp2.api.results import of_several_runs
    from fp2.runs.reader import read_run

    compare_all = of_several_runs("runs")
    with _project(root) as project, tempfile.TemporaryDirectory(prefix="fp2-compare-") as scratch:
        config = _config([*overrides, project])
        sources = [str(run.folder) if isinstance(run, Run) else str(run) for run in runs]
        logged = [read_run(word, config, Path(scratch), dense=True) for word in sources]
        comparison = compare_all(logged, config)
    for pair in comparison["not_compared"]:
        raise Fp2Error(pair["reason"], where=f"{pair['first']} and {pair['second']}")
    return Comparison(comparison["pairs"])


def score(texts: Sequence[str], scorers: object = ("valence_context", "refusal"), *, probe: str = "") -> pd.DataFrame:
    """Score texts.

    Parameters
    ----------
    texts : sequence of str
        Answers, or any other texts.
    scorers : str, function, scorer, or a sequence or mapping of these
        As in `evaluate`.
    probe : str
        The probe that the texts answer; scorers of other probes give missing values.

    Returns
    -------
    DataFrame
        A column `text`, and one per scorer; NaN where a text does not state the dimension.

    Raises
    ------
    Fp2Error
        If a scorer is unknown, or describes two people.
    """
    import pandas as pd

    from fp2.scorers.base import AsksModel
    from fp2.scorers.registry import build_scorers

    names, _, objects = split_scorers(scorers)
    with _project(None) as project:
        specs = _config([f"scorer=[{','.join(names)}]", project]).scorer if names else {}
    built = {**(build_scorers(specs) if specs else {}), **objects}
    for asking in (scorer for scorer in built.values() if isinstance(scorer, AsksModel)):
        asking.check()
    table = pd.DataFrame({"text": list(texts)})
    for key, scorer in built.items():
        if scorer.probes is not None and probe not in scorer.probes:
            table[key] = float("nan")
        else:
            table[key] = scorer.score(table["text"].tolist(), [probe] * len(table)).values
    return table


def disparity(
    values: ArrayLike,
    groups: ArrayLike,
    subjects: ArrayLike | None = None,
    *,
    images: ArrayLike | None = None,
    higher_is_better: bool = True,
    value_range: tuple[float, float] = (-1.0, 1.0),
    smallest_effect: float = 0.05,
    min_subjects: int = 10,
    alpha: float = 0.05,
    n_permutations: int = 10_000,
    n_bootstrap: int = 2_000,
    seed: int = 20260101,
) -> Disparity:
    """Compare one outcome between groups: the statistics of a run, for values of your own.

    Parameters
    ----------
    values, groups : (n,)
        One value and one group per line; a missing value is NaN, a line without a group is left out.
    subjects, images : (n,), optional
        The subject, which is the unit of analysis, and the image of each line; by default each line is a subject.
    higher_is_better : bool
        If False, the worst group has the largest mean.
    value_range : (float, float)
        Smallest and largest possible value.
    smallest_effect : float
        The smallest difference that matters.
    min_subjects : int
        Smaller groups are listed and not compared.
    alpha : float
        Level of the test and of the interval.
    n_permutations, n_bootstrap, seed : int
        Numbers of permutations and bootstrap resamples, and their seed.

    Returns
    -------
    Disparity

    Raises
    ------
    Fp2Error
        If lengths differ, or a value lies outside `value_range`.

    Notes
    -----
    One outcome is a family of its own: correct over several with `fp2.stats.adjustment.adjust`.
    """
    import numpy as np
    import pandas as pd

    from fp2.stats.adjustment import adjust
    from fp2.stats.disparities import disparity as compare_groups

    given = {"values": values, "groups": groups, "subjects": subjects, "images": images}
    columns = {key: np.asarray(value) for key, value in given.items() if value is not None}
    columns.setdefault("subjects", np.arange(len(columns["values"])))
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{key} {len(column)}" for key, column in columns.items())
        raise Fp2Error(f"the lengths differ: {lengths}", where="fp2.disparity")
    has_group = ~pd.isna(columns["groups"])
    columns = {key: column[has_group] for key, column in columns.items()}
    low, high = value_range
    outcome = columns["values"].astype("float64")
    if ((outcome < low) | (outcome > high)).any():
        problem = f"a value is outside its range, {low:g} to {high:g}"
        raise Fp2Error(problem, where="fp2.disparity", fix="Give value_range=(LOW, HIGH)")
    try:
        row = compare_groups(
            outcome,
            columns["groups"].astype(str).astype(object),
            columns["subjects"],
            images=columns.get("images"),
            higher_is_better=higher_is_better,
            value_range=value_range,
            smallest_effect=smallest_effect,
            min_subjects=min_subjects,
            alpha=alpha,
            n_permutations=n_permutations,
            n_bootstrap=n_bootstrap,
            seed=seed,
        )
    except ValueError as error:
        raise Fp2Error(str(error), where="fp2.disparity") from error
    return Disparity(adjust([row], "none", alpha)[0], int((~has_group).sum()))


@contextmanager
def _project(root: str | Path | None) -> Iterator[str]:
    """Yield the override that names the project's folder; it holds for the calling thread, until the block ends."""
    from fp2.compose.overrides import ROOT

    folder = Path(root or os.environ.get("FP2_ROOT") or Path.cwd()).expanduser().resolve()
    token = ROOT.set(folder)
    try:
        yield f"paths.root={folder}"
    finally:
        ROOT.reset(token)


_COMPOSING = threading.Lock()
"""Hydra composes one config at a time in a process."""


def _config(overrides: Sequence[str]) -> Config:
    from fp2.compose import load_config

    with _COMPOSING:
        return load_config(overrides)


def _checked(plain: Mapping[str, object]) -> Config:
    from fp2.compose import from_plain

    with _COMPOSING:
        return from_plain(plain)


def _attributes(data: Any, columns: Mapping[str, str] | None) -> list[str]:
    """Return the attributes of a DataFrame of people."""
    from fp2.data.readers.table import attribute_names, can_be_name

    if not hasattr(data, "columns"):
        raise Fp2Error(f"{type(data).__name__} is not a data set", where="data", fix="Give a name or a DataFrame")
    return attribute_names(columns or [str(name) for name in data.columns if can_be_name(str(name))])


def _probe_words(probes: str | Sequence[str] | Mapping[str, object]) -> list[str]:
    if isinstance(probes, str):
        return [f"probe={quoted(probes)}"]
    return [] if isinstance(probes, Mapping) else [f"probe.select=[{','.join(map(quoted, probes))}]"]


def _cut_words(cuts: str | Sequence[str] | None) -> list[str]:
    if cuts is None:
        return []
    return [f"cut.each=[{','.join(map(quoted, [cuts] if isinstance(cuts, str) else cuts))}]"]


def _in_order(scorers: object, named: Mapping[str, object], supplied: Mapping[str, object]) -> dict[str, object]:
    """Return the specs of all scorers, those of the kind that the caller lists first in front."""
    return {**supplied, **named} if starts_with_object(scorers) else {**named, **supplied}


def _questions(probes: Mapping[str, str | Sequence[str]]) -> dict[str, object]:
    """Return the caller's questions as the probes of a battery."""
    by_name: dict[str, object] = {}
    for probe, answers_of_probe in probes.items():
        texts = [answers_of_probe] if isinstance(answers_of_probe, str) else list(answers_of_probe)
        ids = [probe] if len(texts) == 1 else [f"{probe}_{number}" for number in range(1, len(texts) + 1)]
        questions = [{"id": name, "text": text} for name, text in zip(ids, texts, strict=True)]
        by_name[probe] = {"label": probe.replace("_", " "), "questions": questions}
    return by_name
