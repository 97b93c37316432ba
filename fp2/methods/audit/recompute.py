"""The numbers of a passport, computed again from the tables of its run, and the root of its answers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fp2.extension import (
    ORDER,
    SUBJECT_B,
    Asks,
    AsksModel,
    Config,
    Evaluation,
    RowAnswers,
    RunTables,
    artifacts,
    build_statement,
    changed_methods,
    differences,
    logged_config,
    logged_protocol,
    owned,
    plural,
    read_notes,
    read_results,
    read_tables,
    results_from,
    scored,
    with_present_values,
)
from fp2.methods.audit.leaves import state_root

_OF_THE_RUN = ("issued", "generator", "run", "supersedes", "spent", "answers_root", "preregistration", "limitations")
"""Parts of a passport that are no numbers, or are compared elsewhere. Some limitations follow from attributes that the
tables no longer hold."""
_SHOWN = 8
_ORDERS = 7
"""Further orders of the subjects in which what differs is computed."""
_MARGIN = 4


def recomputed(folder: Path, here: Config, stated: Mapping[str, Any], words: Sequence[str]) -> Iterator[str]:
    """Yield what in the predicate of a passport differs from what follows from the tables in `folder`, a line each.

    Numbers of a method that has changed since (`methods` in `results.json`) are not compared.

    Parameters
    ----------
    here : Config
        Where this machine's state is.
    words : sequence of str
        Settings, for what has to be stated again of a run that another project wrote.

    Raises
    ------
    Fp2Error
        If the run cannot be analysed here: its files, protocol or scorers are missing.
    """
    before = read_results(folder)
    tables = read_tables(folder, scored=(folder / artifacts.SCORES).is_file())
    config = logged_config(folder, here, str(before["run_id"]), words)
    protocol, job = logged_protocol(config, tables.people)
    if "answers_root" in stated:
        root = state_root(config, tables, before).get("answers_root", {})
        yield from (
            f"answers_root.{name}: {value} is stated, the tables give {root.get(name)}"
            for name, value in stated["answers_root"].items()
            if root.get(name) != value
        )
    by_model = any(isinstance(scorer, AsksModel) for scorer in job.scorers.values())
    if isinstance(protocol, Asks) and isinstance(tables.answers, RowAnswers) and not by_model:
        unscored = RunTables(tables.people, _unscored(tables.answers), None, tables.others)
        yield from _score_differences(tables, scored(protocol, unscored, job))
    cuts = tuple(with_present_values(tables.people, cut) for cut in job.cuts)
    job = replace(job, cuts=cuts, facts=protocol.recall(before))
    changed = changed_methods(before, protocol.all_methods())
    extra = {name: stated["protocol"].get(name) for name in ("decoding", "preprocessing", "seeds")}

    def predicate(ordered: RunTables) -> dict[str, Any]:
        calls = before["answers"]["model_calls"]
        evaluation = Evaluation(protocol, job, ordered, before, read_notes(before), model_calls=calls)
        results = json.loads(json.dumps(results_from(evaluation, protocol.analyse(ordered, job))))
        stated_now: dict[str, Any] = build_statement(results, {}, extra, config.report.suppress_below)["predicate"]
        return stated_now

    keyed = "purged" in before or "rescored_from" in before  # these were analysed with salted keys
    now = predicate(tables if keyed else _renamed(tables))
    places = [
        place
        for name in {**stated, **now}
        if name not in _OF_THE_RUN
        for place in differences(stated.get(name), now.get(name), name)
        if not owned(place.removeprefix("findings."), changed)
    ]
    if places and f"subject_id{ORDER}" not in tables.people:
        others = [now, *(predicate(_renamed(tables, seed)) for seed in range(_ORDERS))]
        simulated = set(differences(now, others[1]))
        if 2 * len(simulated & set(places)) > len(simulated):  # else the order was that of the run
            places = [place for place in places if not _within_error(place, stated, others)]
    yield from (f"{place}: differs from what the tables give" for place in places[:_SHOWN])
    if len(places) > _SHOWN:
        yield f"and {plural(len(places) - _SHOWN, 'place')} more"


def _within_error(place: str, stated: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether what is stated at a place is within the simulation error of permutations and resampling.

    What does not change with the order of the subjects is not simulated, but for p-values, which move in steps. Numbers
    may lie outside the range of the others by `_MARGIN` times that range, p-values also by `_MARGIN` of their binomial
    standard errors and steps, adjusted ones by that times the number of tests. A word (a verdict), or that there is no
    number, has to occur among the others.
    """
    value, *values = (_at(place, predicate) for predicate in (stated, *others))
    numbers = [each for each in values if isinstance(each, (int, float))]
    if not isinstance(value, (int, float)) or not numbers:
        return value in values
    low, high = min(numbers), max(numbers)
    error = (0.5 + _MARGIN) * (high - low)
    name = place.rpartition(".")[2]
    if name.startswith("p_") or name.endswith("_p"):
        step = 1 / (1 + int(stated["statistics"]["n_permutations"]))
        p = min(max(value, step), 1 - step)
        tests = len(stated["disparities"]) + len(stated["composites"]) if name.startswith("adjusted") else 1
        error += _MARGIN * (step + math.sqrt(p * (1 - p) * step)) * tests
    elif low == high:
        return False
    return bool(abs(value - (low + high) / 2) <= error)


