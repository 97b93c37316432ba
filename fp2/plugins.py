"""Extension points: a data set, an engine, a scorer or a protocol is a class that is found by its name or import path.

A name stands for an entry point of the groups below, ours and those of any installed package; an import path is written
`package.module:Name`. No list in the code enumerates them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, TypeVar, cast

from fp2.errors import Fp2Error, nearest

DATA, ENGINES, SCORERS, PROTOCOLS = "fp2.data", "fp2.engines", "fp2.scorers", "fp2.protocols"
FORMS = "fp2.forms"
"""Forms of files of supplied answers (`fp2.methods.recorded.form.Form`)."""
SUPPLEMENTS = "fp2.supplements"
"""Supplements of a comparison of groups (`fp2.protocols.fingerprint.supplements.SupplementEntry`), beside our own."""
GROUPS = (DATA, ENGINES, SCORERS, PROTOCOLS, FORMS, SUPPLEMENTS)
"""The groups of entry points that name a class or object; `fp2 list` shows them all."""
WORKERS = "fp2.workers"
"""What runs an engine in several processes, by the option that asks for it (`devices`, `ray`): a callable
`(engine, options, rebuild) -> engine` (see `fp2.engines.build`)."""
MODEL_CODE = "fp2.model_code"
"""What asks checkpoints through code of their own (`fp2.engines.hf.loading.CodeInterface`)."""
TABLES = "fp2.tables"
"""What reads further tables of a run, by the option of `analysis` that names their file (`fp2.ask.labels`)."""
PURGES = "fp2.purges"
"""What deletes files that a package has of a run elsewhere: a callable `(outputs, run_id, kept)`, where `kept` are the
salted keys of the images that stay."""
WITHDRAWAL = "fp2.withdrawal"
"""What others ask of the purge: `finish`, a callable `(config, progress) -> lines`, finishes those that were begun;
`absent`, `(config, people) -> counts`, counts what is stored of people whom a release lacks; `reissue`,
`(folder, config, withdrawn)`, issues a run again without people who were withdrawn, if its tables have any."""
PASSPORT = "fp2.passport"
"""What the passport states besides the results: a callable `(config, tables, results) -> mapping of keys`."""
VARIANTS = "fp2.variants"
"""Image variants by their kind (`fp2.data.stimuli.ChangeAll`), besides the controls."""
STOPPING = "fp2.stopping"
"""Rules by which a run asks no further (`answers.stop`), each a class as `fp2.methods.stopping.certain:Certain`."""
STORAGES = "fp2.storages"
"""Another way of storing answers than a row for each (`fp2.ask.storage.StorageKind`): `dense`."""
BATTERIES = "fp2.batteries"
"""Batteries whose questions are made from others (`fp2.probes.battery.BatteryKind`): `traits`."""
DECLARED_LOOKS = "fp2.looks"
"""`declared`: a callable `(analysis.looks) -> looks` (`fp2.protocols.fingerprint.settings.Looks`)."""
TERMS = "fp2.terms"
"""`published`: a callable `(path) -> fp2.scorers.lexicon.Lexicon`, which reads terms of published sets."""
SCORING = "fp2.scoring"
"""Scoring methods of servers (`fp2.engines.server.scoring.ScoringMethod`): `typed_decisions`, a mapping of names to the
methods in the order of preference, and `sampled`, a callable `(samples, decoding, precision)`."""
SHARING = "fp2.sharing"
"""What the prompts of an image share, by its name in `engine.sharing` (`tree`, `prefix`): a callable `(model, limits)`,
which returns a `fp2.engines.hf.scoring.Strategy`."""
SWEEPS = "fp2.sweeps"
"""What a sweep ends with: a callable `(folder, sweep_id, config)`, which prints where it wrote."""
COMPARISONS = "fp2.comparisons"
"""What compares runs, for the Python interface (`fp2.compare`): `runs`, `profile` and `distances`."""
COMMANDS = "fp2.commands"
"""Commands of `fp2`, each a `fp2.commands.arguments.CommandEntry`."""
CONF = "fp2.conf"
"""Packages with a folder of config groups (`model/`, `data/`, ...), which are found like our own."""

Options = TypeVar("Options")


@cache
def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; of two with one name, the first on the import path."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        points.setdefault(point.name, point)
    return points


Read = TypeVar("Read")


def read_installed(group: str, read: Callable[[str], Read]) -> dict[str, Read]:
    """Return what `read` returns for the name of every entry point of a group.

    One that cannot be read is skipped with a warning on standard error, so that a defect in one installed package does
    not affect runs that do not use it.
    """
    loaded = {}
    for name in installed(group):
        try:
            loaded[name] = read(name)
        except Exception as error:  # what another package raises on import is unknown
            _warn_once(f"the plug-in {name!r} ({group}) was skipped: {' '.join(str(error).split())}")
    return loaded


@cache
def _warn_once(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def load(group: str, name: str, where: str) -> Any:
    """Return the class (or factory) that `name` stands for.

    Parameters
    ----------
    group : str
        `fp2.data`, `fp2.engines`, `fp2.scorers`, `fp2.protocols` or `fp2.forms`.
    name : str
        The name of an entry point of the group, or `package.module:Name`.
    where : str
        The config key that the name was given in.

    Raises
    ------
    Fp2Error
        If the name is unknown, or what it stands for cannot be imported.
    """
    if ":" in name:
        return load_path(name, where)
    point = installed(group).get(name)
    if point is None:
        fix = f"{nearest(name, installed(group))}, or write package.module:Name"
        raise Fp2Error(f"unknown {group.removeprefix('fp2.').removesuffix('s')} {name!r}", where=where, fix=fix)
    return load_path(point.value, where)


def names_with(group: str, trait: str, value: object) -> list[str]:
    """Return the installed names of a group whose class has this value of an attribute (`requires.n_people`), sorted.

    A class that cannot be imported, or lacks the attribute, is left out.
    """
    names = []
    for name, point in sorted(installed(group).items()):
        try:
            plugin = load_path(point.value, group)
            if attrgetter(trait)(plugin) == value:
                names.append(name)
        except (Fp2Error, AttributeError):
            continue
    return names


def load_path(target: str, where: str) -> Any:
    """Return what the import path `package.module:Name` names.

    Raises
    ------
    Fp2Error
        If it is not one, or cannot be imported.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise Fp2Error(f"'{target}' is not an import path", where=where, fix="Write package.module:Name")
    try:
        module = import_module(module_name)
    except Exception as error:  # what another package raises on import is unknown
        message = error if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise Fp2Error(f"cannot import '{module_name}': {message}", where=where) from error
    if not hasattr(module, attribute):
        classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
        raise Fp2Error(f"'{module_name}' has no '{attribute}'", where=where, fix=nearest(attribute, classes))
    return getattr(module, attribute)


