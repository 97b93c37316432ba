"""The answers of a run as rows for other programs: its ids in place of salted keys, and every form that is read.

A run holds salted keys only. Ids are restored from the data set and the salt of this machine; the file then is about
people as the data set is, and is readable by its owner only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fp2.extension import (
    YES_NO_NUMBERS,
    Config,
    Fp2Error,
    Progress,
    RowAnswers,
    artifacts,
    calibration_of,
    logged_config,
    model_name,
    nearest,
    read_results,
    read_tables,
    read_withdrawn,
    writing_about,
)
from fp2.methods.recorded.form import form_of

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Answers

FILES = (artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SHARDS, artifacts.QUESTIONS)
"""Files of a run that its answers are in; a run has some of them."""


def export_answers(
    folder: Path,
    here: Config,
    path: Path,
    progress: Progress,
    *,
    places: Mapping[str, str] | None = None,
    form: str | None = None,
    keys: bool = False,
) -> int:
    """Write the answers of the run in `folder` to `path`; return how many rows.

    Parameters
    ----------
    here : Config
        Where this machine's state is.
    places : mapping, optional
        Where the data set is now: `data.path` or another of its options that name a place, and the path.
    form : str, optional
        Of the file (`fp2.methods.recorded.form`); by default that of its suffix.
    keys : bool
        Whether images and subjects are named by their salted keys, which needs no data set.
    """
    from fp2.extension import from_plain, local_options

    chosen = form_of(path, form, where="--format", exists=False)
    results = read_results(folder)
    if not results["answers"]["planned"]:
        raise Fp2Error("the run asked no model: it has no answers", where=str(results["run_id"]))
    config = logged_config(folder, here, results["run_id"])
    tables = read_tables(folder, scored=False).present(read_withdrawn(Path(here.paths.state)))
    answers = tables.answers
    rows = _text_rows(answers, tables.people, config) if isinstance(answers, RowAnswers) else _dense_rows(answers)
    if not keys:
        plain = asdict(config)
        allowed = [f"data.{name}" for name in local_options(plain["data"])]
        for key, place in (places or {}).items():
            if key not in allowed:
                problem = "the data set of a run cannot be changed, only its place"
                raise Fp2Error(problem, where=key, fix=nearest(key, allowed))
            plain["data"][key.removeprefix("data.")] = place
        rows = _with_ids(rows, from_plain(plain) if places else config, here, progress)
    marks = calibration_of(results)
    if marks["calibration"]:
        rows["planted_effects"] = "none" if marks["without_effects"] else "true"
    created = datetime.fromisoformat(results["created"]).timestamp()
    about = {
        "model": model_name(results),
        "model_id": results["model"].get("id"),
        "run_id": results["run_id"],
        "created": int(created),
    }
    with (
        writing_about(here, [tables.people]),
        artifacts.as_user_error(path.parent),
        progress.steps(f"Writing {len(rows):,} answers", 1),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        path.chmod(0o600)
        chosen.write(path, rows, about)
    return len(rows)


def _text_rows(answers: RowAnswers, people: pd.DataFrame, config: Config) -> pd.DataFrame:
    """Return the answers of row storage; the numbers of yes/no answers in columns, those of choices as JSON."""
    import pandas as pd

    from fp2.extension import Items, load_battery

    battery = load_battery(asdict(config.probe))
    questions = {question.question_id: question for question in battery.asked}
    items = Items(battery.asked, battery.fields, people) if battery.fields else None
    texts = {
        (image, question.question_id): question.text
        for row, image in enumerate(people["image_id"])
        for question in (items.of(row) if items else battery.asked)
    }
    frame = answers.frame
    read = [json.loads(cell) if isinstance(cell, str) else None for cell in frame["numbers"].tolist()]
    kinds = [(questions[name].kind if name in questions else "text") for name in frame["question_id"].tolist()]
    yes_no = [numbers if kind == "yes_no" else None for numbers, kind in zip(read, kinds, strict=True)]
    cells = [None if kind == "yes_no" else cell for cell, kind in zip(frame["numbers"].tolist(), kinds, strict=True)]
    rows = pd.DataFrame(
        {
            "image": frame["image_id"],
            "subject": frame["subject_id"],
            "variant": frame["variant"],
            "probe": frame["probe"],
            "question": frame["question_id"],
            "question_text": [*map(texts.get, zip(frame["image_id"], frame["question_id"], strict=True))],
            "text": frame["text"],
            "status": frame["status"],
            "error": frame["error"],
        }
    )
    if any(yes_no):
        for name in YES_NO_NUMBERS:
            rows[name] = pd.to_numeric(pd.Series([(one or {}).get(name) for one in yes_no], dtype="object"))
    if any(isinstance(cell, str) for cell in cells):
        rows["numbers"] = cells
    return rows


def _dense_rows(answers: Answers) -> pd.DataFrame:
    """Return the answers of dense storage, image by image."""
    from fp2.methods.dense.answers import DenseAnswers

    assert isinstance(answers, DenseAnswers)
    return answers.rows().rename(columns={"image_id": "image", "subject_id": "subject", "question_id": "question"})


def _with_ids(rows: pd.DataFrame, config: Config, local_config: Config, progress: Progress) -> pd.DataFrame:
    from fp2.extension import load_configured, local_salt, salted

    fix = "Give its place as another argument (data.path=FILE), or add --keys for salted keys in place of ids"
    try:
        people = load_configured(config, progress, images_needed=False).people
    except Fp2Error as error:
        raise Fp2Error(
            f"the ids of the run are in its data set, and {error.what}", where=error.where, fix=fix
        ) from error
    salt = local_salt(Path(local_config.paths.state))
    out = rows.copy()
    kinds: tuple[Literal["image", "subject"], ...] = ("image", "subject")
    for name in kinds:
        ids = people[f"{name}_id"].tolist()
        ids_by_salted = dict(zip(salted(ids, salt, name), ids, strict=True))
        lost = set(rows[name]) - set(ids_by_salted)
        if lost:
            problem = f"{len(lost)} of {rows[name].nunique()} {name}s of the run are not in the data set that is here"
            raise Fp2Error(problem, where=f"data={config.data.name}", fix=fix)
        out[name] = [ids_by_salted[key] for key in rows[name].tolist()]
    return out
