"""The harness's own engine, asked through its public interface: tasks with questions in, answers with numbers out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.tables import Answer, Decoding, ImageTask
from prefix_sharing_parts.calibration import clock

if TYPE_CHECKING:
    import torch


class Ours:
    """An engine over one checkpoint folder, ready to be timed.

    Parameters
    ----------
    folder : Path
        The checkpoint.
    threads : int
        CPU threads.
    device, dtype, attention : str
        As for `model` and `engine` settings.
    max_new_tokens : int
        Length of generated answers.
    """

    def __init__(
        self,
        folder: Path,
        threads: int,
        device: str = "cpu",
        dtype: Any = "float32",
        max_new_tokens: int = 40,
        attention: str | None = None,
    ) -> None:
        from fp2.engines.hf.engine import HfEngine, HfOptions
        from fp2.engines.hf.model import HfSpec
        from fp2.engines.hf.placement import Placement

        decoding = Decoding(max_new_tokens=max_new_tokens)
        spec = HfSpec(str(folder), dtype=dtype, placement=Placement(attention=attention))
        self.engine = HfEngine(spec, decoding, HfOptions(device=device, threads=threads))
        self.seconds: list[float] = []

    def answers(self, *tasks: ImageTask) -> dict[tuple[str, str], Answer]:
        """Ask everything about the images of `tasks`; return the answers by image and question.

        Raises
        ------
        RuntimeError
            If a question has no answer.
        """
        started = clock()
        found = [answer for batch in self.engine.answer(tasks) for answer in batch]
        self.seconds.append(clock() - started)
        for answer in found:
            if answer.error is not None:
                raise RuntimeError(f"{answer.question_id}: {answer.error}")
        return {(answer.image_id, answer.question_id): answer for answer in found}


class Reference:
    """P(Yes) read from a full forward pass, by formulas of our own: what the engine's numbers are compared with."""

    def __init__(self, tokenizer: Any) -> None:
        vocabulary = tokenizer.get_vocab()
        read = {token: index for token, index in vocabulary.items() if token.lstrip("\u0120").isascii()}
        self.groups = {
            word: sorted(index for token, index in read.items() if token.lstrip("\u0120").lower() == word)
            for word in ("yes", "no")
        }
        self.first = {word: vocabulary[word.title()] for word in ("yes", "no")}

    def logs(self, logits: torch.Tensor) -> dict[str, float]:
        """Return the natural logarithms of the probabilities that the engine gives, from logits [vocabulary]."""
        import torch

        log_p = torch.log_softmax(logits.double(), dim=-1)
        sums = {word: float(torch.logsumexp(log_p[group], dim=0)) for word, group in self.groups.items()}
        return {
            "p_yes": sums["yes"],
            "p_no": sums["no"],
            "p_yes_first_token": float(log_p[self.first["yes"]]),
            "p_no_first_token": float(log_p[self.first["no"]]),
            "logit_difference": sums["yes"] - sums["no"],
        }


def difference(ours: Answer, reference: dict[str, float]) -> float:
    """Return the largest difference of log probabilities and of the logit difference between two readings."""
    numbers = ours.numbers or {}
    found = [
        abs((numbers[name] if name == "logit_difference" else math.log(numbers[name])) - value)
        for name, value in reference.items()
    ]
    return max(found)


def differences(ours: Sequence[Answer], references: Sequence[dict[str, float]]) -> float:
    """Return the largest `difference` over pairs."""
    return max(difference(one, other) for one, other in zip(ours, references, strict=True))
