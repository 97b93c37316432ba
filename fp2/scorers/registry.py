"""Building scorers from the config, and applying them: from answers to scores and the refusal flag.

A scorer's `target` is an import path, or the name of an entry point of the group `fp2.scorers`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Literal, cast, get_type_hints

from fp2.errors import Fp2Error, check_names
from fp2.notes import Note, NoteKind, Stage, as_notes
from fp2.plugins import SCORERS, check_members, installed, load, read_options
from fp2.scorers.base import AsksModel, BaseScorer, ReadsAnswers, Scored, Scorer
from fp2.tables import SCORES, TRACE, question_of

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.probes.battery import Battery
    from fp2.progress import Progress
    from fp2.store.rows import ResponseStore
    from fp2.tables import Answer

ANSWER: Literal["answer"] = "answer"
"""The value of a scorer's `of` for which the answer is scored, and not the reasoning before it."""
MEASURES = "measures"
"""Key of a scorer's config: the dimension that it measures."""
MEMBERS = tuple(name for name in vars(Scorer) if not name.startswith("_"))


def build_scorers(specs: Mapping[str, Mapping[str, object]]) -> dict[str, Scorer]:
    """Build every scorer of the config group `scorer`, in its order."""
    if not specs:
        raise Fp2Error("no scorer is selected", where="scorer", fix=f"Choose from: {', '.join(installed(SCORERS))}")
    return {name: build_scorer(name, spec) for name, spec in specs.items()}


def build_scorer(name: str, spec: Mapping[str, object]) -> Scorer:
    """Build one scorer.

    Parameters
    ----------
    name : str
        Its key in the config; passed to the class if that takes a `name`.
    spec : mapping
        `target` (`package.module:Class`, or an entry point; `name` by default), `measures` (see `dimensions`) and the
        options of the class: the fields of a dataclass, whose types are checked, or the parameters of any other class
        or function, whose return annotation is a class of scorers.
    """
    where = f"scorer.{name}"
    if not isinstance(spec, Mapping):
        raise Fp2Error("a scorer is a mapping of its options", where=where, fix="Write target: package.module:Class")
    target = str(spec.get("target", name))
    factory = load(SCORERS, target, where)
    if not _makes_scorers(factory):
        fix = "Name a class with the method score, or a function whose return annotation is such a class"
        raise Fp2Error(f"{target} is not a scorer", where=where, fix=fix)
    arguments = {str(key): value for key, value in spec.items() if key not in ("target", MEASURES)}
    measures = spec.get(MEASURES, name)
    if not (isinstance(measures, str) and measures.strip()):
        fix = f"Write {MEASURES}: valence, or leave it out"
        raise Fp2Error(f"{MEASURES} is the name of a dimension, not {measures!r}", where=f"{where}.{MEASURES}", fix=fix)
    scorer: object
    if is_dataclass(factory) and isinstance(factory, type):
        if "name" in {option.name for option in fields(factory)}:
            arguments.setdefault("name", name)
        scorer = read_options(factory, arguments, where)
    else:
        scorer = _call(factory, name, arguments, where)
    if getattr(scorer, "of", ANSWER) != ANSWER and name == "refusal":
        raise Fp2Error("whether an answer is a refusal is read from the answer", where=f"{where}.of", fix="Remove it")
    check_members(scorer, MEMBERS, "a scorer", where)
    return cast("Scorer", scorer)


def _makes_scorers(factory: object) -> bool:
    """Whether it is a class of scorers, or a function that states to return one: nothing else is called."""
    if inspect.isfunction(factory):
        try:
            factory = get_type_hints(factory).get("return")
        except (NameError, TypeError):  # an annotation for the type checker only
            return False
    return isinstance(factory, type) and callable(getattr(factory, "score", None))


def dimensions(specs: Mapping[str, Mapping[str, object]]) -> dict[str, list[str]]:
    """Return the scorers of each dimension, both in the order of the config.

    A scorer measures what its `measures` names, by default what it is itself called. Scorers of one dimension are
    compared with each other (block `scorer_agreement`).
    """
    scorers_of: dict[str, list[str]] = {}
    for name, spec in specs.items():
        scorers_of.setdefault(str(spec.get(MEASURES, name)), []).append(name)
    return scorers_of


def _call(factory: Callable[..., object], name: str, arguments: dict[str, object], where: str) -> object:
    """Return what a plain class or function returns for the options; its signature is all that is known of them."""
    accepted = inspect.signature(factory).parameters
    if "name" in accepted:
        arguments.setdefault("name", name)
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()):
        check_names(arguments, accepted, "unknown key", where)
        if missing := [
            key for key, parameter in accepted.items() if parameter.default is parameter.empty and key not in arguments
        ]:
            raise Fp2Error(f"{missing[0]} is missing", where=where)
    try:
        return factory(**arguments)
    except ValueError as error:
        raise Fp2Error(f"the scorer cannot be built: {error}", where=where) from error


_OF_CHOICE = '"p":'
"""What the numbers of a choice contain, as JSON (`fp2.tables.Answer.numbers`)."""
SCORE_KEYS = ["response_key", "image_id", "subject_id", "variant", "question_id", "probe"]


