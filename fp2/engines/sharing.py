"""What the questions about a picture may share, and proof that sharing changes no answer.

`tree` shares the common beginning of all prompts, picture included; `vision` the picture's features; `none` nothing.
A model's family says how far it may go (`families`); where no family is known, the most that passes the check below is
taken. The check compares next-token logits with those of one full prompt at a time before the first answer is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from fp2.errors import Fp2Error, nearest

if TYPE_CHECKING:
    from fp2.engines.prompt_ids import Shown
    from fp2.engines.shared_prefix import SharedPrefix
    from fp2.engines.whole_prompts import WholePrompts

Sharing = Literal["auto", "tree", "vision", "none"]
_STRENGTH = ("none", "vision", "tree")
_CHECKED_PROMPTS, _TREE_OF = 3, 24
_TOLERANCE = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}  # of the largest logit, or of 1


def check_sharing(name: str) -> None:
    """Raise `Fp2Error` if there is no such way of sharing."""
    if name not in get_args(Sharing):
        hint = nearest(name, get_args(Sharing))
        raise Fp2Error(f"unknown way of sharing {name!r}", where="engine.sharing", fix=hint)


def ways_to_try(asked: str, allowed: str, dtype: str, attention: str) -> tuple[str, ...]:
    """Return the ways of sharing to try, the most first; all but a sole one must pass the check or give way.

    Parameters
    ----------
    asked : str
        `engine.sharing`.
    allowed : str
        What the family allows, `auto` where the family is not known.
    dtype, attention : str
        Of the loaded model: a tree needs an attention that takes a mask, and an unknown family numbers fine enough for
        the check to tell.

    Raises
    ------
    Fp2Error
        If more is asked for than the family or the attention allows.
    """
    masks = attention in ("sdpa", "eager")
    if asked == "auto" and allowed == "auto":
        return tuple(way for way in reversed(_STRENGTH) if masks or way != "tree") if dtype == "float32" else ("none",)
    if asked == "auto":
        return ("vision" if allowed == "tree" and not masks else allowed,)
    if allowed != "auto" and _STRENGTH.index(asked) > _STRENGTH.index(allowed):
        raise Fp2Error(
            f"sharing={asked} would give wrong answers: this model's prompts change what is computed of the picture",
            where="engine.sharing",
            fix=f"Set engine.sharing={allowed} or auto",
        )
    if asked == "tree" and not masks:
        raise Fp2Error(
            f"sharing=tree needs an attention that takes a mask, and the model is loaded with {attention}",
            where="engine.sharing",
            fix="Set engine.attention=sdpa, or engine.sharing=vision",
        )
    return (asked,)


def largest_difference(way: SharedPrefix | WholePrompts, plain: WholePrompts, shown: Shown) -> tuple[float, float]:
    """Return the largest difference of next-token logits between two ways of asking, and the largest logit."""
    prompts = _spread(range(len(shown.tails)), _TREE_OF)
    chosen = _spread(prompts, _CHECKED_PROMPTS)
    ours: dict[int, Any] = {}
    for places, logits in way.read(shown, [(prompt, ()) for prompt in prompts]):
        ours.update({prompts[place]: row for place, row in zip(places, logits, strict=True)})
    difference = largest = 0.0
    for prompt in chosen:
        for _, logits in plain.read(shown, [(prompt, ())]):
            difference = max(difference, float((ours[prompt] - logits[0]).abs().max()))
            largest = max(largest, float(logits[0].abs().max()))
    return difference, largest


def _spread(items: Sequence[int], n: int) -> list[int]:
    """Return up to `n` of `items`, evenly spread, the first and the last among them."""
    if len(items) <= n:
        return list(items)
    return [items[round(step * (len(items) - 1) / (n - 1))] for step in range(n)]


def agrees(difference: float, largest: float, dtype: str, quantised: bool) -> bool:
    """Return whether a difference is no more than the rounding of `dtype` explains."""
    share = _TOLERANCE[dtype] if not quantised else max(_TOLERANCE.values())
    return difference <= share * max(1.0, largest)


def refuse(way: str, difference: float, largest: float) -> Fp2Error:
    """Return the error for a way of sharing that changes answers."""
    return Fp2Error(
        f"sharing={way} changes this model's logits by {difference:.2g} (the largest is {largest:.2g})",
        where="engine.sharing",
        fix="Set engine.sharing=none, and report this model's family",
    )
