"""`task=fhibe_narrow`: predictions of narrow models, the user's or made here, scored per person and analysed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.protocols.base import Collected, EvaluationProtocol, Inputs, Job
from fp2.protocols.fhibe.scores.conditions import names_in
from fp2.protocols.narrow.analyse import analyse, n_cuts, sensitive_of
from fp2.protocols.narrow.models import build_model, load_spec, read_spec
from fp2.protocols.narrow.options import NarrowOptions, check_files, read_options
from fp2.protocols.narrow.predict import predict_all
from fp2.protocols.narrow.predictions import Prediction, read_predictions
from fp2.protocols.narrow.score import TaskScores, score_pictures
from fp2.protocols.narrow.tasks import EMBEDDING, TASKS, WHOLE, NarrowTask, narrow_task
from fp2.protocols.narrow.truth import Person, people_of
from fp2.protocols.task_tables import LONG, comparison_of, score_settings, score_tables
from fp2.results import Analysis

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables

BLOCK = "fhibe_narrow"


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


class FhibeNarrow(EvaluationProtocol[NarrowOptions]):
    """FHIBE's eight narrow vision tasks."""

    name = BLOCK
    Options = NarrowOptions
    asks = False
    scoring = "none"
    sections = ("fp2.protocols.narrow.section:NarrowSection",)

    @classmethod
    def from_config(cls, config: Config) -> FhibeNarrow:
        """Return the protocol with its options."""
        return cls(read_options(config.task.options))

    def title(self, inputs: Inputs) -> str:
        """Return what the report is called."""
        return "Narrow vision tasks"

    def check(self, inputs: Inputs) -> None:
        """Refuse unknown files, and a run without predictions and models."""
        files = check_files(inputs.config.task.files)
        if not (set(files) & {*TASKS, "model"} or self.options.models):
            raise _nothing_to_score()

    def collect(self, inputs: Inputs) -> Collected:
        """Read the predictions, or make them, and score everybody."""
        options = self.options
        files = check_files(inputs.config.task.files)
        people = people_of(inputs.people)
        sources = [*_read(files, options), *_run_models(inputs, files, options, people)]
        if not sources:
            raise _nothing_to_score()
        scored = [_score(source, inputs, people, files, options) for source in sources]
        table = _with_features(inputs, options)
        return Collected(
            tables=score_tables(table, _long(scored)),
            model={"name": _model_name(sources)},
            attributes=[*sensitive_of(table), *(name for text in options.within for name in names_in(text))],
            facts={"outcomes": [outcome for _, outcome in scored]},
        )

    def n_steps(self, job: Job, tables: RunTables) -> int:
        """Return how often `analyse` ticks."""
        return len(job.facts["outcomes"]) * n_cuts(tables.people, job.cuts, self.options)

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the block and the disparity rows."""
        assert tables.scores is not None
        block, rows = analyse(
            tables.scores, tables.people, job.cuts, job.facts["outcomes"], self.options, comparison_of(job.config),
            job.tick,
        )  # fmt: skip
        metrics = list(dict.fromkeys(one["metric"] for one in block["outcomes"]))
        settings = score_settings(job.config, metrics)
        return Analysis(
            settings={**settings, "smallest_effects": dict.fromkeys(metrics, self.options.smallest_effect)},
            blocks={BLOCK: block},
            disparities=rows,
            notes=_notes(block),
            about=_names(block, metrics, self.options),
        )

    def recall(self, results: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outcomes of a logged run.

        Pairs of faces cannot be compared again without the embeddings: verification keeps its scores per face only.
        """
        keep = ("probe", "task", "model", "source", "identity", "left_out", "ignored", "scale", "scale_note", "failed")
        known = results[BLOCK]["outcomes"]
        return {"outcomes": [{**{name: one.get(name) for name in keep}, "verification": None} for one in known]}


def _nothing_to_score() -> Fp2Error:
    fix = "Add task.files.TASK=FILE or task.options.models=[NAME], or try experiment=narrow_demo"
    return Fp2Error("there is nothing to score", where="task=fhibe_narrow", fix=fix)


def _read(files: Mapping[str, str], options: NarrowOptions) -> list[_Source]:
    """Return the user's predictions."""
    similarity = "cosine" if options.similarity == "auto" else options.similarity
    sources = []
    for name, given in files.items():
        if name in TASKS and (options.tasks is None or name in options.tasks):
            path, task = Path(given).expanduser(), narrow_task(name)
            sources.append(_Source(task, path.stem, "predictions", read_predictions(path, task), similarity))
    return sources


def _run_models(given: Inputs, files: Mapping[str, str], options: NarrowOptions, people: list[Person]) -> list[_Source]:
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
            made = predict_all(task, model, shown, given.store.connection, tick, given.config.answers.error_budget)
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
    source: _Source, given: Inputs, people: list[Person], files: Mapping[str, str], options: NarrowOptions
) -> tuple[TaskScores, dict[str, Any]]:
    """Return the rows of one source, and what it is."""
    from fp2.protocols.narrow.metrics.pictures import load_lpips
    from fp2.protocols.narrow.score_faces import embeddings_of, score_faces
    from fp2.protocols.narrow.verify import verify

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
    from fp2.protocols.narrow.dlib_faces import same_face

    return same_face(config)


def _with_features(given: Inputs, options: NarrowOptions) -> pd.DataFrame:
    """Return the people table, with the measured features where a condition may need one."""
    if not options.within:
        return given.people
    from fp2.protocols.fhibe.scores.features import measure

    with given.progress.steps("Measuring the pictures", len(given.people)) as tick:
        return given.people.join(measure(given.people, given.store.connection, tick=tick))


def _long(scored: list[tuple[TaskScores, dict[str, Any]]]) -> pd.DataFrame:
    """Return one row per person, picture and metric (`image_id, subject_id, probe, scorer, value`)."""
    import pandas as pd

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


def _names(block: Mapping[str, Any], metrics: list[str], options: NarrowOptions) -> dict[str, Any]:
    """Return outcomes and metrics as reports name probes and scorers."""
    probes = [
        {"id": one["probe"], "label": f"{one['title']}: {one['model']}", "text": one["metrics"][one["metric"]]}
        for one in block["outcomes"]
    ]
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
    return {"probes": probes, "scorers": scorers}
