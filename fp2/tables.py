"""The tables between the stages, and the types that all stages share: question, decoding, answer, image variant.

Every stage can be run again from the table before it. Each schema lists the columns that are always present. `people`
has one more column per attribute, `attr_<attribute>`, with the **list** of a subject's values (an empty list for none).
Columns `private_<name>` hold what must not leave the data folder, columns `field_<name>` the texts of items.
Depending on the data set, `people` also has `face_x, face_y, face_w, face_h` (the face box in pixels) and `mask_path`
(an image that is not black where the person is; a path of this machine, which never leaves it), and items that show
two images have `image_b` and `subject_b`: the path of the second, and who is in it. In a run about images of two people
it has `side` (`left` or `right`); one answer, stored under one of the two, is about both, and has scores of both.

`numbers` of an answer is one JSON object, because its fields depend on the kind of question, and those of a choice are
lists. `yes_no`: `p_yes, p_no, p_yes_first_token, p_no_first_token, p_yes_norm, mass, logit_difference`. `choice`: `p`
and `log_likelihood` (lists in the order of the options), `mass, order_range`. They are defined in `Answer`. Generated
text has none, but for the reasoning of a model that reasoned first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast, get_type_hints

from annotated_types import Ge, Le

from fp2.errors import Fp2Error
from fp2.plugins import Strict
from fp2.text import in_number

if TYPE_CHECKING:
    import pandas as pd
    import pydantic
    from PIL import Image

ATTRIBUTE_PREFIX = "attr_"
FIELD_PREFIX = "field_"
"""Of columns with the texts of an item, which questions are filled in with (`fp2.probes.items`)."""
IMAGE_B, SUBJECT_B = "image_b", "subject_b"
"""Columns of items with a second image; missing where an item has one image."""
SECOND = "second"
"""The parameter of what is shown that has the pixel digest of the second image; only there does it enter keys."""
PRIVATE_PREFIX = "private_"
ITEM_ROW = PRIVATE_PREFIX + "row"
"""Column with the row of the file that an item was read from, from 1."""
"""Of columns of a data set's own that must not leave the data folder: they are no attributes, and no table of a run,
cut or digest has them."""

ORDER = "_order"
"""What follows the name of a column of salted keys in that with the ranks of the ids, which permutations follow."""
IMAGE_DIGEST = "image_digest"
"""Column of the people of a run that asked a model: SHA-256 of the image's pixels, empty where it cannot be read; in
the tables that leave the data folder a commitment to it (`fp2.store.salted_keys.image_commitment`)."""

# The place and time of an image help to identify a person.
COARSE_PLACE: frozenset[str] = frozenset({"location_un_region", "location_un_subregion"})
"""Regions of the world as defined by the United Nations, which may be reported for groups."""
FINE_PLACE_AND_TIME: frozenset[str] = frozenset({"location_country", "location_region", "user_date_captured"})
HOUR = "user_hour_captured"
"""FHIBE's classes of six hours, which may be reported for groups."""
MUST_NOT_LEAVE: frozenset[str] = FINE_PLACE_AND_TIME | {"camera_model"}
"""Attributes, of any data set, that stay in the data folder and cannot be a cut: a precaution, since they help to
identify a person."""
CAMERA: frozenset[str] = frozenset(
    {"camera_manufacturer", "camera_model", "iso", "aperture", "focal_length", "shutter"}
)
"""What a camera writes into an image file."""
NOT_DIGESTED: frozenset[str] = CAMERA | {"user_date_captured"}
"""Attributes that the digest of a data set leaves out: those that were not read when digests were first logged."""
PLACE_AND_TIME = COARSE_PLACE | FINE_PLACE_AND_TIME | {HOUR}


@dataclass(frozen=True)
class Column:
    """One column: its name, the name of its type, and the meaning of a value."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Schema:
    """A table: its name, what one row is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Column names in order."""
        return [column.name for column in self.columns]

    def check(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return `frame` if it has every column of the schema."""
        missing = [name for name in self.names if name not in frame.columns]
        if missing:
            problem = in_number(len(missing), f"table '{self.name}' lacks the [column|columns] {', '.join(missing)}")
            raise Fp2Error(problem)
        return frame


