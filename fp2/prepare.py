"""What is known before anything is asked: who is in the pictures, what is asked, how groups are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.progress import Progress
from fp2.tables import ORIGINAL

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.data.dataset import Dataset
    from fp2.data.pixels import PixelDigest
    from fp2.data.stimuli import Stimulus
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.protocols.fingerprint import Comparison
    from fp2.respond import Plan
    from fp2.scorers.base import Scorer
    from fp2.store.responses import ResponseStore


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before anything is asked."""

    config: Config
    dataset: Dataset
    battery: Battery
    cuts: tuple[Cut, ...]
    scorers: Mapping[str, Scorer]
    engine: Engine
    plan: Plan
    dataset_digest: str

    @property
    def people(self) -> pd.DataFrame:
        """The people that are asked about."""
        return self.dataset.people


def load_people(config: Config, progress: Progress) -> Dataset:
    """Load the data set, keep the pictures of as many people as are asked about, and choose or sample among them.

    Of a data set with counterfactual sets only those stay that vary in one of the cuts: the run is about them alone.
    """
    from fp2.cuts import resolve_cuts
    from fp2.data.load import load_configured
    from fp2.data.pairs import two_person
    from fp2.data.sampling import limit_people, pick_images, read_ids, single_person
    from fp2.data.sets import of_sets, units, whole_sets
    from fp2.tables import attribute_columns

    dataset = load_configured(config, progress)
    people, notes = (two_person if config.probe.people == 2 else single_person)(dataset.people)
    if config.data.ids is not None:
        people = pick_images(people, read_ids(config.data.ids))
    if of_sets(people):
        _check_sets(config)
        people, more = whole_sets(people, resolve_cuts(asdict(config.cut), attribute_columns(people)))
        notes = (*notes, *more)
    if config.data.limit is not None or config.data.offset:
        whole = people.assign(subject_id=units(people)) if of_sets(people) else people
        taken, more = limit_people(
            whole, config.data.limit, seed=config.data.seed, by=config.data.stratify, offset=config.data.offset
        )
        people = people[people["image_id"].isin(taken["image_id"])].reset_index(drop=True)
        notes = (*notes, *more)
    if people.empty:
        what = "two-person picture with a box for each" if config.probe.people == 2 else "single-person picture"
        raise Fp2Error(f"the data set has no {what}", where=f"data={config.data.name}")
    return replace(dataset, people=people, notes=(*dataset.notes, *notes))


def _check_sets(config: Config) -> None:
    """Refuse counterfactual sets where answers are compared as a population, or nobody compares them."""
    if config.probe.people == 2 or config.probe.protocol != "fingerprint":
        raise Fp2Error(
            f"counterfactual sets are compared within the set, which probe={config.probe.name} cannot do",
            where=f"data={config.data.name}",
            fix="Use probe=fingerprint, or leave set_id out of data.columns",
        )


@dataclass(frozen=True)
class Scene:
    """Who is in which pictures, how they are grouped, and who is asked; nothing is planned yet."""

    dataset: Dataset
    cuts: tuple[Cut, ...]
    engine: Engine
    pixels: Mapping[Path, PixelDigest]
    dataset_digest: str


def prepare(config: Config, store: ResponseStore, progress: Progress) -> Prepared:
    """Load people, battery, cuts and scorers, and plan the answers. No model is loaded.

    Raises
    ------
    Fp2Error
        For every mistake in the config or the data that can be seen without asking.
    """
    from fp2.probes.battery import load_battery
    from fp2.scorers.registry import build_scorers

    battery = load_battery(asdict(config.probe))
    if battery.protocol == "fhibe_clip":
        from fp2.protocols.fhibe.clip import check

        check(battery)
    scorers = build_scorers(config.scorer) if config.scorer or battery.protocol != "fhibe_clip" else {}
    check_people(battery, scorers, config)
    scene = look(config, battery, store, progress)
    plan = _plan(config, scene.dataset.people, battery, scene.engine, scene.pixels, progress)
    return Prepared(
        config, scene.dataset, battery, scene.cuts, scorers, scene.engine, plan, scene.dataset_digest
    )  # fmt: skip


def look(config: Config, battery: Battery, store: ResponseStore, progress: Progress) -> Scene:
    """Build the engine, load the people and their cuts, and read the pictures that are not remembered.

    Raises
    ------
    Fp2Error
        As `prepare`.
    """
    from fp2.cuts import resolve_cuts
    from fp2.data.identity import dataset_digest
    from fp2.data.pixels import PixelIndex
    from fp2.engines.build import build_engine
    from fp2.tables import attribute_columns

    engine = build_engine(
        asdict(config.model), asdict(config.engine), battery.decoding, store, verify_files=config.verify_inputs
    )
    engine.identity()
    dataset = load_people(config, progress)
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(dataset.people))
    paths = [Path(path) for path in dataset.people["image_path"]]
    with progress.count_up("Reading the pictures", len(set(paths))) as read:
        pixels = PixelIndex(store.connection).digest_many(paths, read, verify=config.verify_inputs)
    _tell_unreadable(pixels, progress)
    for line in engine.notices:
        progress.note(line)
    by_image = {i: pixels[Path(p)].sha256 for i, p in zip(dataset.people["image_id"], paths, strict=True)}
    return Scene(dataset, cuts, engine, pixels, dataset_digest(dataset.people, by_image))


