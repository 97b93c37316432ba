"""`task=fhibe_narrow`: predictions of narrow models, the user's or made here, scored per person and analysed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.narrow.models import build_model, load_spec, read_spec
from fp2.narrow.options import NarrowOptions, check_files, read_options
from fp2.narrow.predict import predict_all
from fp2.narrow.predictions import Prediction, read_predictions
from fp2.narrow.score import TaskScores, score_pictures
from fp2.narrow.tasks import EMBEDDING, TASKS, WHOLE, NarrowTask, narrow_task
from fp2.narrow.truth import Person, people_of
from fp2.run_tables import TableFindings, TableInput

if TYPE_CHECKING:
    import pandas as pd

    from fp2.protocols.fhibe.scores import Found

BLOCK = "fhibe_narrow"
TITLE = "Narrow vision tasks"


@dataclass
class _Source:
    """Predictions of one task, and whose they are."""

    task: NarrowTask
    model: str
    kind: str
    predictions: list[Prediction]
    similarity: str = "cosine"
    identity: Mapping[str, Any] | None = None
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def probe(self) -> str:
        return f"{self.task.name} / {self.model}"


def run(given: TableInput) -> TableFindings:
    """Read or make the predictions, score everybody, and compare groups.

    Raises
    ------
    Fp2Error
        For mistakes in the options or the files, or a model that cannot run.
    """
    from fp2.narrow.analyse import analyse, n_cuts, sensitive_of
    from fp2.protocols.fhibe.conditions import names_in
    from fp2.protocols.fhibe.score_task import analysis_of

    options = read_options(given.config.task.options)
    files = check_files(given.config.task.files)
    people = people_of(given.people)
    sources = [*_read(files, options), *_run_models(given, files, options, people)]
    if not sources:
        fix = "Add task.files.TASK=FILE or task.options.models=[NAME], or try experiment=narrow_demo"
        raise Fp2Error("there is nothing to score", where="task=fhibe_narrow", fix=fix)
    scored = [_score(source, given, people, files, options) for source in sources]
    table = _with_features(given, options)
    scores = _long(scored)
    outcomes = [outcome for _, outcome in scored]
    with given.progress.steps("Comparing groups", len(outcomes) * n_cuts(table, given.cuts, options)) as tick:
        block, rows = analyse(scores, table, given.cuts, outcomes, options, analysis_of(given.config), tick)
    return TableFindings(
        title=TITLE, block=BLOCK, found=block, disparities=rows, people=table, scores=scores, notes=_notes(block),
        attributes=[*sensitive_of(table), *(name for text in options.within for name in names_in(text))],
        model={"name": _model_name(sources)}, **_names(block, options),
    )  # fmt: skip


def again(config: Config, people: pd.DataFrame, scores: pd.DataFrame, before: Mapping[str, Any]) -> Found:
    """Return the block and the disparity rows from a run's own tables.

    Pairs of faces cannot be made again without the embeddings: verification keeps its scores per face only.
    """
    from fp2.cuts import resolve_cuts
    from fp2.narrow.analyse import analyse
    from fp2.protocols.fhibe.score_task import analysis_of
    from fp2.protocols.fhibe.scores import Found
    from fp2.tables import attribute_columns

    keep = ("probe", "task", "model", "source", "identity", "left_out", "ignored", "scale", "scale_note", "failed")
    known = set(scores["probe"])
    outcomes = [
        {**{name: one.get(name) for name in keep}, "verification": None}
        for one in before[BLOCK]["outcomes"]
        if one["probe"] in known
    ]
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(people))
    options = read_options(config.task.options)
    return Found(*analyse(scores, people, cuts, outcomes, options, analysis_of(config)))


def _read(files: Mapping[str, str], options: NarrowOptions) -> list[_Source]:
    """Return the user's predictions."""
    similarity = "cosine" if options.similarity == "auto" else options.similarity
    sources = []
    for name, given in files.items():
        if name in TASKS and (options.tasks is None or name in options.tasks):
            path, task = Path(given).expanduser(), narrow_task(name)
            sources.append(_Source(task, path.stem, "predictions", read_predictions(path, task), similarity))
    return sources


def _run_models(
    given: TableInput, files: Mapping[str, str], options: NarrowOptions, people: list[Person]
) -> list[_Source]:
    """Return what the models say that the run has to ask itself."""
    sources = []
    specs = [load_spec(name) for name in options.models]
    if "model" in files:
        specs.append(read_spec(Path(files["model"]).expanduser()))
    for spec in specs:
        if options.tasks is not None and spec.task not in options.tasks:
            continue
        task, model = build_model(spec, given.config)
        shown = _shown(task, people, options)
        n_pictures = len({person.image_id for person in shown})
        with given.progress.steps(f"{task.title}: {spec.name}", n_pictures) as tick:
            made = predict_all(task, model, shown, given.store, tick, given.config.answers.error_budget)
        similarity = options.similarity
        if similarity == "auto":
            similarity = "euclidean" if spec.family == "dlib" else "cosine"
        sources.append(_Source(task, spec.name, "model", made.predictions, similarity, model.identity(), made.failed))
    return sources


def _shown(task: NarrowTask, people: list[Person], options: NarrowOptions) -> list[Person]:
    """Return whose pictures a model is shown."""
    if task.form == EMBEDDING or options.two_person == "match":
        return people
    return [person for person in people if person.n_people == 1]


