"""The story of a run that asks nobody: people -> scores from a table -> disparities -> report.

A task is a function of `TASKS`; it is given a `TableInput` and returns `TableFindings`. Its module also has
`again(config, people, scores, before)`, which makes the block once more from the run's own tables (after a purge).
"""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config, config_hash
from fp2.errors import Fp2Error, nearest
from fp2.finish import Outcome, log, tracked, write_report
from fp2.hashing import digest
from fp2.places import remember
from fp2.progress import Progress
from fp2.tables import ANSWERS, SCORES

if TYPE_CHECKING:
    import sqlite3

    import pandas as pd

    from fp2.cuts import Cut
    from fp2.data.base import Dataset
    from fp2.store.rows import ResponseStore

TASKS = {
    "fhibe_scores": "fp2.protocols.fhibe.score_task:run",
    "fhibe_narrow": "fp2.narrow.job:run",
    "diversity": "fp2.protocols.diversity.task:run",
}
"""Name of the task -> module:function."""


@dataclass(frozen=True)
class TableInput:
    """What a task works on: everybody in the data set (also in pictures of two), the cuts, and a place to remember in.

    `store` is the open database of the response store: what was measured in pictures is kept there, and purged there.
    """

    config: Config
    dataset: Dataset
    cuts: tuple[Cut, ...]
    store: sqlite3.Connection
    progress: Progress

    @property
    def people(self) -> pd.DataFrame:
        """The people table."""
        return self.dataset.people


@dataclass(frozen=True)
class TableFindings:
    """What a task found.

    `block` is the name of its part of the results, `found` that part; `disparities` rows of our statistics on `cuts`
    (empty without any). `people` are those that the run is about, with any further columns that it used (features) and
    the attributes that may leave (`attributes`); `scores` has `image_id, subject_id, probe, scorer, value`. `model`
    needs a `name`, and `embedded` where the scores are of planted effects. `tables` are further tables to write, by
    file name; their columns `image_id` and `subject_id` become salted keys.
    """

    title: str
    block: str
    found: dict[str, Any]
    people: pd.DataFrame
    scores: pd.DataFrame
    probes: Sequence[Mapping[str, Any]]
    scorers: Sequence[Mapping[str, Any]]
    model: Mapping[str, Any]
    disparities: list[dict[str, Any]] = field(default_factory=list)
    attributes: Sequence[str] = ()
    analysis: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def run(config: Config, folder: Path, overrides: Sequence[str], progress: Progress) -> Outcome:
    """Do the task that `config.task` names and write everything it found into `folder`.

    Raises
    ------
    Fp2Error
        For the user's mistakes.
    """
    from fp2.data.pixels import PixelIndex, dataset_digest
    from fp2.store.rows import ResponseStore

    task = task_of(config)
    with ResponseStore(Path(config.paths.store)) as store:
        dataset, cuts = load_everybody(config, progress)
        paths = [Path(path) for path in dataset.people["image_path"]]
        with progress.count_up("Reading the pictures", len(set(paths))) as read:
            pixels = PixelIndex(store.connection).digest_many(paths, read, verify=config.verify_inputs)
        by_image = {i: pixels[Path(p)].sha256 for i, p in zip(dataset.people["image_id"], paths, strict=True)}
        data_digest = dataset_digest(dataset.people, by_image)
        with artifacts.told_plainly(folder):
            folder.mkdir(parents=True, exist_ok=True)
            places = artifacts.write_config(folder, config, overrides)
        _register(config, dataset, store)
        tags = {"config_hash": config_hash(config), "dataset_digest": data_digest, "variant": config.variant.name}
        with tracked(config, folder, tags, f"{config.task.name} · {config.data.name}") as tracker:
            given = TableInput(config, dataset, cuts, store.connection, progress)
            found: TableFindings = getattr(task, TASKS[config.task.name].partition(":")[2])(given)
            run_id = tracker.run_id if tracker else uuid.uuid4().hex
            results = _results(config, dataset, cuts, found, data_digest, run_id)
            with artifacts.told_plainly(folder):
                remember(Path(config.paths.state), run_id, places)
                _write(config, folder, results, cuts, found, progress)
            if tracker is not None:
                tracker.tag({"response_set": results["response_set"]})
            log(config, tracker, folder, results)
    experiment = tracker.experiment_id if tracker else None
    return Outcome(results, folder, run_id, experiment, 0, None)


def task_of(config: Config) -> Any:
    """Return the module of the config's task.

    Raises
    ------
    Fp2Error
        For an unknown task, with the nearest one.
    """
    if config.task.name not in TASKS:
        raise Fp2Error(f"unknown task {config.task.name!r}", where="task", fix=nearest(config.task.name, TASKS))
    return importlib.import_module(TASKS[config.task.name].partition(":")[0])


