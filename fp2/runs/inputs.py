"""What a run is about: its protocol, people, cuts and engine, loaded and checked before anything is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from fp2.ask.plan import Plan, make_plan, show
from fp2.compose import build_protocol
from fp2.config import Config, VariantConfig
from fp2.data.image_size import with_image_size
from fp2.engines.base import ChecksMachine, SuppliesAnswers
from fp2.errors import Fp2Error
from fp2.notes import Note, NoteKind, Stage
from fp2.progress import Progress
from fp2.protocols.base import Asks, Inputs, Protocol
from fp2.protocols.requirements import (
    check_people,
    check_scorers,
    check_second_images,
    check_settings,
    for_battery,
    for_people,
)
from fp2.scorers.base import ReadsAnswers
from fp2.scorers.registry import attributes_read
from fp2.store.withdrawn import WithdrawnImages
from fp2.tables import FIELD_PREFIX, IMAGE_B, ITEM_ROW, everyone_shown, item_name
from fp2.text import plural

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.storage import Storage
    from fp2.cuts import Cut
    from fp2.data.base import Dataset
    from fp2.data.pixels import PixelDigest
    from fp2.data.stimuli import Stimulus
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.scorers.base import Scorer
    from fp2.store.rows import ResponseStore
    from fp2.tables import Decoding


WITHDRAWN = NoteKind(
    "withdrawn", Stage.DATA,
    lambda n_images, n_subjects: (
        f"Withdrawn, and purged on this machine: {plural(n_images, 'image')}, which are left out with "
        f"{plural(n_subjects, 'subject')} in no other image."
    ),
)  # fmt: skip


@dataclass(frozen=True)
class CallerObjects:
    """Objects of the caller's, which take the place of what the config would build.

    Attributes
    ----------
    engine : callable, optional
        Returns the engine for a battery's decoding.
    dataset : Dataset, optional
    scorers : mapping
        Scorers by the name that they have in the config.
    """

    engine: Callable[[Decoding], Engine] | None = None
    dataset: Dataset | None = None
    scorers: Mapping[str, Scorer] = field(default_factory=dict)


class Asking(TypedDict, total=False):
    """What is asked, how answers are scored, and who is asked; nothing of it for a task."""

    battery: Battery
    scorers: Mapping[str, Scorer]
    engine: Engine


def _check_registration(path: Path, keys: Path) -> None:
    """Raise unless a file is a registration that this machine's key signed."""
    from fp2.report.keys import KEY_NAME, load_public_key, public_path_of
    from fp2.report.passport import REGISTRATION_TYPE
    from fp2.report.verify import signed_statement

    outcome = signed_statement(path, [load_public_key(public_path_of(keys / KEY_NAME))])
    if outcome.statement is None or outcome.statement["predicateType"] != REGISTRATION_TYPE:
        problem = outcome.failures[0] if outcome.failures else "it states something else"
        fix = "fp2 preregister ... --to FILE writes one"
        raise Fp2Error(f"no registration of this machine: {problem}", where=f"preregistration={path}", fix=fix)


def check_surroundings(config: Config) -> None:
    """Raise for an MLflow store that does not exist, and for a preregistration that was not signed on this machine."""
    if config.tracking.enabled and (config.tracking.uri or config.tracking.artifacts):
        from fp2.tracking.client import check_store

        check_store(config)
    if config.preregistration is not None:
        _check_registration(Path(config.preregistration), Path(config.paths.keys))


