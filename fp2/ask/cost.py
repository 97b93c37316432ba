"""What answers, and scores of their texts, will cost on servers with a price per token, and the cap on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fp2.engines.base import IMAGE_TOKENS, TEMPLATE_TOKENS, TOKENS_A_WORD
from fp2.errors import Fp2Error
from fp2.tables import IN_WORDS

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.storage import Forecast, Storage
    from fp2.engines.base import Engine, Price
    from fp2.scorers.base import AsksModel, Scorer
    from fp2.tables import Decoding, Question


@dataclass(frozen=True)
class Cost:
    """An estimate: `amount` in the currency of the prices, for `requests` of so many tokens in and out each.

    `measured`: whether the tokens out are the mean of stored answers; otherwise they are the most that is generated.
    `scorer` is the scorer that asks, None of answers.
    """

    amount: float
    requests: int
    tokens_in: float
    tokens_out: float
    measured: bool
    scorer: str | None = None

    def __str__(self) -> str:
        """Return the estimate and what it is based on."""
        basis = "as stored answers have" if self.measured else "the most that is generated"
        image = f" ({IMAGE_TOKENS:,} of them assumed for the image)" if self.scorer is None else ""
        of = "" if self.scorer is None else f" of scorer {self.scorer}"
        return (
            f"about {self.amount:,.2f} for {self.requests:,} requests{of}: {self.tokens_in:,.0f} tokens in{image}, "
            f"{self.tokens_out:,.0f} out ({basis})"
        )


def reasoning_budget(engine: Engine, questions: Sequence[Question], decoding: Decoding) -> int:
    """Return the most tokens of the reasoning before an answer; 0 where the model is not known to reason."""
    of_each_kind = {question.kind: question for question in questions}.values()
    methods = [engine.method(question) for question in of_each_kind]
    reasons = any(method.get("reasoning", "off") not in ("off", {}) for method in methods)
    return decoding.reasoning_budget if reasons else 0


def expected_cost(
    forecast: Forecast, engine: Engine, questions: Sequence[Question], decoding: Decoding, price: Price
) -> Cost:
    """Return what the answers that the store lacks will cost, each asked once."""
    words_a_question = sum(len(question.text.split()) for question in questions) / max(1, len(questions))
    tokens_in = IMAGE_TOKENS + TEMPLATE_TOKENS + words_a_question * TOKENS_A_WORD
    most_tokens = decoding.max_new_tokens + reasoning_budget(engine, questions, decoding)
    tokens_out = float(most_tokens) if forecast.tokens is None else forecast.tokens
    requests = round(forecast.left * n_samples(engine, questions, decoding))
    if forecast.tokens is not None:
        tokens_out *= forecast.left / max(1, requests)  # those of a stored answer are of all its samples
    amount = requests * (tokens_in * price.input + tokens_out * price.output) / 1e6
    return Cost(amount, requests, tokens_in, tokens_out, forecast.tokens is not None)


def n_samples(engine: Engine, questions: Sequence[Question], decoding: Decoding) -> float:
    """Return how many texts the model generates for an answer, on average: more than one where it is an estimate."""
    return sum(_n_requests(engine, question, decoding) for question in questions) / max(1, len(questions))


def _n_requests(engine: Engine, question: Question, decoding: Decoding) -> int:
    """Return how many requests an answer takes: one, or as many as are sampled in each order of the options."""
    from fp2.engines.base import option_orders

    samples = 1 if question.kind in IN_WORDS else int(engine.method(question).get("samples", 0))
    if question.kind != "choice" or not samples:
        return samples or 1
    return samples * len(option_orders(question, decoding.choice_orders))


@dataclass(frozen=True)
class Scoring:
    """What a scorer that asks a model has left to ask.

    Attributes
    ----------
    texts : int
        Distinct texts of stored answers that it has no value of.
    more : int
        Answers that are not there yet, each of which is one text more at most.
    cost : Cost, optional
        Of both, where the price is known.
    """

    texts: int
    more: int
    cost: Cost | None


def expected_scoring(scorer: AsksModel, answered: pd.DataFrame, more: int = 0, most_tokens: int = 0) -> Scoring:
    """Return what a scorer has left to ask; `most_tokens` is the length that is assumed of answers not yet there."""
    unscored = scorer.left(answered)
    n = len(unscored) + more
    if (price := scorer.price) is None or not n:
        return Scoring(len(unscored), more, None)
    n_words = sum(scorer.words(*pair) for pair in unscored.values()) + more * scorer.words("", "")
    tokens_in = TEMPLATE_TOKENS + (n_words * TOKENS_A_WORD + more * most_tokens) / n
    amount = n * (tokens_in * price.input + scorer.most_tokens * price.output) / 1e6
    return Scoring(len(unscored), more, Cost(amount, n, tokens_in, float(scorer.most_tokens), False, scorer.name))


def expected_scorings(
    storage: Storage, scorers: Mapping[str, Scorer], decoding: Decoding, forecast: Forecast
) -> list[tuple[str, Scoring]]:
    """Return what each scorer that asks a model has left to ask of a run whose answers are not all there, by name."""
    from fp2.ask.answers import RowAnswers

    if not (asking := by_model(scorers)):
        return []
    answers = storage.answers()
    assert isinstance(answers, RowAnswers)
    answered, longest = answers.answered, decoding.max_new_tokens
    return [(scorer.name, expected_scoring(scorer, answered, forecast.left, longest)) for scorer in asking]


def check_scoring_cost(scorers: Mapping[str, Scorer], answered: pd.DataFrame, cap: float) -> None:
    """Raise if scoring stored answers costs more than the cap; a scorer without a price does not count."""
    check_cost([cost for scorer in by_model(scorers) if (cost := expected_scoring(scorer, answered).cost)], cap)


def by_model(scorers: Mapping[str, Scorer]) -> list[AsksModel]:
    """Return the scorers that ask a model."""
    from fp2.scorers.base import AsksModel

    return [scorer for scorer in scorers.values() if isinstance(scorer, AsksModel)]


def check_cost(costs: Sequence[Cost], cap: float) -> None:
    """Raise if the sum of the estimates is above the cap."""
    if sum(cost.amount for cost in costs) > cap:
        fix = "Raise answers.max_cost, or ask less: data.limit=N"
        estimates = " and ".join(str(cost) for cost in costs)
        raise Fp2Error(f"the run would cost {estimates}", where=f"answers.max_cost={cap:g}", fix=fix)
