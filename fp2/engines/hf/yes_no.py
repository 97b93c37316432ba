"""P(Yes) and P(No) from the next-token distribution: over every way to write them, and of the first token alone.

The published GRAS code takes the probability of the single first token of `Yes` in the model's own dtype; that number
is kept as `p_yes_first_token`, from a float32 softmax over the full vocabulary. Models spread their answer over several
spellings (`Yes`, ` yes`, `YES`), so `p_yes` and `p_no` sum over all tokens that read yes or no without case and blanks.
`mass = p_yes + p_no` says whether the model answers the question at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.engines.base import BLANKS
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import torch

YES_NO_METHOD = "yes_no/1"  # raise the number with every change that can change a number
RULE = "all tokens that read 'yes' or 'no' without case and blanks"


@dataclass(frozen=True)
class YesNoForms:
    """The tokens of a vocabulary that read Yes and No: all of them, and the first token of the plain word."""

    yes: tuple[int, ...]
    no: tuple[int, ...]
    yes_first: int
    no_first: int
    spellings: Mapping[str, tuple[str, ...]]


def yes_no_forms(tokenizer: Any) -> YesNoForms:
    """Return the surface forms of Yes and No in a tokenizer's vocabulary.

    Raises
    ------
    Fp2Error
        If no single token reads yes, or none reads no.
    """
    found: dict[str, list[int]] = {"yes": [], "no": []}
    for token, index in tokenizer.get_vocab().items():
        word = token.strip(BLANKS).casefold()
        if word in found and tokenizer.decode([index]).strip().casefold() == word:
            found[word].append(int(index))
    for word, tokens in found.items():
        if not tokens:
            raise Fp2Error(
                f"no token of this model's vocabulary reads {word!r}, so P(Yes) cannot be read from its logits",
                where="model.id",
                fix="Ask in words (kind: text), or choose another model",
            )
    first = {word: int(tokenizer(word.title(), add_special_tokens=False)["input_ids"][0]) for word in found}
    spellings = {word: tuple(tokenizer.convert_ids_to_tokens(sorted(tokens))) for word, tokens in found.items()}
    yes, no = (tuple(sorted(found[word])) for word in ("yes", "no"))
    return YesNoForms(yes, no, first["yes"], first["no"], spellings)


def read_yes_no(logits: torch.Tensor, forms: YesNoForms) -> list[dict[str, float]]:
    """Return the numbers of a yes/no answer (`Answer.numbers`) for each row of next-token logits [n, vocabulary].

    `logit_difference` is log p_yes - log p_no, positive for Yes; `p_yes_norm` is its logistic function.
    """
    import torch

    logits = logits.float()
    total = torch.logsumexp(logits, dim=-1)
    yes = torch.logsumexp(logits[:, list(forms.yes)], dim=-1) - total
    no = torch.logsumexp(logits[:, list(forms.no)], dim=-1) - total
    columns = {
        "p_yes": yes.exp(),
        "p_no": no.exp(),
        "p_yes_first_token": (logits[:, forms.yes_first] - total).exp(),
        "p_no_first_token": (logits[:, forms.no_first] - total).exp(),
        "p_yes_norm": torch.sigmoid(yes - no),
        "mass": torch.logaddexp(yes, no).exp(),
        "logit_difference": yes - no,
    }
    values = torch.stack(list(columns.values()), dim=1).tolist()
    return [dict(zip(columns, row, strict=True)) for row in values]


def likelier(numbers: Mapping[str, float]) -> str:
    """Return the likelier of `Yes` and `No`."""
    return "Yes" if numbers["logit_difference"] >= 0 else "No"
