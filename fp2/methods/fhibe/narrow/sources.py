"""Where predictions come from (the user's files, or models that are run here), and their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fp2.extension import Config, Fp2Error, Inputs
from fp2.methods.fhibe.narrow.body_parts import score_parts
from fp2.methods.fhibe.narrow.detection import score_boxes, score_masks, score_poses
from fp2.methods.fhibe.narrow.faces import score_faces
from fp2.methods.fhibe.narrow.generated_images import load_lpips, same_face
from fp2.methods.fhibe.narrow.model_outputs import read_predictions
from fp2.methods.fhibe.narrow.models import (
    ModelSpec,
    NarrowModel,
    build_model,
    identity_spec,
    load_spec,
    predict_all,
    read_spec,
)
from fp2.methods.fhibe.narrow.predictions import Prediction, by_image
from fp2.methods.fhibe.narrow.tasks import (
    BOX,
    EMBEDDING,
    IMAGE,
    MASK,
    NOT_IN_RUN,
    PARTS,
    POSE,
    TASKS,
    TWO_PEOPLE,
    NarrowOptions,
    NarrowTask,
    TaskScores,
    Tick,
    check_images,
    narrow_task,
    unknown_subjects,
)
from fp2.methods.fhibe.narrow.truth import Person, people_by_image
from fp2.methods.fhibe.narrow.verification import embedded_faces, verify


@dataclass
class Source:
    """The predictions of one model for one task.

    Attributes
    ----------
    kind : {"predictions", "model"}
        The user's file, or a model that was run here.
    similarity : str
        How its embeddings are compared.
    failed : mapping
        Image id -> the reason why it has no prediction.
    """

    task: NarrowTask
    model: str
    kind: str
    predictions: list[Prediction]
    similarity: str = "cosine"
    identity: Mapping[str, Any] | None = None
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def probe(self) -> str:
        """The name of the outcome."""
        return f"{self.task.name} / {self.model}"


def read_sources(files: Mapping[str, Any], options: NarrowOptions, people: Sequence[Person]) -> list[Source]:
    """Return the user's predictions."""
    similarity = "cosine" if options.similarity == "auto" else options.similarity
    sources = []
    for name in (name for name in files if name in TASKS and options.wants(name)):
        task, seen = narrow_task(name), set[str]()
        for model, path in _named(files[name]):
            if model in seen:
                fix = f"Name them: 'task.files.{name}={{first: FILE, second: FILE}}'"
                raise Fp2Error(f"two files of predictions are named {model!r}", where=f"task.files.{name}", fix=fix)
            seen.add(model)
            predictions = read_predictions(path, task, people, options.keypoints)
            sources.append(Source(task, model, "predictions", predictions, similarity))
    return sources


def _named(files: Any) -> Iterator[tuple[str, Path]]:
    """Yield name and path of one file, a list or a table of files.

    A file is named after itself; the `model_outputs.json` of FHIBE's evaluation code after its folder, that of a model.
    """
    if isinstance(files, Mapping):
        yield from ((str(name), Path(path).expanduser()) for name, path in files.items())
        return
    for file in [files] if isinstance(files, str) else files:
        path = Path(file).expanduser()
        generic = path.stem in ("model_outputs", "face_encodings")
        yield (path.absolute().parent.name if generic else path.stem), path


def build_models(
    config: Config, files: Mapping[str, Any], options: NarrowOptions
) -> list[tuple[ModelSpec, NarrowTask, NarrowModel]]:
    """Return the models that are run here, whose weights are not loaded yet; raise if one lacks what it needs."""
    specs = [load_spec(name) for name in options.models]
    if "model" in files:
        specs.append(read_spec(Path(files["model"]).expanduser()))
    return [(spec, *build_model(spec, config)) for spec in specs if options.wants(spec.task)]


def run_models(inputs: Inputs, files: Mapping[str, Any], options: NarrowOptions, people: list[Person]) -> list[Source]:
    """Return the predictions of the models that are run here."""
    sources = []
    for spec, task, model in build_models(inputs.config, files, options):
        # with two_person=leave_out, images of two people are not scored, except by their face boxes
        both = task.form == EMBEDDING or options.two_person == "match"
        shown = people if both else [person for person in people if person.n_people == 1]
        n_images = len({person.image_id for person in shown})
        with inputs.progress.steps(f"{task.title}: {spec.name}", n_images) as tick:
            predicted = predict_all(
                task, model, shown, inputs.store.connection, tick, inputs.config.answers.error_budget
            )
        similarity = model.similarity if options.similarity == "auto" else options.similarity
        sources.append(
            Source(task, spec.name, "model", predicted.predictions, similarity, model.identity(), predicted.failed)
        )
    return sources


