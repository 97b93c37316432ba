"""The numbers of a passport, computed again from the tables of its run, and the root of its answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fp2.extension import (
    Asks,
    Config,
    Evaluation,
    ModelScorer,
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
)
from fp2.methods.audit.leaves import state_root

_OF_THE_RUN = ("issued", "generator", "run", "supersedes", "spent", "answers_root", "preregistration")
"""Parts of a passport that are no numbers, or are compared elsewhere."""
_SHOWN = 8


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
    if isinstance(protocol, Asks) and isinstance(tables.answers, RowAnswers):
        again = scored(protocol, RunTables(tables.people, _unscored(tables.answers), None, tables.others), job)
        if not any(isinstance(scorer, ModelScorer) for scorer in job.scorers.values()):
            yield from _score_differences(tables, again)
    job = replace(job, facts=protocol.recall(before))
    evaluation = Evaluation(protocol, job, tables, before, read_notes(before),
                            model_calls=before["answers"]["model_calls"])  # fmt: skip
    results = json.loads(json.dumps(results_from(evaluation, protocol.analyse(tables, job))))
    changed = changed_methods(before, protocol.all_methods())
    extra = {name: stated["protocol"].get(name) for name in ("decoding", "preprocessing", "seeds")}
    now = build_statement(results, {}, extra, config.report.suppress_below)["predicate"]
    places = [
        place
        for name in {**stated, **now}
        if name not in _OF_THE_RUN
        for place in differences(stated.get(name), now.get(name), name)
        if not owned(place.removeprefix("findings."), changed)
    ]
    yield from (f"{place}: differs from what the tables give" for place in places[:_SHOWN])
    if len(places) > _SHOWN:
        yield f"and {plural(len(places) - _SHOWN, 'place')} more"


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
    both = tables.scores[[*keys, "value"]].merge(again.scores[[*keys, "value"]], on=keys, how="outer",
                                                 suffixes=("", "_now"), indicator=True)  # fmt: skip
    same = both["value"].eq(both["value_now"]) | (both["value"].isna() & both["value_now"].isna())
    close = (both["value"] - both["value_now"]).abs() <= 1e-9
    wrong = int((~(same | close) | (both["_merge"] != "both")).sum())
    if wrong:
        yield f"scores: {plural(wrong, 'value')} in the tables are not those of the answers"
