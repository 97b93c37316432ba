"""Objects of the caller's in place of names: what stands for them in the config, and what the pipeline gets instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fp2.errors import Fp2Error
from fp2.scorers.base import AsksModel
from fp2.scorers.function import FunctionScorer

if TYPE_CHECKING:
    import pandas as pd

    from fp2.data.base import Dataset
    from fp2.engines.base import Engine
    from fp2.scorers.base import Scorer as ScorerObject
    from fp2.tables import Decoding

Scorer = FunctionScorer


@dataclass(frozen=True)
class FunctionModel:
    """A model that is a Python function.

    Attributes
    ----------
    function : callable
        Called as `function(image, question)` with a PIL image (None where a control variant shows none) and the text
        of a question; returns the text of the answer. An exception is a failed answer.
    name : str
        The model's name in results.
    version : str, optional
        Names what the function does. Stored answers are used again only under the same name and version; without a
        version they are used again in this process only, for the same function object.
    """

    function: Callable[[Any, str], str]
    name: str = "function"
    version: str | None = None


@dataclass(frozen=True)
class GivenModel:
    """A model object: the config groups `model` and `engine`, and how the engine is made for a battery's decoding."""

    model: Mapping[str, object]
    engine: Mapping[str, object]
    make: Callable[[Decoding], Engine]


def given_model(model: Any, name: str | None) -> GivenModel:
    """Return a model that was given as an object.

    Parameters
    ----------
    model : object
        A (model, processor) pair of transformers, an object with the members of `fp2.engines.base.Engine`, a
        `FunctionModel`, or a function `(image, question) -> answer`.
    name : str, optional
        Its name in results.

    Raises
    ------
    Fp2Error
        If it is none of these.
    """
    from fp2.engines.base import Engine
    from fp2.engines.given import NAME, FunctionEngine
    from fp2.engines.hf.loaded import LoadedEngine, is_pair

    options = {"name": NAME, "target": "fp2.engines.given:GivenEngine"}
    members = [member for member in vars(Engine) if not member.startswith("_")]
    make: Callable[[Decoding], Engine]
    dtype = version = None
    if is_pair(model):
        network, processor = model
        path = str(getattr(network, "name_or_path", "") or type(network).__name__)
        name = name or Path(path).name
        dtype = str(network.dtype).removeprefix("torch.")
        called = name

        def make(decoding: Decoding) -> Engine:
            return LoadedEngine(network, processor, called, decoding)

    elif all(hasattr(model, member) for member in members):
        name = name or str(getattr(model, "name", type(model).__name__))

        def make(decoding: Decoding) -> Engine:
            found: Engine = model
            return found

    elif isinstance(model, FunctionModel) or callable(model):
        function = model if isinstance(model, FunctionModel) else FunctionModel(model, _name_of(model))
        name, version = name or function.name, function.version
        engine = FunctionEngine(function.function, name, version)

        def make(decoding: Decoding) -> Engine:
            return engine

    else:
        fix = "Give a name, a (model, processor) pair, an engine, or a function(image, question)"
        raise Fp2Error(f"{type(model).__name__} is not a model", where="model", fix=fix)
    return GivenModel({"name": name, "engine": NAME, "dtype": dtype, "revision": version}, options, make)


def given_answers(
    answers: Any,
    model: object,
    name: str | None,
    model_config: Mapping[str, object],
    engine_config: Mapping[str, object],
) -> GivenModel:
    """Return answers that exist already as a model.

    Parameters
    ----------
    answers : str, Path or DataFrame
        A file, or a table with columns such as `image`, `question` and `text`.
    model : str
        The name of the model that gave them; `name` takes its place in results.
    model_config, engine_config : mapping
        The config groups `model` and `engine` of `model=recorded`, with the caller's overrides.

    Raises
    ------
    Fp2Error
        If `model` is no name, or `answers` are neither a file nor a table.
    """
    from fp2.engines.build import engine_class
    from fp2.hashing import digest
    from fp2.plugins import read_options

    if not isinstance(model, str):
        raise Fp2Error("answers are given, so nothing is asked", where="model", fix="Give the name of their model")
    is_table = hasattr(answers, "columns")
    if not is_table and not isinstance(answers, str | Path):
        fix = "Give a path or a DataFrame"
        raise Fp2Error(f"{type(answers).__name__} is not a file of answers", where="answers", fix=fix)
    if is_table:
        table = [[str(name) for name in answers.columns], [[*map(str, row)] for row in answers.itertuples(index=False)]]
        engine = {**engine_config, "content": f"sha256:{digest(table)}"}
    else:
        engine = {**engine_config, "answers": str(answers)}
    kind = engine_class({"name": "recorded"})
    options = read_options(kind.Options, engine, "engine")
    called = {**model_config, "name": name or model}

    def make(decoding: Decoding) -> Engine:
        supplied: Engine = kind(str(called.get("id") or called["name"]), options, answers if is_table else None)
        return supplied

    return GivenModel(called, engine, make)


