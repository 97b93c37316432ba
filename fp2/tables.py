"""The tables between the stages, documented once: every stage can be run again from the table before it.

Each schema lists the columns that are always there. `people` has one further column per attribute, named
`attr_<attribute>`, that holds the **list** of values a person gave (several are allowed, none is an empty list). Where
a data set has them, `people` also has `face_x, face_y, face_w, face_h` (the face box, in pixels) and `mask_path` (a
picture that is not black where the person is; a path of this machine, which never leaves it). In a run about pictures
of two people it has `side`, where each stands (`left` or `right`); one answer, filed under one of the two, is about
both, and has scores of both.

`numbers` of an answer is one JSON object, because each kind of question has its own and those of a choice are lists.
`yes_no`: `p_yes, p_no, p_yes_first_token, p_no_first_token, p_yes_norm, mass, logit_difference`. `choice`: `p` and
`log_likelihood` (lists in the order of the question's options), `mass, order_range`. `fp2.tables.Answer` defines
each. Words that were generated have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le

from fp2.errors import Fp2Error
from fp2.plugins import Strict

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

ATTRIBUTE_PREFIX = "attr_"

# Where and when a picture was taken helps to find a person again.
COARSE_PLACE: frozenset[str] = frozenset({"location_un_region", "location_un_subregion"})
"""The place as coarsely as the United Nations name it: a part of the world, which may be told of groups."""
FINE_PLACE_AND_TIME: frozenset[str] = frozenset(
    {"location_country", "location_region", "user_date_captured", "user_hour_captured"}
)
"""Attributes that never leave the data folder, and so cannot be a cut."""
PLACE_AND_TIME = COARSE_PLACE | FINE_PLACE_AND_TIME


@dataclass(frozen=True)
class Column:
    """One column: its name, its Arrow type in words, and what a value means."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Schema:
    """A table's name, what one row is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [column.name for column in self.columns]

    def check(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return `frame` if it has every column of the schema.

        Raises
        ------
        Fp2Error
            With the list of the missing columns.
        """
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            raise Fp2Error(f"table '{self.name}' lacks the column(s) {', '.join(missing)}")
        return frame


PEOPLE = Schema(
    "people",
    "a person in an image",
    (
        Column("image_id", "string", "the image, unique within the data set"),
        Column("subject_id", "string", "the person; the unit of every statistic"),
        Column("image_path", "string", "absolute path of the picture on this machine; never leaves it"),
        Column(
            "is_primary",
            "bool",
            "whether the picture was taken of this person (two-person pictures have one who was not)",
        ),
        Column("n_people", "int64", "annotated people in the image"),
        Column("set_id", "string", "counterfactual set (same scene, one attribute changed), or missing"),
        Column("box_x", "float64", "person box: left edge in pixels of the image, or missing"),
        Column("box_y", "float64", "person box: top edge"),
        Column("box_w", "float64", "person box: width"),
        Column("box_h", "float64", "person box: height"),
    ),
)

QUESTIONS = Schema(
    "questions",
    "a question text",
    (
        Column("question_id", "string", "unique within the battery"),
        Column("probe", "string", "the probe it belongs to"),
        Column("template", "string", "the framing, or empty"),
        Column("trait", "string", "the trait word, or empty"),
        Column("text", "string", "what the model is asked, exactly"),
        Column("kind", "string", "text, yes_no, choice or number"),
    ),
)

ANSWERS = Schema(
    "answers",
    "one question put to one image variant",
    (
        Column("response_key", "string", "sha256 of everything that can change the answer"),
        Column("image_id", "string", ""),
        Column("subject_id", "string", ""),
        Column("variant", "string", "original, or how the image was changed"),
        Column("question_id", "string", ""),
        Column("probe", "string", ""),
        Column("text", "string", "the model's words (the likelier option of a scored question), or missing"),
        Column("numbers", "string", "JSON of a scored question's numbers, or missing: see above"),
        Column("status", "string", "answered or error"),
        Column("error", "string", "why there is no answer, or missing"),
        Column("attempts", "int64", "how often it was tried"),
        Column("seconds", "float64", "share of the batch's wall time"),
        Column("tokens", "int64", "generated tokens"),
        Column("cached", "bool", "whether it came from the store"),
    ),
)

SCORES = Schema(
    "scores",
    "one scorer's value for one answer",
    (
        Column("response_key", "string", ""),
        Column("image_id", "string", ""),
        Column("subject_id", "string", ""),
        Column("variant", "string", ""),
        Column("question_id", "string", ""),
        Column("probe", "string", ""),
        Column("scorer", "string", ""),
        Column("scorer_version", "string", "version and lexicon digest"),
        Column("value", "float64", "the score, or missing"),
        Column("refused", "bool", "whether the answer was a refusal"),
    ),
)


def attribute_columns(people: pd.DataFrame) -> list[str]:
    """Return the names of the attributes (without the prefix) that `people` carries."""
    return [name.removeprefix(ATTRIBUTE_PREFIX) for name in people.columns if name.startswith(ATTRIBUTE_PREFIX)]


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

    max_new_tokens: Annotated[int, Strict(), Ge(1)] = 64
    temperature: Annotated[float, Strict(), Ge(0), Le(2)] = 0.0
    seed: Annotated[int, Strict(), Ge(0)] = 0
    choice_orders: ChoiceOrders = "rotations"

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}


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


ORIGINAL, GREY, SWAPPED = "original", "grey", "swapped"
VARIANT_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    ORIGINAL: (),
    BLIND: (),
    GREY: ("size",),
    SWAPPED: ("seed",),
    "masked": (),
    "blurred": ("radius",),
    "background_removed": (),
    "face_crop": ("margin",),
    "person_crop": ("margin",),
}
"""Every kind of variant, with the parameters that it takes."""
BY_REGION = frozenset({"masked", "blurred", "background_removed", "face_crop", "person_crop"})
"""Kinds that need to know where the person is."""
CONTROLS = frozenset({BLIND, GREY, SWAPPED})
"""Kinds that do not show the person's picture."""
HIDES_PERSON = frozenset({BLIND, GREY, "masked", "blurred"})
"""Kinds that show nothing of the person: the simulator is then told no attribute."""
MIRRORED = "mirrored"
"""The copy, left and right exchanged, that every picture of two people is also shown as."""