def flag_refusals(answers: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the answers with a `refused` flag from the refusal scorer, selected or not.

    A failure is no refusal, and neither is a choice, whose text is one of its options ("It cannot be told").
    """
    import numpy as np

    answered = (answers["status"] == "answered").to_numpy()
    if "numbers" in answers:
        answered = answered & [not (isinstance(text, str) and _OF_CHOICE in text) for text in answers["numbers"]]
    rows = answers.loc[answered]
    refused = np.zeros(len(answers), dtype=bool)
    refused[answered] = _scored(_refusal(scorers), rows).values == 1
    return answers.assign(refused=refused)


def _refusal(scorers: Mapping[str, Scorer]) -> Scorer:
    from fp2.scorers.refusal import default_refusal

    return scorers.get("refusal") or default_refusal()


def count_refusals(batch: Iterable[Answer], probes: Mapping[str, str], scorers: Mapping[str, Scorer]) -> int:
    """Return how many answers `flag_refusals` will flag; 0 where the scorer asks a model, which it does at the end.

    `probes` maps the id of a question to its probe. Yes, No and choices are not looked at.
    """
    scorer = _refusal(scorers)
    texts = [one for one in batch if one.text is not None and not {"p_yes", "p"} & set(one.numbers or ())]
    if isinstance(scorer, AsksModel) or not texts:
        return 0
    scored = scorer.score(
        [str(answer.text) for answer in texts], [probes[question_of(answer.question_id)] for answer in texts]
    )
    return int((scored.values == 1).sum())


def _scored(scorer: Scorer, rows: pd.DataFrame) -> Scored:
    """Score answers, or the reasoning before them; one that asks a model, or reads probabilities, is given the rows."""
    if getattr(scorer, "of", ANSWER) != ANSWER:
        return _scored_reasoning(replace(cast("BaseScorer", scorer), of=ANSWER), rows)
    if isinstance(scorer, ReadsAnswers):
        return scorer.score_rows(rows)
    return scorer.score(rows["text"].tolist(), rows["probe"].tolist())


def _scored_reasoning(scorer: BaseScorer, rows: pd.DataFrame) -> Scored:
    """Score the reasoning of each answer; NaN where the model did not reason."""
    import numpy as np

    values = np.full(len(rows), np.nan)
    if TRACE in rows:
        reasoned = rows[TRACE].notna().to_numpy() & (rows[TRACE].fillna("") != "").to_numpy()
        values[reasoned] = _scored(scorer, rows[reasoned].assign(text=rows[TRACE])).values
    return Scored(values)


def score_answers(answers: pd.DataFrame, scorers: Mapping[str, Scorer]) -> pd.DataFrame:
    """Return the scores table: one row per answered question and scorer that applies to its probe.

    `answers` carries the flag of `flag_refusals`. `details` is what a score was made of, as JSON. Failed answers have
    no row.
    """
    import pandas as pd

    answered = answers[answers["status"] == "answered"].reset_index(drop=True)
    tables = [_score(answered, name, scorer) for name, scorer in scorers.items()]
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*SCORES.names, "details"])
    return SCORES.check(table)


def _score(answered: pd.DataFrame, name: str, scorer: Scorer) -> pd.DataFrame:
    from fp2.scorers.base import scorer_version

    chosen = answered["probe"].isin(scorer.probes).to_numpy() if scorer.probes else slice(None)
    rows = answered.loc[chosen]
    scored = _scored(scorer, rows)
    columns = {key: values.tolist() for key, values in scored.details.items()}
    details = [json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    return rows[SCORE_KEYS].assign(
        scorer=name,
        scorer_version=scorer_version(scorer),
        value=scored.values,
        refused=rows["refused"],
        details=details if columns else None,
    )


BY_MODEL = NoteKind("scored_by_model", Stage.SCORES, "Scored by a model ({scorer}): {note}")
"""How the limitation on a scorer that asks a model begins."""


def equip(
    scorers: Mapping[str, Scorer],
    config: Config,
    store: ResponseStore,
    progress: Progress,
    battery: Battery | None,
    *,
    keyed: bool = False,
) -> dict[str, Scorer]:
    """Return the scorers; those that ask a model are checked, and have what the run gives them (`AsksModel.of_run`)."""
    return {
        name: scorer.of_run(config, store, progress, battery, keyed=keyed) if isinstance(scorer, AsksModel) else scorer
        for name, scorer in scorers.items()
    }


def attributes_read(scorers: Mapping[str, Scorer]) -> set[str]:
    """Return the attributes of subjects that the scorers read."""
    return {name for scorer in scorers.values() if isinstance(scorer, ReadsAnswers) for name in scorer.attributes}


def limitations_of(scorers: Mapping[str, Scorer]) -> list[Note]:
    """Return the limitations that the scorers state, each once."""
    stated = (
        limitation for scorer in scorers.values() if isinstance(scorer, BaseScorer) for limitation in scorer.limitations
    )
    return as_notes(dict.fromkeys(stated), Stage.SCORERS)


def notes_of(scorers: Mapping[str, Scorer], scores: pd.DataFrame | None) -> list[Note]:
    """Return the limitations of a run's scorers that ask a model, from its scores table."""
    notes = []
    for name, scorer in scorers.items():
        if isinstance(scorer, AsksModel) and scores is not None and "details" in scores:
            details = scores.loc[scores["scorer"] == name, "details"].dropna()
            notes.append(BY_MODEL(scorer=name, note=scorer.note([json.loads(text) for text in details])))
    return notes