def check_people(battery: Battery, scorers: Mapping[str, Scorer], config: Config) -> None:
    """Refuse scorers of one person for a battery about two and the other way round, and what two cannot be shown as."""
    for name, scorer in scorers.items():
        if getattr(scorer, "of_two", False) != (battery.people == 2):
            fitting = "scorer=attention" if battery.people == 2 else "scorer=default"
            which = "one person" if battery.people == 2 else "two people"
            raise Fp2Error(f"the scorer '{name}' is about {which}", where=f"probe={battery.name}", fix=f"Use {fitting}")
    if battery.people == 2 and config.variant.kind != "original":
        fix = "Leave it out"
        raise Fp2Error("pictures of two people are shown as they are, and mirrored", where="variant", fix=fix)
    if battery.people == 2 and config.engine.name == "planted":
        raise Fp2Error("the simulator knows no pictures of two people", where="model", fix="Use model=peeps_vlm")


def _plan(
    config: Config, people: pd.DataFrame, battery: Battery, engine: Engine, pixels: Mapping[Path, PixelDigest],
    progress: Progress,
) -> Plan:  # fmt: skip
    """Plan every question about every picture; a picture of two people is asked about once, and once mirrored."""
    from fp2.data.pairs import one_row_each
    from fp2.data.stimuli import mirrored
    from fp2.respond import joined, make_plan
    from fp2.tables import MIRRORED

    if battery.variants:
        return _plan_variants(config, people, battery, engine, pixels, progress)
    rows = one_row_each(people) if battery.people == 2 else people
    shown = show(config, rows, pixels, progress)
    plan = make_plan(rows, battery.questions, engine, battery.decoding, shown, config.variant.kind)
    if battery.people == 1:
        return plan
    turned = [mirrored(picture) for picture in shown]
    return joined(plan, make_plan(rows, battery.questions, engine, battery.decoding, turned, MIRRORED))


def _plan_variants(
    config: Config, people: pd.DataFrame, battery: Battery, engine: Engine, pixels: Mapping[Path, PixelDigest],
    progress: Progress,
) -> Plan:  # fmt: skip
    """Plan every question about every picture in each of the battery's ways to show it, one picture after the other."""
    from fp2.config import variants_of
    from fp2.data.stimuli import beside
    from fp2.respond import joined, make_plan, one_file_at_a_time

    plans = []
    for variant in variants_of(config.probe):
        shown = show(replace(config, variant=variant), people, pixels, progress)
        shown = shown if variant.kind == ORIGINAL else [beside(picture) for picture in shown]
        plans.append(make_plan(people, battery.questions, engine, battery.decoding, shown, variant.kind))
    return one_file_at_a_time(reduce(joined, plans))


def _tell_unreadable(pixels: Mapping[Path, PixelDigest], progress: Progress) -> None:
    """Name the first pictures that cannot be read, here only: no path is kept with a run."""
    bad = [(path, found.error) for path, found in pixels.items() if found.sha256 is None]
    for path, error in bad[:3]:
        progress.note(f"cannot be read: {path} ({error})")
    if len(bad) > 3:
        progress.note(f"... and {len(bad) - 3} pictures more")


def show(
    config: Config, people: pd.DataFrame, pixels: Mapping[Path, PixelDigest], progress: Progress
) -> list[Stimulus]:
    """Return what is shown for each row of `people`; count the pictures of which the data do not allow the variant."""
    from fp2.data.stimuli import shown_pictures
    from fp2.tables import BY_REGION

    folder = Path(config.paths.data) / "shown"
    if config.variant.kind not in BY_REGION:
        return shown_pictures(people, config.variant, pixels, folder)
    with progress.count_up("Finding the person in them", len(people)) as found:
        shown = shown_pictures(people, config.variant, pixels, folder, found)
    reasons = Counter(picture.error for picture in shown if picture.error and picture.variant == config.variant.kind)
    for reason, count in reasons.most_common(3):
        progress.note(f"{count} picture(s) cannot be shown as {config.variant.name}: {reason}")
    return shown


def _primary(config: Config) -> str:
    """Return the scorer that composites are of: without the one that is named, the first about two people."""
    if config.probe.people == 1 or config.analysis.primary in config.scorer:
        return config.analysis.primary
    return str(next(iter(config.scorer)))


def comparison_of(config: Config, n_probes: int, n_cuts: int, of_sets: bool = False) -> Comparison:
    """Return the comparison's settings; the number of permutations follows the size of the largest family.

    of_sets: counterfactual sets are compared. Those keep Holm in a large family too: outcomes of which other sets are
    known share no permutations.
    """
    from fp2.protocols.fingerprint import STEP_DOWN, Comparison
    from fp2.stats import default_permutations
    from fp2.stats.stepdown import LARGE_FAMILY

    analysis = config.analysis
    family = n_probes * n_cuts * (len(config.scorer) if analysis.family == "run" else 1)
    # Holm needs permutations in proportion to the family
    large = analysis.correction == "holm" and family > LARGE_FAMILY and not of_sets
    return Comparison(
        alpha=analysis.alpha,
        correction=STEP_DOWN if large else analysis.correction,
        family=analysis.family,
        primary=_primary(config),
        min_subjects=analysis.min_subjects,
        n_permutations=analysis.permutations or default_permutations(1 if large else family, analysis.alpha),
        n_bootstrap=analysis.bootstrap,
        seed=config.seed,
    )
