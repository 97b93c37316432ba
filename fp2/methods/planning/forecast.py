"""What `fp2 plan` computes where nothing was timed: operations and time of questions, from a model's size.

The time of yes/no questions is computed from forward passes and operations. Operations are those of the weights' matrix
products, 2 for each weight and token (Kaplan et al. 2020, section 2.1); attention, the softmax over the vocabulary and
everything on the host are left out. Tokens are words x `TOKENS_A_WORD`. With one prompt at a time every question costs
image, template and its own words. Prefix sharing computes once: `tree` the image and every common beginning of the
questions, `vision` the vision encoder only. Generated text costs every prompt in full, and then a step of decoding for
each token of the longest answer in a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import GPU_BATCH, TEMPLATE_TOKENS, TOKENS_A_WORD

if TYPE_CHECKING:
    from fp2.extension import Config

STATED_SPEED = 100e12
"""Operations per second that times are stated for where nothing was timed: a third of an A100's peak in bfloat16."""
STATED_BANDWIDTH = 1e12
"""Bytes per second that weights are read at where nothing was timed: half of an A100's (80 GB)."""
UNTIMED = "unknown: run {model} on a few images first, then plan again"


@dataclass(frozen=True)
class Size:
    """Weights (in 1e9) and tokens of a published model: see fp2/methods/planning/sizes.yaml."""

    family: str
    language: float
    vision: float
    patches: int
    picture: int
    seconds: float | None = None


@dataclass(frozen=True)
class QuestionTexts:
    """The texts of a battery, as far as their length counts."""

    texts: tuple[str, ...]

    @cached_property
    def tokens(self) -> float:
        """Mean tokens of a prompt besides the image: template and question."""
        words = sum(len(text.split()) for text in self.texts) / max(1, len(self.texts))
        return TEMPLATE_TOKENS + words * TOKENS_A_WORD

    @cached_property
    def tree_tokens(self) -> float:
        """Tokens of all questions about an image, each common beginning counted once."""
        seen = {tuple(words[: k + 1]) for words in map(str.split, self.texts) for k in range(len(words))}
        return TEMPLATE_TOKENS + len(seen) * TOKENS_A_WORD


@cache
def sizes() -> dict[str, Size]:
    """Return the known sizes by hub id."""
    import yaml

    path = Path(__file__).parent / "sizes.yaml"
    rows: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Size(**row) for name, row in rows.items()}


def sharing_of(size: Size, config: Config) -> str:
    """Return the prefix sharing of a model of that family under the configured engine; `none` where it is unknown."""
    from fp2.extension import engine_class

    return engine_class(asdict(config.engine)).family_sharing(size.family) or "none"


def operations(size: Size, questions: QuestionTexts, images: int, sharing: str) -> float:
    """Return the operations of asking `questions` about so many images, sharing `tree`, `vision` or `none`."""
    look = 2e9 * size.vision * size.patches
    prompts = len(questions.texts) * 2e9 * size.language * (size.picture + questions.tokens)
    if sharing == "tree":
        return images * (look + 2e9 * size.language * (size.picture + questions.tree_tokens))
    return images * (look * (1 if sharing == "vision" else len(questions.texts)) + prompts)


def saved_words(prompts: int, images: int, sharing: str) -> str:
    """Return how many forward passes over an image are saved, in words."""
    if sharing == "tree":
        return f"{prompts - images:,} of {prompts:,} (each image is encoded once)"
    if sharing == "vision":
        return f"{prompts - images:,} of {prompts:,} of the vision encoder; the rest depends on the prompt"
    return f"none of {prompts:,}" if sharing == "none" else "decided by the check when the model is loaded"


def duration(seconds: float) -> str:
    """Return seconds in words, to two digits."""
    for unit, length in (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}" if seconds < 100 * length else f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.2g} seconds"


def computed_time(
    size: Size | None, questions: QuestionTexts, images: int, model: str, sharing: str
) -> tuple[str, str]:
    """Return (operations, time) in words for a model that is not timed here."""
    if size is None:
        return "unknown: no sizes of this model", UNTIMED.format(model=model)
    ours, plain = (operations(size, questions, images, how) for how in (sharing, "none"))
    fewer = f"{ours:.1e} ({plain / ours:.3g} times fewer than one prompt at a time)"
    time = f"{duration(ours / STATED_SPEED)} at {STATED_SPEED / 1e12:.0f} TFLOP/s (computed, not timed)"
    return fewer, time


def generated_time(
    size: Size | None,
    questions: QuestionTexts,
    answers: int,
    tokens: int,
    batch: int | None,
    model: str,
    weight_bytes: int = 2,
) -> str:
    """Return the time, in words, of generating so many answers of `tokens` tokens each.

    A step of decoding gives one token to each prompt of a batch. It takes the longer of the operations and of reading
    all weights once (Pope et al. 2023, section 2).

    Parameters
    ----------
    batch : int or None
        Prompts in a batch; None for that of the engine on a GPU.
    weight_bytes : int
        Bytes of a weight.
    """
    if size is None:
        return UNTIMED.format(model=model)
    if size.seconds is not None:
        return (
            f"about {duration(answers * size.seconds)} on one processor core (measured, {size.seconds:g} s an answer)"
        )
    batch = min(batch or GPU_BATCH, max(1, answers))
    prefill = 2e9 * (size.vision * size.patches + size.language * (size.picture + questions.tokens)) / STATED_SPEED
    step = max(2e9 * size.language * batch / STATED_SPEED, 1e9 * size.language * weight_bytes / STATED_BANDWIDTH)
    seconds = answers * prefill + math.ceil(answers / batch) * tokens * step
    return (
        f"about {duration(seconds)}, if every answer has {tokens:,} tokens (computed for batches of {batch} at "
        f"{STATED_SPEED / 1e12:.0f} TFLOP/s and {STATED_BANDWIDTH / 1e12:.0f} TB/s, not timed)"
    )


BASIS: Sequence[str] = (
    "Computed from the sizes in fp2/methods/planning/sizes.yaml: 2 operations per weight and token, "
    f"{TOKENS_A_WORD:.2f} tokens a word, {TEMPLATE_TOKENS} tokens of template, images of 448 x 448; attention, the "
    "work of the host, loading the model and reading images are not included.",
    f"{STATED_SPEED / 1e12:.0f} TFLOP/s is about a third of an A100's peak in bfloat16; scale it to your device.",
)
"""What computed times rest on."""
YES_NO_BASIS = "One prompt at a time would take the stated factor more."
