"""Which protocol fits a battery and people, and what it refuses: all that follows from its `Requirements`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from fp2.config import ANALYSIS_OPTIONS
from fp2.engines.base import SuppliesAnswers
from fp2.errors import Fp2Error
from fp2.plugins import PROTOCOLS, SCORERS, load, names_with
from fp2.protocols.base import Asks, Protocol
from fp2.scorers.base import ReadsAnswers
from fp2.tables import BLIND, ORIGINAL, SWAPPED

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.scorers.base import Scorer

Fitting = TypeVar("Fitting", bound=Protocol)


def for_battery(protocol: Fitting, battery: Battery) -> Fitting:
    """Return the protocol that fits the battery: this one, or the special case for its number of people."""
    if battery.people == protocol.requires.n_people:
        return protocol
    return _special_case(protocol, names_with(PROTOCOLS, "requires.n_people", battery.people))


def for_people(protocol: Fitting, people: pd.DataFrame) -> Fitting:
    """Return the protocol that fits the people table: this one, or the special case for counterfactual sets."""
    from fp2.cuts import of_sets

    if protocol.requires.within_sets or not of_sets(people):
        return protocol
    return _special_case(protocol, names_with(PROTOCOLS, "requires.within_sets", True))


def _special_case(protocol: Fitting, fitting: list[str]) -> Fitting:
    """Return the first installed special case of the protocol among the names `fitting`; else the protocol."""
    fits = [special for special in special_cases(protocol) if special.name in fitting]
    return fits[0] if fits else protocol


def special_cases(protocol: Fitting) -> list[Fitting]:
    """Return the installed special cases of a protocol, with its options, by name."""
    names = names_with(PROTOCOLS, "requires.special_case_of", protocol.name)
    return [load(PROTOCOLS, name, "probe.protocol")(protocol.options) for name in names]


def check_settings(protocol: Protocol, config: Config, battery: Battery | None) -> None:
    """Raise for settings that the protocol does not take, before any data are loaded; also of a logged run."""
    requires = protocol.requires
    if battery is not None and isinstance(protocol, Asks):
        if battery.people != requires.n_people:
            names = names_with(PROTOCOLS, "requires.n_people", battery.people)
            fitting = [name for name in names if issubclass(load(PROTOCOLS, name, ""), Asks)]
            problem = f"protocol {protocol.name!r} is for images of {_people(requires.n_people)}"
            raise Fp2Error(problem, where=f"battery '{battery.name}'", fix=f"Choose from: {', '.join(fitting)}")
        if battery.variants and not requires.several_variants:
            problem = f"protocol {protocol.name!r} shows every image in one variant"
            raise Fp2Error(problem, where="probe.variants", fix="Omit it, and sweep over variant=")
        if battery.variants and config.variant.kind != ORIGINAL:
            raise Fp2Error("the battery has image variants of its own", where="variant", fix="Omit it")
        if battery.fields and requires.dense:
            problem = f"protocol {protocol.name!r} asks the same questions about every image"
            raise Fp2Error(problem, where="probe.fields", fix="Omit it, or use probe.protocol=fingerprint")
        if battery.decoding.samples > 1 and not requires.takes_samples:
            problem = f"protocol {protocol.name!r} analyses one answer to each question"
            raise Fp2Error(problem, where="probe.decoding.samples", fix="Set it to 1")
        protocol.check_battery(battery, config)
    if config.answers.stop is not None:
        requires.stopping_rule(config.answers.stop)
    options = [name for name in ANALYSIS_OPTIONS if getattr(config.analysis, name)]
    for where in (f"analysis.{name}" for name in options if name not in requires.takes_analysis):
        problem = f"protocol {protocol.name!r} does not take it"
        raise Fp2Error(problem, where=where, fix="Omit it, or use probe=fingerprint")


def check_scorers(battery: Battery, scorers: Mapping[str, Scorer]) -> None:
    """Raise for scorers that cannot score the battery's answers."""
    for name, scorer in scorers.items():
        if scorer.n_people != battery.people:
            fix = f"Choose from: {', '.join(names_with(SCORERS, 'n_people', battery.people))}"
            problem = f"the scorer '{name}' is for images of {_people(scorer.n_people)}"
            raise Fp2Error(problem, where=f"probe={battery.name}", fix=fix)
        if isinstance(scorer, ReadsAnswers):
            scorer.check_battery(battery)


def check_second_images(config: Config, battery: Battery | None, engine: Engine | None) -> None:
    """Raise for items with a second image where nothing is asked, or an engine or a variant takes one image only."""
    where, without = f"data={config.data.name}", "Leave image_b out of data.columns"
    if battery is None or battery.people > 1:
        asked = f"task={config.task.name}" if battery is None else f"battery '{battery.name}'"
        raise Fp2Error(f"the items have a second image, which {asked} does not take", where=where, fix=without)
    kinds = [str(variant["kind"]) for variant in battery.variants] or [config.variant.kind]
    if changed := next((kind for kind in kinds if kind not in (ORIGINAL, BLIND, SWAPPED)), None):
        fix = f"Show the images as they are. {without}"
        raise Fp2Error(f"variant {changed!r} is of one image, and the items have a second", where=where, fix=fix)
    if engine is None or isinstance(engine, SuppliesAnswers):
        return
    most_images = getattr(engine, "most_images", lambda question: 1)  # of an engine that `ShowsSeveralImages`
    if one := next((question for question in battery.questions if most_images(question) < 2), None):
        model, question = f"model={config.model.name}", f"question '{one.question_id}'"
        raise Fp2Error(f"{model} takes one image in {question}, and the items have two", where=where, fix=without)


def check_people(protocol: Protocol, config: Config, *, of_sets: bool) -> None:
    """Raise for counterfactual sets (`of_sets`) in a protocol that compares populations, and for a population in one
    that compares sets.
    """
    if of_sets == protocol.requires.within_sets:
        return
    if protocol.requires.within_sets:
        setting = f"protocol {protocol.name!r} compares counterfactual sets, and the data have none"
        raise Fp2Error(setting, where=f"data={config.data.name}", fix="Name their column: data.columns.set_id=COLUMN")
    names = names_with(PROTOCOLS, "requires.within_sets", True)
    fitting = sorted({*names, *(load(PROTOCOLS, name, "").requires.special_case_of or name for name in names)})
    setting = f"probe={config.probe.name}" if isinstance(protocol, Asks) else f"task={config.task.name}"
    raise Fp2Error(
        f"counterfactual sets are compared within the set, which {setting} cannot do",
        where=f"data={config.data.name}",
        fix=f"Use a battery with probe.protocol={' or '.join(fitting)}, or leave set_id out of data.columns",
    )


def _people(n: int) -> str:
    return "one person" if n == 1 else "two people"
