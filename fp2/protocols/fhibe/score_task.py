"""`task=fhibe_scores`: the FHIBE analyses of the user's own scores, or of simulated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.config import Config
from fp2.errors import Fp2Error, nearest
from fp2.protocols.fhibe.conditions import names_in
from fp2.protocols.fhibe.score_files import LONG, read_scores, simulated_scores
from fp2.protocols.fhibe.score_options import ScoresOptions, read_options
from fp2.protocols.fhibe.scores import (
    Analysis,
    Found,
    all_cuts,
    analyse_scores,
    attributes_of,
    numbers_of,
    sensitive_of,
    steps_of,
)
from fp2.run_tables import TableFindings, TableInput

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut

BLOCK = "fhibe_scores"
TITLE = "FHIBE's bias analyses"
SIMULATED = "The scores are simulated from a truth that the config states: calibration, never a finding about people."


def run(given: TableInput) -> TableFindings:
    """Measure the features, read or draw the scores, and analyse them.

    Raises
    ------
    Fp2Error
        For mistakes in the options or the file.
    """
    from fp2.protocols.fhibe.features import measure

    config = given.config
    options = read_options(config.task.options)
    _check_files(config, options)
    _check_names(given.people, options)
    with given.progress.steps("Measuring the pictures", len(given.people)) as tick:
        numbers = measure(given.people, given.store, pixels=options.pixels, tick=tick)
    people = given.people.join(numbers)
    scores, notes = _scores(config, people, options)
    _check_somebody(people, scores, given.cuts, options)
    sensitive = sensitive_of(people, given.cuts, options)
    n_cuts = len(all_cuts(sensitive, given.cuts, options))
    n_outcomes = len(scores[["probe", "scorer"]].drop_duplicates())
    with given.progress.steps("Analysing the scores", steps_of(n_outcomes, n_cuts, options)) as tick:
        found = analyse_scores(scores, people, given.cuts, options, analysis_of(config), tick)
    return TableFindings(
        title=TITLE,
        block=BLOCK,
        found=found.block,
        disparities=found.disparities,
        people=people.drop(columns=[name for name in numbers if name not in numbers_of(options)]),
        scores=scores[LONG],
        attributes=attributes_of(people, sensitive, options),
        notes=[*([SIMULATED] if options.simulate else []), *notes, *found.block["notes"]],
        model={"name": _model_name(config, scores), "embedded": options.simulate is not None},
        **_names(scores, options),
    )


def again(config: Config, people: pd.DataFrame, scores: pd.DataFrame, before: Mapping[str, Any]) -> Found:
    """Return the block and the disparity rows from a run's own tables; ids are salted keys, features are columns."""
    from dataclasses import asdict, replace

    from fp2.cuts import resolve_cuts
    from fp2.tables import attribute_columns

    options = read_options(config.task.options)
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(people))
    there = {*people.columns, *attribute_columns(people)}
    kept = tuple(condition for condition in options.within if there.issuperset(names_in(condition)))
    found = analyse_scores(scores, people, cuts, replace(options, within=kept), analysis_of(config))
    for condition in options.within:
        if condition not in kept:  # a fine place or a time, which no table may hold
            found.block["notes"].append(f"within {condition}: not made again, what it names never leaves the data set")
    return found


def analysis_of(config: Config) -> Analysis:
    """Return the comparison's settings."""
    a = config.analysis
    return Analysis(a.alpha, a.correction, a.min_subjects, a.permutations, a.bootstrap, config.seed)


def _check_names(people: pd.DataFrame, options: ScoresOptions) -> None:
    """Raise for names that the data set does not have, before anything is measured."""
    from fp2.protocols.fhibe.conditions import holds
    from fp2.protocols.fhibe.features import NUMBERS
    from fp2.tables import attribute_columns

    known = attribute_columns(people)
    for where, names in (("attributes", options.attributes), ("features", options.features)):
        for name in names or ():
            if name not in known and not (where == "features" and name in NUMBERS):
                fix = nearest(name, known if where == "attributes" else [*known, *NUMBERS])
                raise Fp2Error(f"the data set has no {name!r}", where=f"task.options.{where}", fix=fix)
    for condition in options.within:
        holds(people.assign(**dict.fromkeys(NUMBERS, float("nan"))), condition)


def _check_somebody(people: pd.DataFrame, scores: pd.DataFrame, cuts: Sequence[Cut], options: ScoresOptions) -> None:
    """Raise where nobody has a score, or nobody with one has a value for a cut that was asked for."""
    from fp2.cuts import Cut, memberships

    known = scores.dropna(subset=["value"])
    if known.empty:
        raise Fp2Error("no score is left: every cell is empty", where="task.files.scores")
    pairs = set(zip(known["image_id"], known["subject_id"], strict=True))
    inside = [pair in pairs for pair in zip(people["image_id"], people["subject_id"], strict=True)]
    for cut in (*cuts, *(Cut(name, (name,)) for name in options.attributes or ())):
        if memberships(people[inside], cut).empty:
            raise Fp2Error(f"nobody with a score has a value for {cut.name!r}", where="cut")


def _check_files(config: Config, options: ScoresOptions) -> None:
    files = {name: path for name, path in config.task.files.items() if path}
    for name in files:
        if name != "scores":
            raise Fp2Error(f"unknown file {name!r}", where="task.files", fix=nearest(name, ["scores"]))
    if options.simulate is not None and files:
        raise Fp2Error("scores are given and simulated", where="task", fix="Leave out task.options.simulate")
    if options.simulate is None and not files.get("scores"):
        fix = "Add task.files.scores=FILE (one row per person and picture), or try experiment=fhibe_scores_demo"
        raise Fp2Error("there are no scores", where="task=fhibe_scores", fix=fix)


def _scores(config: Config, people: pd.DataFrame, options: ScoresOptions) -> tuple[pd.DataFrame, list[str]]:
    from fp2.store.salted_keys import local_salt

    if options.simulate is None:
        salt = local_salt(Path(config.paths.state))
        return read_scores(Path(config.task.files["scores"]).expanduser(), people, options, salt)
    names = [metric.name for metric in options.metrics]
    for name in options.simulate:
        if name not in names:
            fix = nearest(str(name), names)
            raise Fp2Error(f"{name!r} is no metric of task.options.metrics", where="task.options.simulate", fix=fix)
    if not options.metrics:
        raise Fp2Error("there is nothing to simulate", where="task.options.metrics", fix="Name a metric")
    return simulated_scores(people, options.metrics, options.simulate, options.name, config.seed), []


def _model_name(config: Config, scores: pd.DataFrame) -> str:
    """Return whose scores these are, in words: the outcome where there is one, else the file's name."""
    outcomes = scores["probe"].unique().tolist()
    if len(outcomes) == 1:
        return str(outcomes[0])
    return Path(config.task.files["scores"]).stem if config.task.files.get("scores") else "several"


def _names(scores: pd.DataFrame, options: ScoresOptions) -> dict[str, Any]:
    """Return outcomes and metrics as reports name probes and scorers."""
    probes = [{"id": str(name), "label": str(name), "text": ""} for name in scores["probe"].unique()]
    scorers = [
        {
            "name": metric.name,
            "version": "1",
            "higher_is_better": metric.higher_is_better,
            "value_range": list(metric.range or (0.0, 1.0)),
            "smallest_effect": metric.smallest_effect,
            "lexicon": None,
        }
        for metric in options.metrics
    ]
    return {
        "probes": probes,
        "scorers": scorers,
        "analysis": {"smallest_effects": {metric.name: metric.smallest_effect for metric in options.metrics}},
    }
