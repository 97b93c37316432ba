"""The interface of an engine: it is given images with questions about each, and returns answers.

An engine knows nothing of groups, scores or statistics. It yields answers in batches as they are computed, so that
each batch is stored at once; an error about one image becomes the error of that image's answers and never ends a run.

To add an engine, write a class with the members of `Engine` and `EngineFactory` (a subclass of `BaseEngine` has the
defaults), and name it in a YAML file (`target: package.module:Name`) or by an entry point of the group `fp2.engines`.
Its module must import neither torch nor transformers: a run whose answers are all in the store loads neither.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import math
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypedDict, TypeVar, runtime_checkable

from annotated_types import Ge, Gt

from fp2.hashing import digest
from fp2.notes import NoteKind, Stage
from fp2.tables import SECOND, Answer, ChoiceOrders, Decoding, ImageTask, Question

if TYPE_CHECKING:
    import sqlite3

    from PIL import Image

Positive = Annotated[int, Ge(1)]
Seconds = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
FORBID_EXTRA = {"extra": "forbid"}
"""The `__pydantic_config__` of options: an unknown key is an error."""
NEVER, SOMETIMES = "never", "sometimes"
TOKENS_A_WORD = 4 / 3
TEMPLATE_TOKENS = 20
"""Of a chat template around a question."""
IMAGE_TOKENS = 1000
"""Of an image, which every server counts in its own way: an assumption, stated wherever a cost is."""
ABSENT = "not installed"
"""The version of a package that is missing. No answer is stored under it: loading the model reports what is missing."""
ESTIMATED = NoteKind(
    "estimated_from_samples",
    Stage.QUESTIONS,
    lambda samples, of, precision=None: (
        f"Probabilities are shares of {'at most ' * bool(precision)}{samples} sampled answers each"
        f"{f', a standard error of about {precision:g}' if precision else ''}, not read from the model"
        if of == "answers"
        else f"Probabilities are means over {samples} sampled reasonings each"
    ),
)
"""What an engine states if its probabilities are estimates: `samples` of each, `of` answers or reasonings.