def load_inputs(
    config: Config,
    store: ResponseStore,
    progress: Progress,
    objects: CallerObjects | None = None,
    *,
    makes_images: bool = True,
    model_needed: bool = True,
) -> tuple[Protocol, Inputs]:
    """Load everything that a run needs and check it; no model is loaded.

    Parameters
    ----------
    objects : CallerObjects, optional
        Objects in place of what the config would build.
    makes_images : bool
        Whether a data set that makes its images does so now. If not, its inputs have no digest (an empty one).
    model_needed : bool
        Whether the model has to be on this machine. If not, the inputs have no engine.

    Returns
    -------
    (protocol, inputs)
        The protocol that fits battery and people, and what it works on.
    """
    from fp2.data.base import configured_source

    check_surroundings(config)
    objects = objects or CallerObjects()
    protocol = build_protocol(config)
    asking: Asking = {}
    if isinstance(protocol, Asks):
        protocol, asking = load_asking(protocol, config, store, objects, progress)
        if not model_needed:
            del asking["engine"]
    battery, engine = asking.get("battery"), asking.get("engine")
    if engine is not None and battery is not None:  # the model is there, and can be asked every question
        if isinstance(engine, SuppliesAnswers):
            with progress.counter("Reading the answers") as tick:
                engine.read(tick)
        engine.identity()
        for question in battery.questions:
            engine.method(question)
    needed = not isinstance(engine, SuppliesAnswers)
    stated = None if objects.dataset is not None else configured_source(config).preview(Path(config.paths.data))
    if stated is not None:
        quiet = Progress(quiet=True)
        fitting, dataset = load_people(config, protocol, battery, quiet, stated)
        inputs = _unread_inputs(config, fitting, dataset, store, quiet, asking)
        if isinstance(engine, ChecksMachine):
            engine.check_machine()
        if not makes_images:
            return fitting, inputs
    protocol, dataset = load_people(config, protocol, battery, progress, objects.dataset, images_needed=needed)
    inputs = _unread_inputs(config, protocol, dataset, store, progress, asking)
    opened = protocol.requires.opens_images
    pixels, digest = _read_images(config, dataset.people, store, progress, opened=opened, needed=needed)
    for notice in engine.notices if engine is not None else ():
        progress.note(notice)
    return protocol, replace(inputs, pixels=pixels, dataset_digest=digest)


def _unread_inputs(
    config: Config, protocol: Protocol, dataset: Dataset, store: ResponseStore, progress: Progress, asking: Asking
) -> Inputs:
    """Return what a run works on, checked, before its images are read."""
    check_settings(protocol, config, asking.get("battery"))
    if IMAGE_B in dataset.people:
        check_second_images(config, asking.get("battery"), asking.get("engine"))
    attributes = protocol.attributes(config) if isinstance(protocol, Asks) else set()
    scorers = asking.get("scorers", {})
    people, cuts = with_cuts(dataset.people, config, {*config.analysis.adjust, *attributes, *attributes_read(scorers)})
    for scorer in scorers.values():
        if isinstance(scorer, ReadsAnswers):
            scorer.check_people(people, asking.get("battery"))
    dataset = replace(dataset, people=people)
    inputs = Inputs(config, cuts, progress=progress, dataset=dataset, store=store, dataset_digest="", **asking)
    return replace(inputs, notes=[*protocol.check(inputs), *group_notes(inputs)])


def group_notes(inputs: Inputs) -> list[Note]:
    """Return who is in no group of a cut or in several, and which attributes are confounded with those of the cuts."""
    from fp2.cuts import of_sets
    from fp2.data.group_sizes import cut_notes
    from fp2.protocols.balance import balance_block, balance_warnings

    people, cuts = inputs.people, inputs.cuts
    balance = [] if of_sets(people) else balance_block(people, cuts)
    return [*cut_notes(people, cuts), *balance_warnings(balance)]


def with_cuts(
    people: pd.DataFrame, config: Config, attributes: Collection[str] = ()
) -> tuple[pd.DataFrame, tuple[Cut, ...]]:
    """Return the people with the derived attributes that the cuts or `attributes` name, and the cuts."""
    from fp2.cuts import resolve_cuts
    from fp2.data.derived import derivable, with_derived
    from fp2.tables import attribute_columns, with_values

    columns = attribute_columns(people)
    available = [*columns, *derivable(columns)]
    cuts = resolve_cuts(asdict(config.cut), available, with_values(with_derived(people, available)))
    return with_derived(people, {*attributes, *(name for cut in cuts for name in cut.by)}), cuts


