"""Building engines by name or import path, with options that are checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fp2 import plugins
from fp2.compose import load_config
from fp2.config import choices
from fp2.engines.base import FORBID_EXTRA, BaseEngine, Engine, EngineOptions, ModelProfile, Positive
from fp2.engines.build import build_engine
from fp2.errors import Fp2Error
from fp2.runs.describe import describe_model
from fp2.tables import Answer, Decoding, ImageTask, Question

QUESTION = Question("q", "p", "Who?")
MODEL = {"name": "m", "engine": "echo", "id": "anything"}


@dataclass(frozen=True)
class EchoOptions:
    __pydantic_config__: ClassVar[Any] = FORBID_EXTRA

    repeat: Positive = 1


class Echo(BaseEngine):
    """An engine of somebody else's: it answers with the question."""

    Options: ClassVar[type[Any]] = EchoOptions
    serves: ClassVar[tuple[str, ...]] = ("hf",)
    needs: ClassVar[Mapping[str, str]] = {"id": "Give any"}

    def __init__(self, repeat: int, verify_files: bool) -> None:
        self.repeat, self.verify_files, self.model_calls = repeat, verify_files, 0

    @classmethod
    def create(
        cls, model: Any, options: Any, decoding: Any, *, connection: Any = None, verify_files: Any = False
    ) -> Any:
        return cls(options.repeat, verify_files)

    def identity(self) -> dict[str, Any]:
        return {"engine": "echo"}

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        return {"name": "echo/1"}

    def runtime(self) -> dict[str, Any]:
        return {}

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        for task in tasks:
            yield [Answer(task.image_id, q.question_id, q.text * self.repeat) for q in task.questions]


class Half(BaseEngine):
    """A class that makes something else than an engine."""

    @classmethod
    def create(cls, *given: Any, **memory: Any) -> Any:
        return cls()


class NotAnEngine:
    """A class without the members of an engine."""


def echo(**engine: Any) -> Engine:
    return build_engine(MODEL, {"name": "echo", "target": f"{__name__}:Echo", **engine}, Decoding())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`echo` as an entry point of another package."""
    points = {**plugins.installed(plugins.ENGINES), "echo": EntryPoint("echo", f"{__name__}:Echo", plugins.ENGINES)}
    monkeypatch.setattr(plugins, "installed", lambda group: points)


def test_an_engine_is_found_by_its_import_path() -> None:
    engine = echo(repeat=2)
    task = ImageTask("i", "s", Path("x"), "0" * 64, (QUESTION,))
    assert [answer.text for batch in engine.answer([task]) for answer in batch] == ["Who?Who?"]
    assert (engine.task_identity(task), engine.lacking(QUESTION), list(engine.notices)) == ({}, {}, [])
    assert engine.profile() == ModelProfile(None, None)


@pytest.mark.usefixtures("installed")
def test_an_engine_is_found_by_its_entry_point() -> None:
    engine = build_engine(MODEL, {"name": "echo", "repeat": 3}, Decoding(), verify_files=True)
    assert isinstance(engine, Echo)
    assert (engine.repeat, engine.verify_files) == (3, True)
    with pytest.raises(Fp2Error, match=r"unknown engine 'ecko' .*Did you mean 'echo'"):
        build_engine({"id": "x"}, {"name": "ecko"}, Decoding())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"repeat": 0}, r"greater than or equal to 1, not 0 \(engine.repeat\)"),
        ({"repeat": "many"}, r"valid integer.*not 'many' \(engine.repeat\)"),
        ({"repeet": 1}, r"unknown key 'repeet' \(engine\). Did you mean 'repeat'"),
        ({"devize": "cuda"}, r"unknown key 'devize' \(engine\)"),
        ({"target": f"{__name__}:Nobody"}, "has no 'Nobody'"),
        ({"target": "no_such_module:Echo"}, "cannot import 'no_such_module'"),
        (
            {"target": f"{__name__}:NotAnEngine"},
            "is not an engine: it lacks Options, serves, needs, takes, from_hub, priced, planted, "
            "create, family_sharing",
        ),
        ({"target": f"{__name__}:Half"}, "is not an engine: it lacks model_calls, identity, method, runtime, answer"),
    ],
)
def test_a_wrong_option_is_one_clear_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(Fp2Error, match=says) as caught:
        echo(**options)
    assert "\n" not in str(caught.value)


def test_a_key_that_is_not_set_is_not_passed_on() -> None:
    """The config has the keys of every engine; what is null or auto is left to the engine."""
    engine = echo(repeat=None, threads=None, device="auto", sharing="auto")
    assert isinstance(engine, Echo)
    assert engine.repeat == 1


def test_which_models_an_engine_runs() -> None:
    target = {"name": "echo", "target": f"{__name__}:Echo"}
    assert isinstance(build_engine({**MODEL, "engine": "hf"}, target, Decoding()), Echo)
    with pytest.raises(Fp2Error, match=r"for engine=planted, not engine=echo .*Set engine=planted"):
        build_engine({**MODEL, "engine": "planted"}, target, Decoding())
    with pytest.raises(Fp2Error, match=r"the model has no id \(model.id\). Give any"):
        build_engine({"engine": "echo"}, target, Decoding())


@pytest.mark.parametrize("name", sorted(plugins.installed(plugins.ENGINES)))
def test_the_yaml_of_an_engine_has_its_options_and_no_others(name: str) -> None:
    import yaml

    keys = set(yaml.safe_load(choices("engine")[name].read_text(encoding="utf-8"))) - {"name"}
    kind = plugins.load(plugins.ENGINES, name, "engine")
    assert keys | {"name", "target"} == {entry.name for entry in fields(kind.Options)}


def test_the_profile_of_a_checkpoint_is_read_without_loading_it(tiny_llava: Path) -> None:
    from safetensors.torch import load_file

    engine = build_engine({"id": str(tiny_llava)}, {"name": "hf"}, Decoding())
    weights = sum(path.stat().st_size for path in tiny_llava.glob("*.safetensors"))
    tensors = load_file(tiny_llava / "model.safetensors")
    parameters = sum(tensor.numel() for tensor in tensors.values())
    assert engine.profile() == ModelProfile("tree", weights, family="llava", parameters=parameters)
    assert "_session" not in vars(engine)
    assert build_engine({"engine": "planted"}, {"name": "planted"}, Decoding()).profile() == ModelProfile(
        without_effects=True
    )


class Simulator(Echo):
    """A simulator of somebody else's."""

    Options: ClassVar[type[Any]] = EngineOptions
    planted: ClassVar[bool] = True


class Unplanted(Simulator):
    """The same without planted effects."""

    planted: ClassVar[bool] = False


@pytest.mark.parametrize("kind", [Simulator, Unplanted])
def test_a_simulator_of_another_package_is_positive_control(kind: type[Simulator]) -> None:
    config = load_config(["model=planted", f"engine.target={__name__}:{kind.__name__}"])
    assert describe_model(config, kind(1, False))["embedded"] is kind.planted
