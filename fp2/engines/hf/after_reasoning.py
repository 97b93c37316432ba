"""P(Yes) of a model that reasons: its probability after each of some sampled reasonings, and the mean of them.

The probability of an answer is an expectation over reasonings, estimated from as many as are sampled. Of each the
logits are read where the answer begins, in the pass that generates it: all reasonings of all questions about an image
share one computation of the image. A reasoning without an end within its limit gives no probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, variance
from typing import TYPE_CHECKING, Any

from fp2.engines.base import STANDARD_ERROR, failed, standard_error, yes_no_numbers
from fp2.engines.hf.likelihoods import likelier, read_yes_no
from fp2.tables import STILL_REASONING, TRACE, TRACE_TOKENS, Answer

if TYPE_CHECKING:
    import torch

    from fp2.engines.hf.generation import Pair, Pick
    from fp2.engines.hf.inputs import ImageQuestions
    from fp2.engines.hf.likelihoods import YesNoForms
    from fp2.engines.hf.reasoning import ReasoningTokens
    from fp2.engines.hf.scoring import Strategy

P_YES_OF_TRACES, TRACE_VARIANCE = "p_yes_of_traces", "trace_variance"
"""Keys of the numbers of an answer: P(Yes) after each reasoning, and their variance (None of one)."""
_MEANS = ("p_yes", "p_no", "p_yes_first_token", "p_no_first_token")


def score_after_reasoning(
    batch: Sequence[ImageQuestions],
    forms: YesNoForms,
    source: Strategy,
    reasoning: ReasoningTokens,
    sampler: Pick,
    samples: int,
    end_tokens: set[int],
) -> list[Answer]:
    """Return the answers to yes/no questions about images with the same questions.

    Parameters
    ----------
    sampler : Pick
        Samples the reasonings. Reasoning `t` of the prompt `p` among n is the prompt `t * n + p`.
    samples : int
        Reasonings of each question.
    """
    repeated = [replace(group.encoded, suffixes=group.encoded.suffixes * samples) for group in batch]
    read: dict[Pair, dict[str, float]] = {}

    def keep(pairs: Sequence[Pair], logits: torch.Tensor) -> None:
        read.update(zip(pairs, read_yes_no(logits, forms), strict=True))

    def begun(pair: Pair) -> bool:
        return reasoning.begun(repeated[pair[0]].tokens(pair[1]))

    pick = reasoning.until_answer(sampler, begun, end_tokens, keep)
    generated = source.generate(repeated, pick, end_tokens, reasoning.longest_to_answer)
    answers = []
    for image, group in enumerate(batch):
        for question, (prompt,) in group:
            traces = range(prompt, len(repeated[image].suffixes), len(group.encoded.suffixes))
            numbers = [read[image, trace] for trace in traces if (image, trace) in read]
            tokens = [generated[image][trace] for trace in traces]
            if not numbers:
                reason = f"{STILL_REASONING} in all of {samples} samples (decoding.reasoning)"
                answers.append(failed(group.task, question, reason))
                continue
            splits = [
                reasoning.split(each, begun=begun((image, trace))) for each, trace in zip(tokens, traces, strict=True)
            ]
            texts = [split.reasoning for split, _ in splits if split.reasoning]
            means = mean_numbers(numbers) | {TRACE: "\n\n".join(texts), TRACE_TOKENS: sum(n for _, n in splits)}
            n_tokens = sum(map(len, tokens))
            answers.append(
                Answer(group.task.image_id, question.question_id, likelier(means), tokens=n_tokens, numbers=means)
            )
    return answers


def mean_numbers(numbers: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the numbers of a yes/no answer from those after each reasoning.

    P(Yes) and P(No) are means; what is defined by them (`Answer.numbers`) is computed from the means.
    """
    means = {name: fmean(each[name] for each in numbers) for name in _MEANS}
    yes, no = (max(means[name], math.ulp(0.0)) for name in ("p_yes", "p_no"))
    of_traces = [each["p_yes"] for each in numbers]
    return {
        **yes_no_numbers(yes, no),
        **means,
        P_YES_OF_TRACES: of_traces,
        TRACE_VARIANCE: variance(of_traces) if len(of_traces) > 1 else None,
        STANDARD_ERROR: standard_error(of_traces),
    }