def load_asking(
    protocol: Protocol, config: Config, store: ResponseStore, objects: CallerObjects, progress: Progress
) -> tuple[Protocol, Asking]:
    """Return the protocol that fits the battery, and the battery, scorers and engine; the model may be missing."""
    from fp2.engines.build import build_engine
    from fp2.probes.battery import load_battery
    from fp2.scorers.registry import build_scorers, equip

    battery = load_battery(asdict(config.probe), config.model.id)
    protocol = for_battery(protocol, battery)
    check_settings(protocol, config, battery)
    scoring = protocol.requires.scoring
    needed = scoring == "required" or (scoring == "optional" and config.scorer)
    scorers = {**build_scorers(config.scorer), **objects.scorers} if needed else {}
    check_scorers(battery, scorers)
    scorers = equip(scorers, config, store, progress, battery)
    if objects.engine is not None:
        engine = objects.engine(battery.decoding)
    else:
        model, options = asdict(config.model), asdict(config.engine)
        engine = build_engine(model, options, battery.decoding, store, verify_files=config.verify_inputs)
    return protocol, {"battery": battery, "scorers": scorers, "engine": engine}


def load_people(
    config: Config,
    protocol: Protocol,
    battery: Battery | None,
    progress: Progress,
    dataset: Dataset | None = None,
    *,
    images_needed: bool = True,
) -> tuple[Protocol, Dataset]:
    """Return the protocol that fits the people, and the data set with the images that the run is about.

    `dataset` takes the place of the configured one; `images_needed` is False where the image files may be missing.
    """
    from fp2.cuts import of_sets
    from fp2.data.base import load_configured, without_minors

    if dataset is None:
        dataset = load_configured(config, progress, images_needed=images_needed)
    else:
        dataset = without_minors(dataset)
    protocol = for_people(protocol, dataset.people)
    check_people(protocol, config, of_sets=of_sets(dataset.people))
    return protocol, _choose(config, dataset, battery.people if battery else None, progress)


def _choose(config: Config, dataset: Dataset, n_people: int | None, progress: Progress) -> Dataset:
    """Return the data set with the images that the run is about.

    n_people: how many people have to be in an image; None takes every image. Withdrawn images are left out before
    others are sampled. Of counterfactual sets only those stay that vary in one of the cuts.
    """
    from fp2.cuts import Cut, check_attributes, of_sets, resolve_cuts
    from fp2.data import sampling
    from fp2.data.derived import derivable, with_derived
    from fp2.tables import attribute_columns, with_values

    people = dataset.people
    notes: tuple[str, ...] = ()
    if n_people is not None:
        people, notes = (sampling.two_person if n_people == 2 else sampling.single_person)(people)
    if config.data.ids is not None:
        people = sampling.pick_images(people, sampling.read_ids(config.data.ids))
    people, withdrawn = _without_withdrawn(config, people)
    for note in withdrawn:
        progress.note(note)
    notes = (*notes, *withdrawn)
    if of_sets(people):
        people, more = sampling.whole_sets(
            people, resolve_cuts(asdict(config.cut), attribute_columns(people), with_values(people))
        )
        notes = (*notes, *more)
    if config.data.stratify and config.data.limit is None:
        cut = Cut("data.stratify", tuple(config.data.stratify))
        check_attributes(cut, [*(columns := attribute_columns(people)), *derivable(columns)])
    if config.data.sample == "images" and config.data.limit is not None:
        people, more = sampling.limit_images(people, config.data.limit, seed=config.data.seed)
        notes = (*notes, *more)
    elif config.data.limit is not None or config.data.offset:
        of_units = people.assign(subject_id=sampling.units(people)) if of_sets(people) else people
        sampled, more = sampling.limit_people(
            with_derived(of_units, config.data.stratify or ()),
            config.data.limit,
            seed=config.data.seed,
            by=config.data.stratify,
            offset=config.data.offset,
        )
        people = people[people["image_id"].isin(sampled["image_id"])]
        notes = (*notes, *more)
    if people.empty:
        image_kind = {1: "single-person image", 2: "two-person image with a box for each"}.get(n_people or 0, "image")
        raise Fp2Error(f"the data set has no {image_kind}", where=f"data={config.data.name}")
    return replace(dataset, people=people.reset_index(drop=True), notes=(*dataset.notes, *notes))


