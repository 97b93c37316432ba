"""What the questions about one image may share, and the check that sharing changes no answer.

`tree` shares the common prefix of all prompts, image included, and computes the rest in one row; `prefix` shares it and
computes the rest of each prompt in a row of its own; `vision` shares the image features; `none` nothing. A
model's family says how much may be shared (`families`); for an unknown family, the most that passes the check is taken.
The check compares next-token logits with those of one full prompt at a time, before the first answer is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from fp2.engines.hf.encoding import Continuation, EncodedPrompts
    from fp2.engines.hf.scoring import Strategy

Sharing = Literal["auto", "tree", "prefix", "vision", "none"]
_LEVELS = ("none", "vision", "prefix", "tree")
_CONTROL_RATIO = 4  # how much larger the difference to a wrong prompt must be
_ROUNDING = 1e-6  # of a model whose logits do not depend on the prompt
_TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}  # relative to the largest logit, or to 1


def candidates(requested: str, allowed: str, checkable: bool, attention: str, proven: str = "auto") -> tuple[str, ...]:
    """Return the levels of sharing to try, the highest first; a single one must pass the check.

    Parameters
    ----------
    requested : str
        `engine.sharing`.
    allowed : str
        What the family allows, `auto` if the family is unknown.
    checkable : bool
        Whether the model computes in float32 without quantisation: only then can the check tell an error from
        rounding, so that otherwise an unknown family shares nothing, and others what is proven.
    attention : str
        Of the loaded model: `tree` needs one that takes a mask.
    proven : str
        What was exact on a small checkpoint of the family, if nothing is known otherwise.
    """
    masks = attention in ("sdpa", "eager")
    if requested == "auto" and allowed == "auto":
        tried = tuple(level for level in reversed(_LEVELS) if masks or level != "tree")
        return tried if checkable else tuple(level for level in tried if level in (proven, "none"))
    if requested == "auto":
        return ("vision" if allowed == "tree" and not masks else allowed,)
    if allowed != "auto" and _LEVELS.index(requested) > _LEVELS.index(allowed):
        raise Fp2Error(
            f"sharing={requested} would give wrong answers: the prompts of this model change what is computed for the "
            "image",
            where="engine.sharing",
            fix=f"Set engine.sharing={allowed} or auto",
        )
    if requested == "tree" and not masks:
        raise Fp2Error(
            f"sharing=tree needs an attention that takes a mask, and the model is loaded with {attention}",
            where="engine.sharing",
            fix="Set engine.attention=sdpa, or engine.sharing=vision",
        )
    if allowed == "auto" and requested not in ("none", proven) and not checkable:
        raise Fp2Error(
            f"sharing={requested} is not known to be exact for this family of models, and can be checked in float32 "
            "only",
            where="engine.sharing",
            fix="Set model.dtype=float32 without quantisation, or engine.sharing=none",
        )
    return (requested,)


@dataclass(frozen=True)
class LogitDifference:
    """How far a strategy is from one full prompt at a time.

    Attributes
    ----------
    error : float
        Largest difference of next-token logits (NaN if any is not a number).
    control : float
        The same with the prompts rolled by one: the difference that mixed-up prompts would make.
    largest : float
        The largest logit.
    probability : float
        Largest difference of next-token probabilities.
    """

    error: float
    control: float
    largest: float
    probability: float = 0.0

    def within(self, dtype: str, quantised: bool) -> bool:
        """Return whether the difference is explained by the rounding of `dtype`."""
        tolerance = _TOLERANCE["bfloat16" if quantised else dtype]
        scale = max(1.0, self.largest)
        return self.error <= tolerance * scale and self.error <= max(self.control / _CONTROL_RATIO, _ROUNDING * scale)


def boundaries(text_config: object) -> set[int]:
    """Return the numbers of tokens after which the attention of some layers changes: windows and chunks."""
    names = ("sliding_window", "attention_chunk_size")
    return {int(size) for name in names if (size := getattr(text_config, name, None))}


def compare(strategy: Strategy, plain: Strategy, encoded: EncodedPrompts, beyond: int = 0) -> LogitDifference:
    """Return the difference between the logits of two strategies for the prompts (at least two) of `encoded`.

    The last prompt goes on with its own tokens until it has more than `beyond` of them.
    """
    import torch

    wanted: list[Continuation] = [(prompt, ()) for prompt in range(len(encoded.suffixes))]
    last = len(wanted) - 1
    missing = beyond + 1 - len(encoded.tokens(last))
    if missing > 0:
        words = encoded.suffixes[last]
        wanted[last] = (last, (words * (missing // len(words) + 1))[:missing])
    logits_of: dict[int, torch.Tensor] = {}
    for _, positions, logits in strategy.logits([encoded], wanted):
        logits_of.update(zip(positions, logits[0], strict=True))
    ours = torch.stack([logits_of[index] for index in range(len(wanted))])
    reference = torch.stack([next(iter(plain.logits([encoded], [index])))[2][0, 0] for index in wanted])
    return LogitDifference(
        float((ours - reference).abs().max()),
        float((ours - reference.roll(1, 0)).abs().max()),
        float(reference.abs().max()),
        float((ours.softmax(-1) - reference.softmax(-1)).abs().max()),
    )


def inexact(level: str, difference: LogitDifference) -> Fp2Error:
    """Return the error for a level of sharing that changes answers."""
    error, largest = difference.error, difference.largest
    return Fp2Error(
        f"sharing={level} changes this model's logits by {error:.2g} (the largest is {largest:.2g})",
        where="engine.sharing",
        fix="Set engine.sharing=none, and report this model's family",
    )