def score(
    source: Source, inputs: Inputs, people: list[Person], files: Mapping[str, Any], options: NarrowOptions
) -> tuple[TaskScores, dict[str, Any]]:
    """Return the scores of a source, and its description as an outcome of the results."""
    config, verification, task = inputs.config, None, source.task
    as_published = options.metric == "published"
    people = [person for person in people if not {person.image_id, person.face_id} & set(source.failed)]
    n_images = len({person.image_id for person in people})
    n_steps = len(inputs.cuts) if task.form == EMBEDDING else n_images if task.shown == IMAGE else len(people)
    with inputs.progress.steps(f"Scoring {task.title.lower()}", n_steps) as tick:
        if task.shown == IMAGE:
            scores = score_images(
                task,
                people,
                source.predictions,
                two_person=options.two_person,
                thresholds=options.pck,
                keypoints=options.keypoints,
                as_published=as_published,
                listed=options.published_poses == "listed",
                curves=options.curves,
                tick=tick,
            )
        elif task.form == EMBEDDING:
            faces, scores = embedded_faces(people, source.predictions, task, boxed=source.kind == "model")
            verification = verify(
                faces,
                inputs.people,
                inputs.cuts,
                scores,
                similarity=source.similarity,
                seed=config.seed,
                min_subjects=config.analysis.min_subjects,
                as_published=as_published,
                curves=options.curves,
                tick=tick,
            )
        else:
            lpips, identity = None, None
            if "lpips_network" in files:
                lpips = load_lpips(*(Path(files[name]).expanduser() for name in ("lpips_network", "lpips_weights")))
            if spec := identity_spec(options.identity):
                identity = same_face(build_model(spec, config)[1])
            scores = score_faces(
                task,
                people,
                source.predictions,
                mirrored=options.mirrored,
                lpips=lpips,
                identity=identity,
                as_published=as_published,
                tick=tick,
            )
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
        "verification": verification,
    }


def score_images(
    task: NarrowTask,
    people: Sequence[Person],
    predictions: Sequence[Prediction],
    *,
    two_person: str = "match",
    thresholds: str = "paper",
    keypoints: Sequence[str] = (),
    as_published: bool = False,
    listed: bool = False,
    curves: bool = False,
    tick: Tick = lambda: None,
) -> TaskScores:
    """Return the scores of a task on whole images: boxes, masks, poses or body parts.

    Parameters
    ----------
    people : sequence of Person
        All people in the images: the second person of an image takes part in the matching.
    two_person : {"match", "leave_out"}
        Images of two people: match each prediction to one of them, or leave the image out.
    thresholds : {"paper", "api"}
        PCK at 0.5 of the face box's diagonal, or the mean over 0.1, 0.2 ... 0.9.
    keypoints : sequence of str
        Keypoints that are scored; none: all 17.
    as_published, curves : bool
        Whether the metrics of FHIBE's evaluation code, and scores at every threshold, are added.
    listed : bool
        Whether the published PCK takes poses in the order of the list.
    tick : callable
        Called after each image.
    """
    predicted, images = by_image(predictions), people_by_image(people)
    check_images(predicted, images, task)
    scores = TaskScores(published=as_published, curves=curves)
    scores.ignored[NOT_IN_RUN] += sum(len(some) for image_id, some in predicted.items() if image_id not in images)
    if task.form in (POSE, PARTS):
        subjects = {image_id: [person.subject_id for person in group] for image_id, group in images.items()}
        named = [
            prediction
            for image_id in images
            for prediction in predicted.get(image_id, ())
            if prediction.subject_id is not None
        ]
        if named and not any(prediction.subject_id in subjects[prediction.image_id] for prediction in named):
            raise unknown_subjects(named[0].subject_id, task)
    for image_id, group in images.items():
        tick()
        of_image = predicted.get(image_id, [])
        if two_person == "leave_out" and group[0].n_people > 1:
            scores.left_out[TWO_PEOPLE] += len(group)
        elif task.form == BOX:
            score_boxes(task, group, of_image, scores)
        elif task.form == MASK:
            score_masks(group, of_image, scores)
        elif task.form == PARTS:
            score_parts(group, of_image, scores)
        else:
            score_poses(group, of_image, scores, thresholds, keypoints, listed=listed)
    return scores