def check_members(value: object, members: Collection[str], what: str, where: str) -> None:
    """Raise unless `value` has every member of an interface.

    Raises
    ------
    Fp2Error
        Naming the members that it lacks.
    """
    # of the class first: a property may ask a server
    if missing := [member for member in members if not hasattr(type(value), member) and not hasattr(value, member)]:
        raise Fp2Error(f"{value!r} is not {what}: it lacks {', '.join(missing)}", where=where)


class Strict:
    """Marks an option (`typing.Annotated`) whose type is not converted, so that `true` is not the number 1.

    As `pydantic.Strict`, without the import. `words` say what is expected, in the place of the type's name.
    """

    def __init__(self, words: str = "") -> None:
        self.words = words

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the schema of the type that is marked, made strict."""
        schema = {**handler(source), "strict": True}
        if not self.words:
            return schema
        named = {"custom_error_type": "words", "custom_error_message": f"Input should be {self.words}"}
        return {"type": "custom-error", "schema": schema, **named}


@lru_cache(maxsize=256)
def checker(model: Hashable) -> Any:
    """Return pydantic's checker of a class, which takes longer to make than to use."""
    import pydantic

    return pydantic.TypeAdapter(cast(Any, model))


def read_options(model: type[Options], given: Mapping[str, object], where: str) -> Options:
    """Return `given` as an instance of the dataclass (or pydantic model) `model`, with types and ranges checked.

    A plain dataclass is checked like one of pydantic's that forbids extra keys.

    Raises
    ------
    Fp2Error
        Naming the first key that is unknown, missing or out of range; or if `given` is not a mapping.
    """
    import pydantic

    if not isinstance(given, Mapping):
        raise Fp2Error(f"{given!r} is not a mapping of options", where=where)
    field_names = [field.name for field in fields(model)] if is_dataclass(model) else list(given)
    if unknown := next((str(key) for key in given if str(key) not in field_names), None):
        raise Fp2Error(
            f"unknown key {unknown!r}", where=where, fix=nearest(unknown, field_names) if field_names else ""
        )
    try:
        return cast(Options, checker(cast("Hashable", model)).validate_python(dict(given)))
    except pydantic.ValidationError as error:
        raise as_user_error(error, where, model) from error


