"""What the questions about a picture may share, and proof that sharing changes no answer.

`tree` shares the common beginning of all prompts, picture included; `vision` the picture's features; `none` nothing.
A model's family says how far it may go (`families`); where no family is known, the most that passes the check below is
taken. The check compares next-token logits with those of one full prompt at a time before the first answer is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from fp2.errors import Fp2Error, nearest

if TYPE_CHECKING:
    from fp2.engines.hf.encoding import Stimulus
    from fp2.engines.hf.shared_prefix import SharedPrefix
    from fp2.engines.hf.whole_prompts import WholePrompts

Sharing = Literal["auto", "tree", "vision", "none"]
_STRENGTH = ("none", "vision", "tree")
_APART = 4  # how many times further a wrong prompt must be off than the right one
_ROUNDING = 1e-6  # of a model whose prompts move nothing
_TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}  # of the largest logit, or of 1


def check_sharing(name: str) -> None:
    """Raise `Fp2Error` if there is no such way of sharing."""
    if name not in get_args(Sharing):
        hint = nearest(name, get_args(Sharing))
        raise Fp2Error(f"unknown way of sharing {name!r}", where="engine.sharing", fix=hint)


def ways_to_try(asked: str, allowed: str, fine: bool, attention: str) -> tuple[str, ...]:
    """Return the ways of sharing to try, the most first; each must pass the check, and a sole one must not fail it.

    Parameters
    ----------
    asked : str
        `engine.sharing`.
    allowed : str
        What the family allows, `auto` where the family is not known.
    fine : bool
        Whether the model computes in float32, unquantised: only then can the check tell a wrong way from rounding, so
        that nothing is shared by an unknown family otherwise.
    attention : str
        Of the loaded model: a tree needs one that takes a mask.

    Raises
    ------
    Fp2Error
        If more is asked for than the family, the attention or the check allows.
    """
    masks = attention in ("sdpa", "eager")
    if asked == "auto" and allowed == "auto":
        return tuple(way for way in reversed(_STRENGTH) if masks or way != "tree") if fine else ("none",)
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
    if allowed == "auto" and asked != "none" and not fine:
        raise Fp2Error(
            f"sharing={asked} is not known to be exact for this family of models, and can be checked in float32 only",
            where="engine.sharing",
            fix="Set model.dtype=float32 without quantisation, or engine.sharing=none",
        )
    return (asked,)


@dataclass(frozen=True)
class Difference:
    """How far a way of asking is from one full prompt at a time.

    Attributes
    ----------
    right : float
        Largest difference of next-token logits (NaN if any is not a number).
    wrong : float
        The same against the prompts rolled by one: what a confusion would make.
    largest : float
        The largest logit.
    """

    right: float
    wrong: float
    largest: float

    def within(self, dtype: str, quantised: bool) -> bool:
        """Return whether the difference is no more than the rounding of `dtype` explains."""
        share = _TOLERANCE["bfloat16" if quantised else dtype]
        scale = max(1.0, self.largest)
        return self.right <= share * scale and self.right <= max(self.wrong / _APART, _ROUNDING * scale)


def difference(way: SharedPrefix | WholePrompts, plain: WholePrompts, shown: Stimulus) -> Difference:
    """Ask the prompts of `shown` (at least two) both ways, and return how far apart the logits are."""
    import torch

    wanted = [(prompt, ()) for prompt in range(len(shown.tails))]
    ours: dict[int, torch.Tensor] = {}
    for places, logits in way.read(shown, wanted):
        ours.update(zip(places, logits, strict=True))
    one_by_one = [next(iter(plain.read(shown, [place])))[1][0] for place in wanted]
    mine, theirs = torch.stack([ours[place] for place in range(len(wanted))]), torch.stack(one_by_one)
    return Difference(
        float((mine - theirs).abs().max()),
        float((mine - theirs.roll(1, 0)).abs().max()),
        float(theirs.abs().max()),
    )


def refusal(way: str, found: Difference) -> Fp2Error:
    """Return the error for a way of sharing that changes answers."""
    return Fp2Error(
        f"sharing={way} changes this model's logits by {found.right:.2g} (the largest is {found.largest:.2g})",
        where="engine.sharing",
        fix="Set engine.sharing=none, and report this model's family",
    )