@cache
def row_model(schema: Schema) -> type[pydantic.BaseModel]:
    """Return the Pydantic model of a row: the columns with types and meanings; other columns may stand beside them."""
    import pydantic

    types = {"string": str | None, "bool": bool, "int64": int, "float64": float}
    columns = {c.name: (types[c.type], pydantic.Field(description=c.meaning)) for c in schema.columns}
    model = pydantic.create_model(schema.name, __config__={"extra": "allow"}, __doc__=schema.row, **cast(Any, columns))
    return cast("type[pydantic.BaseModel]", model)


PEOPLE = Schema(
    "people",
    "a person in an image",
    (
        Column("image_id", "string", "the image, unique within the data set"),
        Column("subject_id", "string", "the subject; the unit of every analysis"),
        Column("image_path", "string", "absolute path of the image on this machine; never leaves it"),
        Column(
            "is_primary", "bool", "whether the subject is the primary one (an image of two people has one who is not)"
        ),
        Column("n_people", "int64", "annotated people in the image"),
        Column("set_id", "string", "counterfactual set (images of one scene that differ in one attribute), or missing"),
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
        Column("template", "string", "the phrasing, or empty"),
        Column("trait", "string", "the trait word, or empty"),
        Column("text", "string", "the exact text that the model is asked"),
        Column("kind", "string", "text, yes_no, choice or number"),
    ),
)

TRACE, TRACE_TOKENS = "reasoning", "reasoning_tokens"
"""Keys of the numbers of an answer in words before which the model reasoned; the first is a column of answers too."""

ANSWERS = Schema(
    "answers",
    "one question about one image variant",
    (
        Column("response_key", "string", "sha256 of everything that can change the answer"),
        Column("image_id", "string", ""),
        Column("subject_id", "string", ""),
        Column("variant", "string", "the image variant, or original"),
        Column("question_id", "string", ""),
        Column("probe", "string", ""),
        Column("text", "string", "the generated text, or the most probable option of a scored question; or missing"),
        Column("numbers", "string", "JSON of the numbers of a scored question (see above), or missing"),
        Column("status", "string", "answered or error"),
        Column("error", "string", "why there is no answer, or missing"),
        Column("attempts", "int64", "the number of attempts"),
        Column("seconds", "float64", "the answer's share of the wall time of its batch"),
        Column("tokens", "int64", "the number of generated tokens"),
        Column("cached", "bool", "whether it was in the store"),
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
        Column("refused", "bool", "whether the answer is a refusal"),
    ),
)


def attribute_columns(people: pd.DataFrame) -> list[str]:
    """Return the names of the attributes (without the prefix) that `people` carries."""
    return [name.removeprefix(ATTRIBUTE_PREFIX) for name in people.columns if name.startswith(ATTRIBUTE_PREFIX)]


def field_columns(people: pd.DataFrame) -> list[str]:
    """Return the names of the fields of items (without the prefix) that `people` carries."""
    return [name.removeprefix(FIELD_PREFIX) for name in people.columns if name.startswith(FIELD_PREFIX)]


def item_name(people: pd.DataFrame, row: int) -> str:
    """Return what a message calls an item: its id, and its row in the file where it was read from one."""
    of_file = f" (row {people[ITEM_ROW].iloc[row]})" if ITEM_ROW in people else ""
    return f"item {people['image_id'].iloc[row]!r}{of_file}"


def everyone_shown(people: pd.DataFrame) -> pd.DataFrame:
    """Return `people` with a row more for each second image: its path and subject, under the id of the item."""
    return _with_second_images(people) if SUBJECT_B in people else people