def _without_withdrawn(config: Config, people: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Note, ...]]:
    """Return the people whose images are not withdrawn, and how many were left out."""
    with WithdrawnImages(Path(config.paths.state), people).writing() as images:
        if not images:
            return people, ()
    present = people[~people["image_id"].isin(images)]
    if present.empty:
        raise Fp2Error("everybody in it was withdrawn: nobody is left to ask about", where=f"data={config.data.name}")
    n_subjects = people["subject_id"].nunique() - present["subject_id"].nunique()
    return present.reset_index(drop=True), (WITHDRAWN(n_images=len(images), n_subjects=n_subjects),)


def _read_images(
    config: Config, people: pd.DataFrame, store: ResponseStore, progress: Progress, *, opened: bool, needed: bool
) -> tuple[dict[Path, PixelDigest], str]:
    """Return the digest of every image that is not remembered, and of the data set; report what cannot be read.

    Images that are not `opened` have no digest, and that of the data set is of ids and attributes alone. Where no image
    is `needed`, one that cannot be read has the digest `NO_PIXELS`; else `answers.error_budget` says how many may fail.
    """
    from fp2.data.pixels import PixelDigest, PixelIndex, dataset_digest, paths_of
    from fp2.data.stimuli import NO_PIXELS

    if not opened:
        return {}, dataset_digest(people, dict.fromkeys(people["image_id"]))
    shown = everyone_shown(people)
    paths = paths_of(shown["image_path"])
    with progress.count_up("Reading the images", len(set(paths))) as read:
        pixels = PixelIndex(store.connection).digest_many(paths, read, verify=config.verify_inputs)
    bad = [(path, reading.error) for path, reading in pixels.items() if reading.sha256 is None]
    by_image = {i: pixels[path].sha256 for i, path in zip(people["image_id"], paths, strict=False)}
    if IMAGE_B in people:  # the second image enters the digest as a field of the item
        second = iter(paths[len(people) :])
        digests = [(pixels[next(second)].sha256 or "") if isinstance(file, str) else "" for file in people[IMAGE_B]]
        people = people.assign(**{FIELD_PREFIX + IMAGE_B: digests})
    digest = dataset_digest(people, by_image)
    if not needed and bad:
        progress.note(f"{plural(len(bad), 'image')} cannot be read here; none is needed: the answers are supplied")
        return {**pixels, **{path: PixelDigest(NO_PIXELS, 0, 0) for path, _ in bad}}, digest
    if 2 * len(bad) > len(pixels) and config.answers.error_budget < 1:
        path, error = bad[0]
        fix = f"{path}: {error}{_of_item(shown, paths, path)}. fp2 data verify lists all of them"
        raise Fp2Error(f"{len(bad)} of {len(pixels)} images cannot be read", where=f"data={config.data.name}", fix=fix)
    for path, error in bad[:3]:  # on the terminal only: no path is kept with a run
        progress.note(f"cannot be read: {path} ({error}){_of_item(shown, paths, path)}")
    if len(bad) > 3:
        progress.note(f"... and {len(bad) - 3} more images")
    return pixels, digest