def given_people(
    frame: pd.DataFrame, folder: Path, columns: Mapping[str, str] | None, image_root: Path | None, *, found: bool
) -> tuple[dict[str, object], Dataset]:
    """Return what stands for a DataFrame of people in the config group `data`, and the data set.

    `found` is whether any of the images must exist.
    """
    from fp2.data.frame import IMAGES, NAME, dataset_of

    dataset, content = dataset_of(frame, folder / IMAGES, columns, image_root, found=found)
    return {"name": NAME, "kind": None, "target": "fp2.data.frame:Frame", "content": content}, dataset


def split_scorers(scorers: object) -> tuple[list[str], dict[str, dict[str, object]], dict[str, ScorerObject]]:
    """Return the names among the scorers, what stands for the others in the config, and these others by name.

    Parameters
    ----------
    scorers : str, callable, scorer, or an iterable or mapping (name -> one) of these

    Raises
    ------
    Fp2Error
        If one is neither a name, a function nor a scorer, or two have one name.
    """
    names: list[str] = []
    specs: dict[str, dict[str, object]] = {}
    objects: dict[str, ScorerObject] = {}
    for key, scorer in _pairs(scorers):
        if isinstance(scorer, str):
            names.append(scorer)
            continue
        found = _scorer(key, scorer)
        if found.name in objects:
            raise Fp2Error(f"two scorers have the name {found.name!r}", where="scorers", fix="Give a mapping")
        objects[found.name] = found
        if isinstance(found, AsksModel):  # its options are all there is of it
            kind = type(found)
            specs[found.name] = {"target": f"{kind.__module__}:{kind.__qualname__}", **asdict(found)}
            continue
        specs[found.name] = {
            "target": "fp2.scorers.function:FunctionScorer",
            "version": found.version,
            "value_range": list(found.value_range),
            "smallest_effect": found.smallest_effect,
            "higher_is_better": found.higher_is_better,
            "yes_no": found.yes_no,
            **({"measures": found.measures} if isinstance(found, FunctionScorer) and found.measures else {}),
        }
    return names, specs, objects


def starts_with_object(scorers: object) -> bool:
    """Whether the first of the scorers is an object, not a name."""
    return not isinstance(next(iter(_pairs(scorers)), (None, ""))[1], str)


def _pairs(scorers: object) -> Iterable[tuple[str | None, object]]:
    if isinstance(scorers, Mapping):
        return scorers.items()
    if isinstance(scorers, str) or not isinstance(scorers, Iterable):
        return [(None, scorers)]
    return [(None, scorer) for scorer in scorers]


def _scorer(name: str | None, value: object) -> ScorerObject:
    """Return a scorer, or a function as one."""
    from fp2.plugins import check_members
    from fp2.scorers.registry import MEMBERS

    if isinstance(value, FunctionScorer | AsksModel):
        return cast("ScorerObject", replace(value, name=name) if name else value)
    if callable(value) and not hasattr(value, "score"):
        return FunctionScorer(name=name or _name_of(value), function=value)
    check_members(value, MEMBERS, "a scorer", "scorers")
    return cast("ScorerObject", value)


def _name_of(function: object) -> str:
    """Return a function's name, in the characters of a config key."""
    name = str(getattr(function, "__name__", type(function).__name__))
    return "function" if name == "<lambda>" else name