def _with_second_images(people: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    second = people[people[SUBJECT_B].notna()]
    columns = {"subject_id": SUBJECT_B, "image_path": IMAGE_B}
    second = second.assign(**{name: second[column] for name, column in columns.items() if name in people})
    return pd.concat([people, second], ignore_index=True)


def with_values(people: pd.DataFrame) -> list[str]:
    """Return the attributes that some row of `people` has a value of."""
    return [name for name in attribute_columns(people) if any(map(len, people[ATTRIBUTE_PREFIX + name]))]


QuestionKind = Literal["text", "yes_no", "choice", "number"]
ChoiceOrders = Literal["rotations", "all", "given"] | Annotated[int, Ge(0), Strict("a seed, from 0 on")]
Reasoning = (
    Literal["off", "auto", "on"]
    | Annotated[bool, Strict()]
    | Annotated[int, Ge(16), Strict("a number of tokens from 16 on")]
)
REASONING_TOKENS = 2048
"""Most tokens of the reasoning before an answer where no number is stated."""
DTYPES = ("float32", "bfloat16", "float16")
QUANTISATIONS = ("int8", "nf4")
IMAGE_BACKENDS = ("pil", "torchvision")
RESAMPLE = ("bilinear", "bicubic", "lanczos")
OPTIONS, TRAIT = "{options}", "{trait}"
"""What stands in the text of a question for its options, and for the trait words that it is asked about."""
BLIND = "blind"
YES_NO_NUMBERS = (
    "p_yes", "p_no", "p_yes_first_token", "p_no_first_token", "p_yes_norm", "mass", "logit_difference",
)  # fmt: skip
"""The numbers of a yes/no answer (`Answer.numbers`)."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question text of a battery (a row of the questions table).

    `text` and `number` questions are answered in words (`generate`), `yes_no` by the probabilities of Yes and No
    (`score_yes_no`), `choice` by the likelihoods of `choices` (`score_choices`). The text of a choice may contain
    `{options}`, where the options are listed, in the orders that `Decoding.choice_orders` selects. `sample` counts the
    answers that are sampled to one question (`Decoding.samples`), each under an id of its own (`sample_id`).
    """

    question_id: str
    probe: str
    text: str
    kind: QuestionKind = "text"
    template: str = ""
    trait: str = ""
    choices: tuple[str, ...] = ()
    sample: int = 0


SAMPLE = "#sample"
"""What follows the id of a question in those of its further samples, before their number."""


def sample_id(question_id: str, sample: int) -> str:
    """Return the id of a sample of a question: the question's own for the first (0), `ID#sample2` for the second."""
    return f"{question_id}{SAMPLE}{sample + 1}" if sample else question_id


ITEM = "#item"
"""What follows the id of a question where the items of one image are asked about at once, before the item's number."""


def question_of(name: str) -> str:
    """Return the id of the question that `name` is a sample of, or the question of an item."""
    return name.partition(ITEM)[0].partition(SAMPLE)[0]


def sample_of(name: str) -> int:
    """Return which sample of its question an id names, from 0."""
    return int(name.partition(SAMPLE)[2] or 1) - 1


IN_WORDS: tuple[QuestionKind, ...] = ("text", "number")
"""Kinds of questions that are answered in words."""


@dataclass(frozen=True, slots=True)
class DecodingOption:
    """Marks a field of `Decoding` with where it has an effect: nothing else has to know an option by its name.

    Attributes
    ----------
    kinds : tuple of str
        Kinds of questions whose response keys it enters.
    request : str, optional
        Its name in a request to a server; vLLM and checkpoints with code of their own have the same names.
    processor : str, optional
        The class of transformers that changes the logits by it, and is called with its value.
    of_sampling : bool
        Whether it has an effect only where text is sampled.
    in_every_key : bool
        Whether it enters response keys also with its default value; an option that is added must not.
    """

    kinds: tuple[QuestionKind, ...] = IN_WORDS
    request: str | None = None
    processor: str | None = None
    of_sampling: bool = False
    in_every_key: bool = False


@cache
def _decoding_options(kind: Any) -> list[tuple[str, object, DecodingOption]]:
    """Return (name, default, marker) of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        (item.name, item.default, marker)
        for item in fields(kind)
        for marker in hints[item.name].__metadata__
        if isinstance(marker, DecodingOption)
    ]


@dataclass(frozen=True, slots=True)
class Decoding:
    """How text is generated (greedily, unless `temperature` is above 0), and the orders in which options are shown.

    Every question is asked `samples` times, each time with a seed of its own that is derived from `seed`.

    `rotations` shows each option once in each position (k orders for k options), `all` every permutation (k!), `given`
    the order of the question only, a number one order of each question or item that is drawn with this seed.
    Probabilities are averaged over the orders.

    `reasoning` says whether a model that can reason before it answers does: `auto` leaves that to the model, a number
    is the most tokens that it may take. `max_new_tokens` counts the answer alone. It enters the response keys of models
    that can reason only (`Engine.method`).
    """

    max_new_tokens: Annotated[int, Strict(), Ge(1), DecodingOption(request="max_tokens", in_every_key=True)] = 64
    temperature: Annotated[
        float,
        Strict(),
        Ge(0),
        Le(2),
        DecodingOption(request="temperature", processor="TemperatureLogitsWarper", in_every_key=True),
    ] = 0.0
    seed: Annotated[int, Strict(), Ge(0), DecodingOption(in_every_key=True)] = 0
    choice_orders: Annotated[ChoiceOrders, DecodingOption(kinds=("choice",), in_every_key=True)] = "rotations"
    samples: Annotated[int, Strict(), Ge(1), Le(1000), DecodingOption(kinds=())] = 1
    reasoning: Annotated[Reasoning, DecodingOption(kinds=())] = "auto"

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}

    def __post_init__(self) -> None:
        """Read `off` and `on` as YAML does: false and true."""
        if isinstance(self.reasoning, bool):
            object.__setattr__(self, "reasoning", "on" if self.reasoning else "off")

    @property
    def sampled(self) -> bool:
        """Whether text is sampled."""
        return self.temperature > 0

    @property
    def longest_answer(self) -> int:
        """Characters of the longest answer that a model can have generated; a token has about four, and at most 64."""
        return 1000 + 64 * self.max_new_tokens

    @property
    def reasoning_budget(self) -> int:
        """Most tokens of the reasoning of a model that reasons."""
        if self.reasoning == "off":
            return 0
        return self.reasoning if isinstance(self.reasoning, int) else REASONING_TOKENS

    def stated(self) -> dict[str, Any]:
        """Return the options by name, as `without_defaults` does."""
        return without_defaults(asdict(self))

    def in_key(self, kind: QuestionKind) -> dict[str, Any]:
        """Return what can change the answer to this kind of question: its part of the response key."""
        own_class: Any = type(self)
        return {
            name: getattr(self, name)
            for name, default, option in _decoding_options(own_class)
            if kind in option.kinds
            and (option.in_every_key or getattr(self, name) != default)
            and (self.sampled or not option.of_sampling)
        }

    def of_reasoning(self) -> dict[str, Any]:
        """Return what can change a reasoning before an answer in a word, which is always sampled, besides the seed."""
        own_class: Any = type(self)
        options = {
            name: getattr(self, name)
            for name, default, option in _decoding_options(own_class)
            if option.of_sampling and getattr(self, name) != default
        }
        return ({"temperature": self.temperature} if self.sampled else {}) | options

    def request(self) -> dict[str, Any]:
        """Return the options by their names in a request, those of sampling only where text is sampled."""
        return {str(option.request): value for option, value in self._effective("request")}

    def processors(self) -> list[tuple[str, Any]]:
        """Return the classes of transformers that change the logits of sampled text, each with its value."""
        return [(str(option.processor), value) for option, value in self._effective("processor")]

    def _effective(self, how: Literal["request", "processor"]) -> Iterator[tuple[DecodingOption, Any]]:
        own_class: Any = type(self)
        for name, default, option in _decoding_options(own_class):
            value = getattr(self, name)
            if option.of_sampling and (not self.sampled or value == default):
                continue
            if getattr(option, how) is not None:
                yield option, value
            elif option.of_sampling:
                raise Fp2Error("the engine does not support it", where=f"decoding.{name}", fix=f"Set it to {default!r}")


def without_defaults(decoding: Mapping[str, object]) -> dict[str, Any]:
    """Return options of `Decoding` by name, without those that have their default and came after version 0.1.

    Those are the ones that are not in every response key. Hashes and passports leave them out, so that they stay.
    """
    added = {name: default for name, default, option in _decoding_options(Decoding) if not option.in_every_key}
    stated = {name: value for name, value in decoding.items() if name not in added or value != added[name]}
    if isinstance(stated.get("reasoning"), bool):  # as YAML reads on and off
        stated["reasoning"] = "on" if stated["reasoning"] else "off"
    return stated


@dataclass(frozen=True, slots=True)
class ImageTask:
    """One stimulus and the questions that are to be asked about it.

    `path` is the image file and `pixel_sha256` the digest of its decoded pixels, before `change`. `change` computes the
    image variant from the decoded image (None for the original); `variant` and `variant_params` describe it in the
    response key. The variant `blind` shows no image, or a neutral grey one to a model that needs an image
    (`Engine.method` states which); its `path` is not opened. `second` is the file of an image that is shown after the
    first, `variant_params[SECOND]` its digest. `attributes` and `subject_id` are for the simulator only; a real model
    never sees them.
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
    second: Path | None = None

    @property
    def blind(self) -> bool:
        """Whether the model is shown no image of the subject."""
        return self.variant == BLIND


@dataclass(slots=True)
class Answer:
    """The answer to one question about one stimulus: text, or the reason why there is none.

    `numbers` (JSON values; None for generated text without reasoning) are:

    - `yes_no`: `p_yes`, `p_no` (summed over all surface forms), `p_yes_first_token`, `p_no_first_token`, `p_yes_norm`
      (= p_yes / (p_yes + p_no)), `mass` (= p_yes + p_no), `logit_difference` (log p_yes - log p_no); `text` is
      `Yes` or `No`, whichever is more probable. Estimated from samples, also `standard_error` (of `p_yes`), and after
      sampled reasonings `p_yes_of_traces` (P(Yes) after each), `trace_variance` (their variance, with n - 1), and what
      answers in words have of reasoning.
    - `choice`: lists in the order of `Question.choices`: `p` (mean over the orders of the likelihoods normalised over
      the options), `log_likelihood` (natural logarithm, summed over an option's tokens; mean over the orders), `mass`
      (mean over the orders of the summed likelihoods), `order_range` (largest change of an option's `p` between
      orders); `text` is the most probable option.
    - in words, of a model that reasoned first: `reasoning` (its text) and `reasoning_tokens` (0 if not known), which
      are in `tokens`.
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
"""Every kind of image variant, with its parameters."""
BY_REGION = frozenset({"masked", "blurred", "background_removed", "face_crop", "person_crop"})
"""Kinds that need the region of the person."""
TAKES_REGION = BY_REGION - {"face_crop", "person_crop"}
"""Kinds that paint over the person or the background; `region: box` gives them the person's box."""
BOX = "box"
CONTROLS = frozenset({BLIND, GREY, SWAPPED})
"""Control variants, which do not show the image of the subject."""
HIDES_PERSON = frozenset({BLIND, GREY, "masked", "blurred"})
"""Kinds that show nothing of the subject: the simulator gets no attributes."""
MIRRORED = "mirrored"
"""The mirrored copy of every image of two people."""

NOT_ASKED = "not asked: the run ended before it came to this"
NOT_SUPPLIED = "not supplied: the answers that exist already lack this one"
WITHOUT_ATTEMPT: Mapping[str, str] = {"not_asked": NOT_ASKED, "not_supplied": NOT_SUPPLIED}
"""Counts of answers that are missing without having failed, with the reason that they are stored under."""

STILL_REASONING = "the model was still reasoning"
"""How the reason begins of an answer that failed because its reasoning did not end within the limit of tokens."""
UNENDED = "still_reasoning"
"""The count of these answers among the failed ones; results without any lack it."""


def absent_counts(counts: Mapping[Any, Any]) -> dict[str, int]:
    """Return the counts (the keys of `WITHOUT_ATTEMPT`, or `UNENDED`) that are not zero: results have no other."""
    return {str(name): int(n) for name, n in counts.items() if n}