def own_options(
    model: type[Any], given: Mapping[str, object], family: Callable[[], Iterable[type[Any]]]
) -> dict[str, object]:
    """Return `given` without the options that only other classes of the family have.

    An experiment may set options for its own data set or engine beside another choice, and configs of version 0.3.0
    hold the options of every kind. What no class of the family has stays, to be refused by `read_options`.

    Parameters
    ----------
    model : type
        The dataclass of the chosen class's options.
    family : callable
        Returns the option classes of all that are installed; called only if `given` has keys that `model` lacks.
    """
    own_names = {field.name for field in fields(model)}
    if own_names >= set(given):
        return dict(given)
    other_names = {field.name for other in family() for field in fields(other)}
    return {name: value for name, value in given.items() if name in own_names or name not in other_names}


def as_user_error(error: Any, where: str, model: Any = None) -> Fp2Error:
    """Return the first error of a `pydantic.ValidationError` as one line."""
    errors = error.errors()
    first = errors[0]
    location = [str(part) for part in first["loc"]]
    of_value = [one for one in errors if one["loc"][:-1] == first["loc"][:-1] and one["input"] is first["input"]]
    if len(of_value) > 1:  # of a value that has none of several types, whose names end the locations
        location = location[:-1]
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        parameters = [] if model is None or len(location) > 1 else list(inspect.signature(model).parameters)
        fix = nearest(location[-1], parameters) if parameters else ""
        return Fp2Error(f"unknown key {location[-1]!r}", where=".".join([where, *location[:-1]]).strip("."), fix=fix)
    key = ".".join([where, *location]).strip(".")
    if first["type"] in ("missing", "missing_argument"):
        return Fp2Error(f"{location[-1]} is missing", where=key)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, Fp2Error):
        return cause
    value = repr(first["input"])
    value_shown = value if len(value) <= 80 else value[:77] + "..."
    stated = str(first["msg"]).removeprefix("Value error, ")
    if not stated.startswith(_SHOULD_BE):  # words of our own
        return Fp2Error(f"{stated}, not {value_shown}", where=key)
    of_value = [one for one in of_value if len(of_value) < 2 or one["type"] != "bool_type"]
    *allowed, last = dict.fromkeys(words for one in of_value for words in _allowed(one))
    choices = f"{', '.join(allowed)} or {last}" if allowed else last
    return Fp2Error(f"{value_shown} is not {choices}", where=key)


_SHOULD_BE = "Input should be "
_A_LIST = "a list, such as [a, b]"
_ALLOWED = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), _A_LIST),
    "string_type": "a text", "dict_type": "a mapping, such as {{a: 1}}",
    "greater_than_equal": "at least {ge:g}", "greater_than": "more than {gt:g}",
    "less_than_equal": "at most {le:g}", "less_than": "less than {lt:g}",
}  # fmt: skip
"""What is allowed, by the type of pydantic's error."""


def _allowed(error: Mapping[str, Any]) -> list[str]:
    """Return what one of pydantic's errors says would be allowed."""
    if error["type"] == "literal_error":
        return re.findall("'([^']*)'", error["ctx"]["expected"])
    words = _ALLOWED.get(error["type"], str(error["msg"]).removeprefix("Value error, ").removeprefix(_SHOULD_BE))
    return [words.format_map(error.get("ctx", {})) if error["type"] in _ALLOWED else words]
