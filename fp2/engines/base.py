"""What an engine is: it is given pictures with the questions still open about each, and hands back answers.

An engine knows nothing of groups, scores or statistics. It yields answers in batches as they come, so that the store
can keep each batch at once; what it raises for a single picture becomes that picture's error rows, never the run's end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fp2.hashing import digest

if TYPE_CHECKING:
    from PIL import Image

QuestionKind = Literal["text", "yes_no", "choice", "number"]
ChoiceOrders = Literal["rotations", "all", "given"]
DTYPES = ("float32", "bfloat16", "float16")
QUANTISATIONS = ("int8", "nf4")
IMAGE_BACKENDS = ("pil", "torchvision")
OPTIONS = "{options}"
BLIND = "blind"
YES_NO_NUMBERS = (
    "p_yes", "p_no", "p_yes_first_token", "p_no_first_token", "p_yes_norm", "mass", "logit_difference",
)  # fmt: skip
"""What a yes/no answer's numbers are (`Answer.numbers`)."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question text of a battery (a row of the questions table).

    `text` and `number` questions are answered in words (`generate`), `yes_no` by the probabilities of Yes and No
    (`score_yes_no`), `choice` by the likelihoods of `choices` (`score_choices`). A choice's text may hold `{options}`,
    where the options are listed, in every order that `Decoding.choice_orders` says.
    """

    question_id: str
    probe: str
    text: str
    kind: QuestionKind = "text"
    template: str = ""
    trait: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decoding:
    """How text is generated (greedy unless `temperature` is above 0), and in which orders options are shown.

    `rotations` shows each option once in each place (k orders for k options), `all` every permutation (k!), `given`
    only the order of the question. Probabilities are averaged over the orders.
    """

    max_new_tokens: int = 64
    temperature: float = 0.0
    seed: int = 0
    choice_orders: ChoiceOrders = "rotations"


@dataclass(frozen=True, slots=True)
class ImageTask:
    """One picture and the questions still open about it.

    `path` is the picture to open and `pixel_sha256` the digest of its decoded pixels, before `change`. `change` makes
    the image variant from the decoded picture (None: shown as it is); `variant` and `variant_params` say what it does
    and go into the response key. The variant `blind` shows no picture at all, or a neutral grey one where the model
    cannot do without (`Engine.method` says which); its `path` is not opened.
    `attributes` and `subject_id` are there for the simulator only; a real model never sees them.
    """

    image_id: str
    subject_id: str
    path: Path
    pixel_sha256: str
    questions: tuple[Question, ...]
    variant: str = "original"
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    variant_params: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[Image.Image], Image.Image] | None = None

    @property
    def blind(self) -> bool:
        """Whether the model is shown no picture of the person."""
        return self.variant == BLIND


@dataclass(slots=True)
class Answer:
    """What came back for one question about one picture: words, or the reason why there are none.

    `numbers` (JSON values; None for words that were generated) holds what a scored question gave:

    - `yes_no`: `p_yes`, `p_no` (summed over all surface forms), `p_yes_first_token`, `p_no_first_token`, `p_yes_norm`
      (= p_yes / (p_yes + p_no)), `mass` (= p_yes + p_no), `logit_difference` (log p_yes - log p_no); `text` is
      `Yes` or `No`, whichever is likelier.
    - `choice`: lists in the order of `Question.choices`: `p` (mean over the orders of the likelihoods normalised over
      the options), `log_likelihood` (natural logarithm, summed over an option's tokens; mean over the orders), `mass`
      (mean over the orders of the summed likelihoods), `order_range` (largest change of an option's `p` between
      orders); `text` is the likeliest option.
    """

    image_id: str
    question_id: str
    text: str | None
    error: str | None = None
    seconds: float = 0.0
    tokens: int = 0
    numbers: Mapping[str, Any] | None = None

    @property
    def status(self) -> str:
        """`answered` or `error`."""
        return "answered" if self.error is None else "error"


def failed(task: ImageTask, question: Question, reason: str) -> Answer:
    """Return the row of an answer that there is none of: the first line of the reason."""
    first = next(iter(reason.splitlines()), reason)
    return Answer(task.image_id, question.question_id, None, first[:500])


def seed_of(decoding: Decoding, task: ImageTask, question: Question) -> int:
    """Return a seed (60 bits) that depends on the question, the picture and the run's seed, and on nothing else."""
    shown = [task.pixel_sha256, task.variant, dict(task.variant_params)]
    return int(digest([decoding.seed, *shown, question.text])[:15], 16)


def orders(options: int, how: ChoiceOrders) -> list[tuple[int, ...]]:
    """Return the orders in which so many options are listed (see `Decoding`)."""
    places = tuple(range(options))
    if how == "given":
        return [places]
    if how == "all":
        return list(itertools.permutations(places))
    return [(*places[start:], *places[:start]) for start in places]


class Engine(Protocol):
    """Who answers. Loading the model happens at the first `answer`, so a fully cached run loads nothing."""

    @property
    def model_calls(self) -> int:
        """Forward passes, generate calls or requests sent so far."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything about the model side that can change an answer (JSON values). Imports nothing heavy."""
        ...

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """How a question of this kind is asked and read: `name` with a version, prompt format, surface forms.

        Enters the response key. Imports nothing heavy.

        Raises
        ------
        Fp2Error
            If this engine cannot ask this kind of question.
        """
        ...

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """What else about one picture can change an answer, beyond its pixels (empty for real models)."""
        ...

    def runtime(self) -> dict[str, Any]:
        """Recorded, never hashed: device, batch size, attention implementation, sharing strategy, versions."""
        ...

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers in batches, in any order, every question of every task exactly once."""
        ...