def _of_item(shown: pd.DataFrame, paths: Sequence[Path], path: Path) -> str:
    """Return the first item that shows an image, where there are items."""
    return f", {item_name(shown, paths.index(path))}" if ITEM_ROW in shown else ""


def plan_answers(protocol: Asks[Any], inputs: Inputs) -> Plan:
    """Return the plan of every answer that a protocol needs; answers that exist already are matched to it."""
    assert inputs.battery is not None
    folder = Path(inputs.config.paths.data) / "shown"

    def shown(people: pd.DataFrame, variant: VariantConfig) -> list[Stimulus]:
        return show(people, variant, inputs.pixels, folder, inputs.progress)

    stimuli: Iterator[tuple[pd.DataFrame, str, list[Stimulus]]] = protocol.stimuli(inputs, shown)
    battery = inputs.battery
    plan = make_plan(stimuli, battery.asked, battery.fields, by_file=bool(battery.variants))
    if isinstance(inputs.engine, SuppliesAnswers):
        for note in inputs.engine.match(plan.tasks, plan.questions):
            inputs.progress.note(note)
        return plan
    model = inputs.config.model
    if (size := model.image_size) is None:
        return plan
    return replace(plan, tasks=with_image_size(plan.tasks, inputs.people, size, inputs.progress.note, model.resample))


def open_storage(protocol: Asks[Any], inputs: Inputs, plan: Plan, withdrawn: WithdrawnImages | None = None) -> Storage:
    """Return the storage of the planned answers: arrays where the protocol requires them, else a row per answer.

    `withdrawn`: the images that are withdrawn while it is used. With `answers.stop` it calls for answers in waves.
    """
    assert inputs.engine is not None
    assert inputs.battery is not None
    writing = (withdrawn or WithdrawnImages(Path(inputs.config.paths.state), inputs.people)).writing
    storage: Storage
    if protocol.requires.dense:
        from fp2.ask.storage import dense_storage

        storage = dense_storage().open(plan, inputs.engine, inputs.battery, inputs.store, writing)
    else:
        from fp2.ask.rows import RowStorage

        model = inputs.config.model.name
        storage = RowStorage(plan, inputs.engine, inputs.battery.decoding, inputs.store, writing, model)
    rule = inputs.config.answers.stop
    stopped: Storage = storage if rule is None else protocol.requires.stopping_rule(rule)(protocol, inputs, storage)
    return stopped


def check_machine(storage: Storage, inputs: Inputs) -> None:
    """Raise if anything is left to ask, and this machine lacks what the engine needs for it, such as a GPU."""
    if isinstance(inputs.engine, ChecksMachine):
        try:
            inputs.engine.check_machine()
        except Fp2Error:
            if storage.forecast().left:
                raise


def check_run_cost(storage: Storage, inputs: Inputs, cap: float) -> None:
    """Raise if what is left to ask, of the model and of scorers, is estimated to cost more than `cap`.

    The price of an answer has to be known, unless a scorer has one and the engine is not one that can have one.
    """
    from fp2.ask.cost import by_model, check_cost, expected_cost, expected_scorings
    from fp2.engines.build import engine_class

    assert inputs.engine is not None
    assert inputs.battery is not None
    forecast, price, costs = storage.forecast(), inputs.engine.profile().price, []
    if price is not None:
        battery = inputs.battery
        costs.append(expected_cost(forecast, inputs.engine, battery.questions, battery.decoding, price))
    elif (
        not any(scoring.price for scoring in by_model(inputs.scorers))
        or engine_class(asdict(inputs.config.engine)).priced
    ):
        fix = "Set engine.price_input and engine.price_output, which engine=openai_compat has"
        raise Fp2Error("the price of an answer is unknown", where="answers.max_cost", fix=fix)
    scorings = expected_scorings(storage, inputs.scorers, inputs.battery.decoding, forecast)
    costs += [scoring.cost for _, scoring in scorings if scoring.cost is not None]
    check_cost(costs, cap)