def _at(place: str, value: Any) -> Any:
    for name in place.split("."):
        try:
            value = value[int(name)] if isinstance(value, list) else value.get(name)
        except (ValueError, IndexError, AttributeError):
            return None
    return value


def _unscored(answers: RowAnswers) -> RowAnswers:
    return RowAnswers(answers.frame.drop(columns="refused", errors="ignore"))


def _score_differences(tables: RunTables, again: RunTables) -> Iterator[str]:
    """Yield how many refusals and scores are not those of the answers."""
    assert isinstance(tables.answers, RowAnswers)
    assert isinstance(again.answers, RowAnswers)
    flags = (tables.answers.frame["refused"] != again.answers.frame["refused"]).sum()
    if flags:
        yield f"refusals: {plural(int(flags), 'flag')} in the tables are not those of the answers"
    if tables.scores is None or again.scores is None:
        return
    keys = ["image_id", "subject_id", "variant", "question_id", "scorer"]
    both = tables.scores[[*keys, "value"]].merge(
        again.scores[[*keys, "value"]], on=keys, how="outer", suffixes=("", "_now"), indicator=True
    )
    same = both["value"].eq(both["value_now"]) | (both["value"].isna() & both["value_now"].isna())
    close = (both["value"] - both["value_now"]).abs() <= 1e-9
    wrong = int((~(same | close) | (both["_merge"] != "both")).sum())
    if wrong:
        yield f"scores: {plural(wrong, 'value')} in the tables are not those of the answers"


def _renamed(tables: RunTables, seed: int | None = None) -> RunTables:
    """Return the tables with names in place of salted keys that sort as the ids did, or at random.

    What is simulated follows from the order of ids, and keys sort in another one. Tables of 0.4.0 lack it (`ORDER`):
    most data sets list people in the order of their ids.
    """
    import numpy as np
    import pandas as pd

    people = tables.people
    names: dict[str, dict[str, str]] = {}
    for column in ("subject_id", "image_id", "set_id", SUBJECT_B):
        if column + ORDER in people:
            names[column] = {
                key: f"{rank:09}"
                for key, rank in zip(people[column], people[column + ORDER], strict=True)
                if not pd.isna(rank)
            }
        elif column in ("subject_id", "image_id"):
            keys = people[column].unique()
            ranks = np.arange(len(keys)) if seed is None else np.random.default_rng(seed).permutation(len(keys))
            names[column] = {key: f"{rank:09}" for key, rank in zip(keys, ranks.tolist(), strict=True)}

    def named(table: Any) -> Any:
        return table.assign(**{name: table[name].map(to) for name, to in names.items() if name in table})

    answers = tables.answers
    if isinstance(answers, RowAnswers):
        answers = RowAnswers(named(answers.frame))
    else:
        from fp2.methods.dense.answers import DenseAnswers

        assert isinstance(answers, DenseAnswers)
        answers = replace(
            answers,
            image_ids=np.array([names["image_id"][key] for key in answers.image_ids], dtype=object),
            subject_ids=np.array([names["subject_id"][key] for key in answers.subject_ids], dtype=object),
        )
    scores = None if tables.scores is None else named(tables.scores)
    return RunTables(named(tables.people), answers, scores, {name: named(each) for name, each in tables.others.items()})