`precision` is the standard error that decides the number of answers, which is at most `samples` then.
"""
STANDARD_ERROR = "standard_error"
"""Key of the numbers of a yes/no answer whose P(Yes) is estimated from samples."""
BLANKS = "\u0120\u2581\u010a\u0109 "
"""How vocabularies write a blank, a line break or a tab before a word."""


@dataclass(frozen=True)
class Price:
    """What a server asks for a million tokens in and out, in one currency."""

    input: float
    output: float


class OverspentError(Exception):
    """Raised by `Engine.answer` before more is asked than the run may cost; what it has given is kept."""


@dataclass(frozen=True)
class ModelProfile:
    """What is known about a model without loading it, for `fp2 plan` and reports.

    Attributes
    ----------
    sharing : str, optional
        What the questions about one image will share: `tree`, `vision`, `none`, or `auto` where a check at loading
        decides; None where the engine cannot say.
    weight_bytes : int, optional
        Size of the weights on this disk; None where they are not here.
    price : Price, optional
        What its answers cost, where that is known.
    family : str, optional
        The architecture: `model_type` in the checkpoint's `config.json`.
    parameters : int, optional
        Number of weights; None where they are not here, or in files that have to be loaded to be counted.
    rate : float, optional
        Answers a second, where the user states it.
    without_effects : bool
        Whether the answers are simulated without planted effects: such a run is no positive control.
    """

    sharing: str | None = None
    weight_bytes: int | None = None
    price: Price | None = None
    family: str | None = None
    parameters: int | None = None
    rate: float | None = None
    without_effects: bool = False


class Engine(Protocol):
    """The software that runs a model. The model is loaded at the first `answer`."""

    @property
    def model_calls(self) -> int:
        """Forward passes, generate calls or requests sent so far."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What the user should know before anything is asked, then what happened since; for the terminal only."""
        ...

    @property
    def limitations(self) -> Sequence[str]:
        """What a reader of the results has to know of the engine."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return everything about the model that can change an answer (JSON values); part of the response key."""
        ...

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how a question of this kind is asked and read; part of the response key.

        Parameters
        ----------
        question : Question
            Of the kind `text`, `yes_no`, `choice` or `number`.
        blind : bool
            Whether no image is shown.

        Returns
        -------
        dict
            JSON values: `name` with a version, the format of the prompt, the surface forms that are read.

        Raises
        ------
        Fp2Error
            If this engine cannot ask this kind of question.
        """
        ...

    def task_identity(self, task: ImageTask) -> Mapping[str, object]:
        """Return what else about one image can change an answer, beyond its pixels; part of the response key.

        Parameters
        ----------
        task : ImageTask
            The image and the questions about it.

        Returns
        -------
        dict
            JSON values.
        """
        ...

    def lacking(self, question: Question) -> Mapping[str, str]:
        """Return which numbers of an answer are not always given.

        Parameters
        ----------
        question : Question

        Returns
        -------
        mapping
            Name of a number (`Answer.numbers`) -> `NEVER` or `SOMETIMES`; the others are always given.
        """
        ...

    def profile(self) -> ModelProfile:
        """Return what is known about the model before it is loaded."""
        ...

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded but not hashed: device, batch size, attention, sharing, versions."""
        ...

    def learn(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Take stored answers before others are asked for; no answer may depend on them.

        Parameters
        ----------
        texts : mapping
            Question id -> texts that were answered before.
        """
        ...

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers in batches, in any order: every question of every task exactly once.

        Parameters
        ----------
        tasks : iterable of ImageTask
            An image each, with its questions; taken as the engine needs them.

        Yields
        ------
        list of Answer
            A batch, which is stored at once. An error about one image is the `error` of its answers; an exception ends
            the run.
        """
        ...


@runtime_checkable
class AsksServers(Protocol):
    """What an engine has besides the members of `Engine` if servers answer."""

    def serving(self) -> Mapping[str, object]:
        """Return what became of the requests, for the results (JSON values, no addresses); empty without any."""
        ...


@runtime_checkable
class HasPrice(Protocol):
    """What an engine has besides the members of `Engine` if its answers have a price."""

    def spend_at_most(self, cost: float | None) -> None:
        """Set the most that further answers may cost (None: any): `answer` raises OverspentError before it is more."""
        ...


@runtime_checkable
class ChecksMachine(Protocol):
    """What an engine has besides the members of `Engine` if it needs a device or a model that may not be there."""

    def check_machine(self) -> None:
        """Raise Fp2Error if this machine, or the server, lacks what the options name; nothing is loaded."""
        ...


class ShowsSeveralImages(Protocol):
    """What an engine has besides the members of `Engine` if a prompt may have two images (`open_images`)."""

    def most_images(self, question: Question) -> int:
        """Return how many images a prompt with this question can have."""
        ...


@runtime_checkable
class SuppliesAnswers(Protocol):
    """What an engine has besides the members of `Engine` if its answers exist already and no model is asked.

    Images need not be there then. An answer that it lacks has the error `fp2.tables.NOT_SUPPLIED`, which is no failure.
    """

    def read(self, tick: Callable[[int, int], None]) -> None:
        """Read the answers; `tick` is called with (done, total)."""
        ...

    def match(self, tasks: Sequence[ImageTask], questions: Sequence[Question]) -> Sequence[str]:
        """Find the answers to what is planned, before `answer` is called; return lines for the terminal.

        Raises
        ------
        Fp2Error
            If none belongs to it.
        """
        ...

    def provenance(self) -> Mapping[str, object]:
        """Return where the answers come from (JSON values, no paths): at least `digest`."""
        ...


class Remembered(TypedDict, total=False):
    """What an engine is given to remember things between runs: see `EngineFactory.create`."""

    connection: sqlite3.Connection | None
    verify_files: bool


class EngineFactory(Protocol):
    """What the class of an engine has, so that `build_engine` can make one from a config.

    Attributes
    ----------
    Options : type
        A dataclass that derives from `EngineOptions`: the keys of the config group `engine` that this engine has, with
        their types and ranges.
    serves : tuple of str
        Values of `model.engine`, beside its own name, whose models it can run.
    needs : Mapping
        Keys of the config group `model` that must be given, each with how to give it.
    takes : tuple of str
        Settings of a model that it follows, of those that not every engine can (`fp2.engines.build.OPTIONAL`).
    from_hub : bool
        Whether `model.id` may be a repository of the Hugging Face hub, at the commit `model.revision`.
    priced : bool
        Whether its options can name the price of an answer.
    planted : bool
        Whether the answers have known effects that were planted on purpose: such a run is a positive control.
    """

    Options: ClassVar[type[EngineOptions]]
    serves: ClassVar[tuple[str, ...]]
    needs: ClassVar[Mapping[str, str]]
    takes: ClassVar[tuple[str, ...]]
    from_hub: ClassVar[bool]
    priced: ClassVar[bool]
    planted: ClassVar[bool]

    @classmethod
    def family_sharing(cls, family: str) -> str | None:
        """Return the prefix sharing of a family of models that is not here, if known."""
        ...

    @classmethod
    def create(
        cls,
        model: Mapping[str, object],
        options: Any,
        decoding: Decoding,
        *,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> Engine:
        """Return an engine; nothing is loaded. (Our classes pass the keyword arguments on as `**memory`.)

        Parameters
        ----------
        model : Mapping
            The config group `model`.
        options : Options
            The checked config group `engine`.
        decoding : Decoding
            How text is generated.
        connection : sqlite3.Connection, optional
            An open database for what the engine remembers between runs.
        verify_files : bool
            Do not trust what is remembered of the model's files (`--verify-inputs`).

        Raises
        ------
        Fp2Error
            If a setting of the model is unknown, out of range or not supported.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """The options that every engine has; an engine's own derive from it.

    Attributes
    ----------
    name : str
        The entry point of the group `fp2.engines`, and the engine's name in results.
    target : str, optional
        The import path `package.module:Name` of the class, in place of the entry point.
    """

    name: str = ""
    target: str | None = None

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID_EXTRA

    def summary(self) -> dict[str, str]:
        """Return what `fp2 plan` shows of how the engine will ask, by label; nothing unless an engine says more."""
        return {}

    def identity(self) -> dict[str, Any]:
        """Return what of the options decides a result, for the config hash: nothing, since an engine computes."""
        return {}


class BaseEngine:
    """The defaults of an engine: no options, no notices, and answers that depend on the pixels alone."""

    Options: ClassVar[type[EngineOptions]] = EngineOptions
    serves: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[Mapping[str, str]] = {}
    takes: ClassVar[tuple[str, ...]] = ()
    from_hub: ClassVar[bool] = False
    priced: ClassVar[bool] = False
    planted: ClassVar[bool] = False

    @classmethod
    def family_sharing(cls, family: str) -> str | None:
        """Return that nothing is known."""
        return None

    @property
    def notices(self) -> Sequence[str]:
        """Nothing to report."""
        return ()

    @property
    def limitations(self) -> Sequence[str]:
        """Nothing to report."""
        return ()

    def task_identity(self, task: ImageTask) -> Mapping[str, object]:
        """Return nothing: the answers depend on the pixels alone."""
        return {}

    def lacking(self, question: Question) -> Mapping[str, str]:
        """Return nothing: every number is always there."""
        return {}

    def profile(self) -> ModelProfile:
        """Return that nothing is known."""
        return ModelProfile()

    def learn(self, texts: Mapping[str, Sequence[str]]) -> None:
        """Do nothing: stored answers are of no use here."""


def remote_code(identity: Mapping[str, object]) -> str | None:
    """Return whose code runs beside the harness, `model@revision` or `model@sha256:digest`; None where none does.

    `identity` is that of an engine.
    """
    if "code" not in identity:
        return None
    return f"{identity['model']}@{identity.get('revision') or 'sha256:' + str(identity.get('weights'))}"


def failed(task: ImageTask, question: Question, reason: str) -> Answer:
    """Return a failed answer, with the first line of the reason."""
    first = next(iter(reason.splitlines()), reason)
    return Answer(task.image_id, question.question_id, None, first[:500])


def seed_of(decoding: Decoding, task: ImageTask, question: Question) -> int:
    """Return a seed (60 bits) that depends only on the question, its sample, the image shown and the run's seed."""
    stimulus_facts = [task.pixel_sha256, task.variant, dict(task.variant_params)]
    repeated = [question.sample] if question.sample else []  # the first sample has the seed of a single one
    return int(digest([decoding.seed, *stimulus_facts, question.text, *repeated])[:15], 16)


def yes_no_numbers(
    yes: float, no: float, first: tuple[float | None, float | None] = (None, None)
) -> dict[str, float | None]:
    """Return the numbers of a yes/no answer (`Answer.numbers`) that follow from P(Yes) and P(No), which are not both 0.

    `first` are the probabilities of the single spellings. The difference of logits is None where one of both is 0.
    """
    return {
        "p_yes": yes,
        "p_no": no,
        "p_yes_first_token": first[0],
        "p_no_first_token": first[1],
        "p_yes_norm": yes / (yes + no),
        "mass": min(1.0, yes + no),
        "logit_difference": math.log(yes) - math.log(no) if yes > 0 and no > 0 else None,
    }


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean of independent samples; None of a single one."""
    from statistics import variance

    return math.sqrt(variance(values) / len(values)) if len(values) > 1 else None


def option_orders(question: Question, orders: ChoiceOrders) -> list[tuple[int, ...]]:
    """Return the orders in which the options of a question are listed (see `Decoding`)."""
    indices = tuple(range(len(question.choices)))
    if orders == "given":
        return [indices]
    if isinstance(orders, int):
        drawn = [digest([orders, question.text, choice]) for choice in question.choices]
        return [tuple(sorted(indices, key=drawn.__getitem__))]
    if orders == "all":
        return list(itertools.permutations(indices))
    return [(*indices[start:], *indices[:start]) for start in indices]


def open_image(task: ImageTask) -> Image.Image:
    """Return the image of a task in its variant.

    Raises
    ------
    ValueError
        If its pixels are not those that were digested.
    Exception
        Whatever a decoder raises.
    """
    image = open_original(task)
    return image if task.change is None else task.change(image)


def open_images(task: ImageTask) -> list[Image.Image]:
    """Return what is shown in a prompt about a task: its image, then its second one if it has one; see `open_image`."""
    images = [open_image(task)]
    if task.second is not None:
        images.append(open_image(replace(task, path=task.second, pixel_sha256=task.variant_params[SECOND])))
    return images


def open_original(task: ImageTask) -> Image.Image:
    """Return the decoded image of a task, before its variant is made; raises as `open_image` does."""
    from fp2.data.pixels import open_rgb, pixel_sha256

    image = open_rgb(task.path)
    if pixel_sha256(image) != task.pixel_sha256:
        raise ValueError("its pixels are not those that were digested; the file changed")
    return image


@functools.cache
def version(package: str) -> str:
    """Return the installed version of a package, or `ABSENT`; the package is not imported."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ABSENT


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the installed versions of packages by name."""
    return {name: version(name) for name in packages}


def version_family(number: str) -> str:
    """Return the part of a version within which answers are taken to be the same: 5.23 of 5.23.0."""
    return ".".join(number.split(".")[:2])


T = TypeVar("T")
_END = object()


def prefetched(items: Iterable[T], depth: int) -> Iterator[T]:
    """Yield `items` in order; up to `depth` of them are computed in a thread in advance.

    An error of the iterable is raised here, at its place. The thread ends when the consumer stops early.
    """
    ready: queue.Queue[object] = queue.Queue(maxsize=max(1, depth))
    stop = threading.Event()

    def put(item: object) -> bool:
        while not stop.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for item in items:
                if not put(item):
                    return
        except BaseException as error:  # raised in the consumer, whatever it is
            put(_Raised(error))
        else:
            put(_END)

    worker = threading.Thread(target=work, name="prefetch", daemon=True)
    worker.start()
    try:
        while (item := ready.get()) is not _END:
            if isinstance(item, _Raised):
                raise item.error
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        worker.join()


class _Raised:
    """An error of the thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
