"""Recompute the results of a logged run from its tables, for a purge and for a rescoring.

No model is loaded and no image is read. Ids in the tables are salted keys.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.ask.answers import RunTables
from fp2.compose import build_protocol, from_plain
from fp2.config import Config
from fp2.errors import Fp2Error, nearest
from fp2.protocols.base import EvaluationProtocol, Job
from fp2.results import Analysis, Counts
from fp2.runs.local_paths import recall, with_places

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.scorers.base import Scorer


def count_tables(tables: RunTables, cuts: Sequence[Cut], probes: Sequence[str], model_calls: int) -> Counts:
    """Return the parts of the results that follow from counting the tables."""
    from fp2.cuts import group_sizes, of_sets
    from fp2.protocols.balance import balance_block

    people, answers = tables.people, tables.answers
    asked = bool(answers.n_planned)
    return Counts(
        n_images=tables.n_images,
        n_subjects=tables.n_subjects,
        answers=answers.counts(model_calls),
        answers_by_group=answers.counts_by_group(people, cuts) if asked else [],
        refusal_rates=answers.refusal_rates() if asked else [],
        balance=[] if of_sets(people) else balance_block(people, cuts),
        diversity=answers.diversity(probes) if asked else [],
        groups=group_sizes(people, cuts),
    )


def describe_scorers(scorers: Mapping[str, Scorer]) -> list[dict[str, Any]]:
    """Return the scorers as reports and the passport name them."""
    return [
        {
            "name": name,
            "version": scorer.version,
            "higher_is_better": scorer.higher_is_better,
            "value_range": list(scorer.value_range),
            "smallest_effect": scorer.smallest_effect,
            "lexicon": scorer.lexicon,
        }
        for name, scorer in scorers.items()
    ]


def logged_config(folder: Path, here: Config, run_id: str) -> Config:
    """Return a run's config with this machine's paths; a path that is not stored here remains `local:NAME`.

    Raises
    ------
    Fp2Error
        If it cannot be read or does not fit this version.
    """
    import yaml

    try:
        plain = yaml.safe_load((folder / artifacts.CONFIG).read_text(encoding="utf-8"))
        plain = with_places(plain, recall(Path(here.paths.state), run_id))
        plain["paths"] = asdict(here.paths)
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise Fp2Error(f"the run's config cannot be read: {error}", where=str(folder)) from error
    return from_plain(plain)


def logged_protocol(config: Config, people: pd.DataFrame) -> tuple[EvaluationProtocol[Any], Job]:
    """Return the protocol of a logged run, and how its tables are analysed (without `facts`).

    Answers that are not scored need no battery, whose files may be gone by now: the job has none.

    Raises
    ------
    Fp2Error
        If its protocol, battery or scorers are not there, or the tables lack the attribute of a cut.
    """
    from fp2.probes.battery import load_battery
    from fp2.scorers.registry import build_scorers

    protocol = build_protocol(config)
    cuts = logged_cuts(config, people)
    if not protocol.asks or protocol.scoring == "none":
        return protocol, Job(config, cuts)
    battery = load_battery(asdict(config.probe))
    protocol = protocol.for_battery(battery).for_people(people)
    scorers = build_scorers(config.scorer) if config.scorer else {}
    protocol.check_scorers(battery, scorers)
    return protocol, Job(config, cuts, battery, scorers)


def logged_cuts(config: Config, people: pd.DataFrame) -> tuple[Cut, ...]:
    """Return the cuts of a logged run.

    Raises
    ------
    Fp2Error
        If its people table lacks the attribute of one.
    """
    from fp2.cuts import resolve_cuts
    from fp2.tables import attribute_columns

    kept = attribute_columns(people)
    wanted = {name for cut in resolve_cuts(asdict(config.cut)) for name in cut.by}
    for name in sorted(wanted - set(kept)):
        raise Fp2Error(
            f"the run's table of people has no attribute {name!r}",
            where="cut",
            fix=f"{nearest(name, kept)}. Start a run with this cut: its answers come from the store",
        )
    return resolve_cuts(asdict(config.cut), kept)


def recompute(
    protocol: EvaluationProtocol[Any], tables: RunTables, job: Job, before: Mapping[str, Any], model_calls: int
) -> tuple[Counts, Analysis, list[str]]:
    """Analyse the tables of a logged run.

    Parameters
    ----------
    before : mapping
        The results of the run: the balance of attributes that the tables no longer hold is taken over from them.

    Returns
    -------
    (counts, analysis, limitations)
        What `fp2.results.assemble` needs besides what the run is. Of the limitations of `before`, those that follow
        from the tables are replaced.
    """
    from dataclasses import replace

    from fp2.protocols.balance import balance_warnings, is_balance_warning, later_block

    analysis = protocol.analysed(tables, replace(job, facts=protocol.recall(before)))
    counts = count_tables(tables, job.cuts, [probe["id"] for probe in before["probes"]], model_calls)
    counts = replace(counts, balance=later_block(counts.balance, job.cuts, before["balance"]))
    lines = [line for line in before["limitations"] if not is_balance_warning(line) and not protocol.follows(line)]
    lines += [line for line in (*balance_warnings(counts.balance), *analysis.notes) if line not in lines]
    return counts, analysis, lines


def passport_protocol(folder: Path) -> dict[str, Any]:
    """Return the protocol part of a run's passport; empty where it has none."""
    path = folder / artifacts.PASSPORT
    if not path.is_file():
        return {}
    payload = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    return dict(payload["predicate"]["protocol"])