def load_everybody(config: Config, progress: Progress) -> tuple[Dataset, tuple[Cut, ...]]:
    """Return the data set (also who is in pictures of two; chosen or sampled as told) and the cuts.

    Raises
    ------
    Fp2Error
        For counterfactual sets, or cuts by what the data set does not have.
    """
    from fp2.cuts import resolve_cuts
    from fp2.data.load import load_configured
    from fp2.data.sampling import limit_people, pick_images, read_ids
    from fp2.tables import attribute_columns

    dataset = load_configured(config, progress)
    people, notes = dataset.people, tuple(dataset.notes)
    if people["set_id"].notna().any():
        raise Fp2Error(
            "counterfactual pictures cannot be cut into groups of people", where=f"data={config.data.name}",
            fix="Leave set_id out of data.columns, or use pictures of real people (data=peeps for the drawn ones)",
        )  # fmt: skip
    if config.data.ids is not None:
        people = pick_images(people, read_ids(config.data.ids))
    if config.data.limit is not None or config.data.offset:
        people, more = limit_people(
            people, config.data.limit, seed=config.data.seed, by=config.data.stratify, offset=config.data.offset
        )
        notes = (*notes, *more)
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(people))
    return replace(dataset, people=people.reset_index(drop=True), notes=notes), cuts


def _register(config: Config, dataset: Dataset, store: ResponseStore) -> None:
    """Remember whose pictures were looked at, so that what is kept of them can be removed with them."""
    from fp2.store.origins import register_origins

    nothing: dict[str, list[str]] = {str(image): [] for image in dataset.people["image_id"]}
    register_origins(config, dataset, nothing, store)


def _results(
    config: Config, dataset: Dataset, cuts: Sequence[Cut], found: TableFindings, data_digest: str, run_id: str
) -> dict[str, Any]:
    from fp2.results import bare_results

    base = bare_results(
        config,
        title=found.title,
        run_id=run_id,
        complete=True,
        response_set=scores_digest(found.scores),
        dataset_digest=data_digest,
        model={"id": found.model["name"], "engine": "tables", "embedded": False, **found.model},
        dataset={"name": dataset.name, "release": dataset.release, "settings": dict(dataset.settings)},
        people=found.people,
        cuts=cuts,
        analysis=analysis_block(config, found),
        probes=found.probes,
        scorers=found.scorers,
        notes=[*dataset.notes, *found.notes],
    )
    return {**base, "disparities": found.disparities, found.block: found.found}


def analysis_block(config: Config, found: TableFindings) -> dict[str, Any]:
    """Return the settings of the comparison as reports read them; the task's own go over them."""
    analysis = config.analysis
    return {
        "unit": "subject; image and subject in the published column",
        "alpha": analysis.alpha,
        "n_bootstrap": analysis.bootstrap,
        "min_subjects": analysis.min_subjects,
        "correction": analysis.correction,
        "family": "all cuts of one score",
        "primary": found.scorers[0]["name"] if found.scorers else "",
        "seed": config.seed,
        **found.analysis,
    }


def scores_digest(scores: pd.DataFrame) -> str:
    """Return the digest of a run's scores, in no particular order: what a set of answers is to a model that was asked.

    It is the same for the same scores of the same people, whatever file they came from.
    """
    lines = zip(*(scores[name] for name in ("image_id", "subject_id", "probe", "scorer", "value")), strict=True)
    return digest(sorted([*map(str, line[:4]), repr(float(line[4]))] for line in lines))


def _write(
    config: Config, folder: Path, results: dict[str, Any], cuts: Sequence[Cut], found: TableFindings, progress: Progress
) -> None:
    """Write tables with salted keys, results, figures and dashboard, and sign them."""
    from fp2.store.salted_keys import local_salt, salted
    from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

    salt = local_salt(Path(config.paths.state))
    used = {*found.attributes, *(attribute for cut in cuts for attribute in cut.by)}
    people = found.people.drop(columns=[ATTRIBUTE_PREFIX + n for n in attribute_columns(found.people) if n not in used])
    answers, scores = tables_of(found.scores)
    artifacts.write_tables(folder, people, answers, scores, results["disparities"], salt, used)
    for name, table in found.tables.items():
        keyed = table.copy()
        for column, kind in (("image_id", "image"), ("subject_id", "subject")):
            if column in keyed:
                keyed[column] = salted(keyed[column], salt, kind)  # type: ignore[arg-type]
        artifacts.write_parquet(folder / name, keyed)
    extra = {"seeds": {"analysis": config.seed, "data": config.data.seed}}
    write_report(config, folder, results, [], extra, progress)


def tables_of(scores: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return an empty table of answers and the scores in the form that every run writes."""
    import pandas as pd

    empty = pd.DataFrame({column.name: pd.Series([], dtype=_DTYPES[column.type]) for column in ANSWERS.columns})
    keys = [digest(list(map(str, line))) for line in zip(*(scores[n] for n in _KEY), strict=True)]
    full = scores.assign(
        response_key=keys, variant="original", question_id=scores["probe"], scorer_version="1", refused=False
    )
    return empty.assign(refused=pd.Series([], dtype="bool")), full[SCORES.names].reset_index(drop=True)


_KEY = ("image_id", "subject_id", "probe", "scorer")
_DTYPES = {"string": "str", "int64": "int64", "float64": "float64", "bool": "bool"}