def _score(
    source: _Source, given: TableInput, people: list[Person], files: Mapping[str, str], options: NarrowOptions
) -> tuple[TaskScores, dict[str, Any]]:
    """Return the rows of one source, and what it is."""
    from fp2.narrow.metrics.pictures import load_lpips
    from fp2.narrow.score_faces import embeddings_of, score_faces
    from fp2.narrow.verify import verify

    config, block, task = given.config, None, source.task
    people = [person for person in people if person.image_id not in source.failed]
    n_steps = len(given.cuts) if task.form == EMBEDDING else len(people)
    if task.shown == WHOLE:
        n_steps = len({person.image_id for person in people})
    with given.progress.steps(f"Scoring {task.title.lower()}", n_steps) as tick:
        if task.shown == WHOLE:
            scores = score_pictures(
                task, people, source.predictions, two_person=options.two_person, thresholds=options.pck, tick=tick
            )
        elif task.form == EMBEDDING:
            faces, scores = embeddings_of(people, source.predictions, task, boxed=source.kind == "model")
            rows, block = verify(
                faces, given.people, given.cuts, similarity=source.similarity, seed=config.seed,
                min_subjects=config.analysis.min_subjects, tick=tick,
            )  # fmt: skip
            scores.rows += rows
        else:
            lpips = None
            if "lpips_network" in files:
                weights = (Path(files[name]).expanduser() for name in ("lpips_network", "lpips_weights"))
                lpips = load_lpips(*weights)
            scores = score_faces(
                task, people, source.predictions, mirrored=options.mirrored, lpips=lpips,
                identity=_identity(config, options), tick=tick,
            )  # fmt: skip
    return scores, {
        "probe": source.probe,
        "task": task.name,
        "model": source.model,
        "source": source.kind,
        "identity": dict(source.identity) if source.identity else None,
        "left_out": dict(+Counter(scores.left_out)),
        "ignored": dict(+Counter(scores.ignored)),
        "scale": scores.scale,
        "scale_note": scores.scale_note,
        "failed": len(source.failed),
        "verification": block,
    }


def _identity(config: Config, options: NarrowOptions) -> Any:
    """Return what compares the identity of two faces, if it was asked for."""
    if options.identity == "none":
        return None
    from fp2.narrow.dlib_faces import same_face

    return same_face(config)


def _with_features(given: TableInput, options: NarrowOptions) -> pd.DataFrame:
    """Return the people table, with the measured features where a condition may need one."""
    if not options.within:
        return given.people
    from fp2.protocols.fhibe.features import measure

    with given.progress.steps("Measuring the pictures", len(given.people)) as tick:
        return given.people.join(measure(given.people, given.store, tick=tick))


def _long(scored: list[tuple[TaskScores, dict[str, Any]]]) -> pd.DataFrame:
    """Return one row per person, picture and metric (`image_id, subject_id, probe, scorer, value`)."""
    import pandas as pd

    from fp2.protocols.fhibe.score_files import LONG

    parts = []
    for scores, outcome in scored:
        frame = scores.frame()
        metrics = [name for name in frame.columns if name not in ("image_id", "subject_id", "score")]
        for name in metrics:
            part = frame[["image_id", "subject_id"]].assign(
                probe=outcome["probe"], scorer=name, value=frame[name].astype("float64")
            )
            parts.append(part.dropna(subset=["value"]))
    return pd.concat(parts, ignore_index=True)[LONG] if parts else pd.DataFrame(columns=LONG)


def _notes(block: Mapping[str, Any]) -> list[str]:
    notes = []
    for one in block["outcomes"]:
        for reason, n in one["left_out"].items():
            notes.append(f"{one['probe']}: {n} left out, {reason}")
        for reason, n in (one["ignored"] or {}).items():
            notes.append(f"{one['probe']}: {n} prediction(s) ignored, {reason}")
        if one["scale_note"]:
            notes.append(f"{one['probe']}: {one['scale_note']}")
        if one["failed"]:
            notes.append(f"{one['probe']}: {one['failed']} picture(s) could not be read or predicted")
        if not one["measurable"]:
            notes.append(f"{one['probe']} is not measurable here: {one['why']}")
    return notes


def _model_name(sources: list[_Source]) -> str:
    names = list(dict.fromkeys(source.model for source in sources))
    return names[0] if len(names) == 1 else " + ".join(names) if len(names) < 4 else f"{len(names)} narrow models"


def _names(block: Mapping[str, Any], options: NarrowOptions) -> dict[str, Any]:
    """Return outcomes and metrics as reports name probes and scorers."""
    probes = [
        {"id": one["probe"], "label": f"{one['title']}: {one['model']}", "text": one["metrics"][one["metric"]]}
        for one in block["outcomes"]
    ]
    metrics = list(dict.fromkeys(one["metric"] for one in block["outcomes"]))
    scorers = [
        {
            "name": name,
            "version": "1",
            "higher_is_better": True,
            "value_range": [0.0, 1.0],
            "smallest_effect": options.smallest_effect,
            "lexicon": None,
        }
        for name in metrics
    ]
    analysis = {"smallest_effects": dict.fromkeys(metrics, options.smallest_effect)}
    return {"probes": probes, "scorers": scorers, "analysis": analysis}
