"""A session with a loaded model: selects the fastest exact strategy, runs the model and reads the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fp2.engines.base import seed_of
from fp2.engines.hf.after_reasoning import score_after_reasoning
from fp2.engines.hf.encoding import EncodedPrompts
from fp2.engines.hf.generation import BatchLimits, Pair, Pick, Sampler, end_tokens_of, greedy, keep_only_end_tokens
from fp2.engines.hf.inputs import ImageQuestions, InputBuilder, TaskInputs
from fp2.engines.hf.likelihoods import YesNoForms, check_options, option_tokens, yes_no_forms
from fp2.engines.hf.model import LoadedModel, is_out_of_memory
from fp2.engines.hf.prefix_policy import boundaries, candidates, compare, inexact
from fp2.engines.hf.reasoning import ReasoningTokens, added_marks
from fp2.engines.hf.scoring import OptionTokens, Strategy, score
from fp2.engines.hf.whole_prompts import WholePrompts
from fp2.engines.reasoning import reasoned_answer, unknown_marks
from fp2.errors import Fp2Error
from fp2.plugins import SHARING, installed, load
from fp2.tables import Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.hf.model import HfSpec
    from fp2.engines.hf.prompts import PromptFormat


def make_strategy(level: str, loaded: LoadedModel, limits: BatchLimits) -> Strategy:
    """Return the strategy of a level of sharing: `vision`, or that of a package."""
    if level == "vision":
        return WholePrompts(loaded.model, share_features=True, limits=limits)
    strategy: Strategy = load(SHARING, level, "engine.sharing")(loaded, limits)
    return strategy


class Session:
    """Runs a loaded model.

    `sharing` is as requested, and resolved with the first image; `stored` are earlier answers by question id, from
    which further ones are drafted. The limits are those of `HfOptions`; `samples` is the number of reasonings before
    each P(Yes), 0 where it is read without.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        spec: HfSpec,
        prompt_format: PromptFormat,
        decoding: Decoding,
        *,
        sharing: str,
        batch_size: int,
        max_tokens: int,
        stored: Mapping[str, Sequence[str]] | None = None,
        samples: int = 0,
    ) -> None:
        self.loaded, self.decoding = loaded, decoding
        self._limits = BatchLimits(batch_size, max_tokens)
        self._reasoning = _reasoning_tokens(loaded, prompt_format, decoding)
        self._spec, self._samples = spec, samples
        self._builder = InputBuilder(loaded, prompt_format, decoding.choice_orders)
        self._plain = WholePrompts(loaded.model, share_features=False, limits=self._limits)
        self._strategy: Strategy | None = None
        self._fallback: Strategy | None = None
        self._sharing = self._requested = sharing
        self._used: set[str] = set()
        self._boundaries = boundaries(loaded.model.config.get_text_config(decoder=True))
        self._checked = 0  # the check went on beyond so many tokens
        self._stored = dict(stored or {})
        self._forms: YesNoForms | None = None
        self._end_tokens = end_tokens_of(loaded.model, loaded.processor.tokenizer)
        keep_only_end_tokens(loaded.model, self._end_tokens)

    @property
    def batch_size(self) -> int:
        """Most (image, question) pairs that are generated together."""
        return self._limits.batch_size

    @property
    def limits(self) -> BatchLimits:
        """The limits of a batch."""
        return self._limits

    @limits.setter
    def limits(self, limits: BatchLimits) -> None:
        self._limits.batch_size, self._limits.max_tokens = limits.batch_size, limits.max_tokens

    @property
    def model_calls(self) -> int:
        """Forward passes and generate calls so far."""
        strategies = {self._plain, self._strategy, self._fallback}
        return sum(strategy.calls for strategy in strategies if strategy is not None)

    def runtime(self) -> dict[str, object]:
        """Return what is recorded and not hashed."""
        record: dict[str, object] = {
            "device": self.loaded.device,
            "attention": self.loaded.attention,
            "batch_size": self.batch_size,
            "sharing": "+".join(sorted(self._used)) or self._sharing,
        }
        if spread := self.loaded.modules_per_device:
            record["spread"] = spread
        if self._strategy is not None:
            record |= self._strategy.record()
        if self._forms is not None:
            record["surface_forms"] = {word: list(forms) for word, forms in self._forms.spellings.items()}
        return record

    def build_inputs(self, task: ImageTask) -> TaskInputs:
        """Decode and encode a task; see `InputBuilder`."""
        return self._builder.build(task)

    def limit_batch_size(self, pairs: int) -> None:
        """Generate at most `pairs` together from now on."""
        self._limits.batch_size = min(self._limits.batch_size, pairs)

    def shrink(self, *, scored: bool) -> bool:
        """Lower the limits from now on; return False if they cannot be lower."""
        packs = self._strategy is None or self._strategy.packs
        return self._limits.halve(tokens=scored and not self._samples and packs)

    def ask(self, batch: Sequence[ImageQuestions]) -> list[Answer]:
        """Return all answers about images of one layout (with the same questions, if answers are scored).

        Raises
        ------
        Fp2Error
            If the strategy does not agree with the plain one, or P(Yes) cannot be read from this model.
        Exception
            Whatever the model raises, out of memory included.
        """
        strategy = self._strategy_for(batch[0].encoded)
        if not batch[0].scored:
            return self._generate(strategy, batch)
        if self._samples:
            return self._after_reasoning(strategy, batch)
        forms, options = self._answer_tokens(batch[0].questions)
        opening = None if self._reasoning is None else self._reasoning.opening
        return score(batch, forms, options, strategy, opens_reasoning=opening)

    def images_together(self, group: ImageQuestions) -> int:
        """Return how many images with these questions are asked about together."""
        if not self.loaded.facts.several_images:
            return 1
        if group.scored and not self._samples:
            return self._strategy_for(group.encoded).images_together(group.encoded)
        return max(1, self.batch_size // (len(group.questions) * max(1, self._samples * group.scored)))

    def _strategy_for(self, encoded: EncodedPrompts) -> Strategy:
        """Return the strategy for `encoded`; it is selected and checked with the first image."""
        if self._strategy is None and self._builder.check_prompts is None:
            self._used.add("none")
            return self._plain  # without any image there is little to share
        # checked again before a window or chunk of attention is crossed: below it a wrong mask changes nothing
        longest = len(encoded.prefix) + max(map(len, encoded.suffixes))
        longest += self.decoding.max_new_tokens + self.decoding.reasoning_budget
        crossed = max((size for size in self._boundaries if size < longest), default=0)
        if crossed > self._checked:
            self._checked, self._strategy, self._fallback = crossed, None, None
        if self._strategy is None:
            self._strategy, self._sharing = self._select(self._requested)
        if self._strategy.supports(encoded):
            self._used.add(self._sharing)
            return self._strategy
        if self._fallback is None:
            sharing = "none" if self._builder.check_prompts is None or self.loaded.facts.sharing == "none" else "vision"
            self._fallback = self._select(sharing)[0] if sharing == "vision" else self._plain
        self._used.add("vision" if self._fallback is not self._plain else "none")
        return self._fallback

    def _select(self, requested: str) -> tuple[Strategy, str]:
        """Return the strategy with the most sharing that is allowed and passes the check, and its level."""
        quantised = self._spec.quantisation is not None
        checkable = self._spec.dtype == "float32" and not quantised
        facts = self.loaded.facts
        levels = candidates(requested, facts.sharing, checkable, self.loaded.attention, facts.proven)
        if requested == "auto":
            levels = tuple(level for level in levels if level in ("vision", "none") or level in installed(SHARING))
        checks = self._builder.check_prompts
        for level in levels:
            strategy = self._plain if level == "none" else make_strategy(level, self.loaded, self._limits)
            if strategy is self._plain or checks is None:
                return strategy, level
            if not strategy.supports(checks):
                if requested == level:
                    raise Fp2Error(
                        f"sharing={level} needs the image before the question, and this prompt has it after",
                        where="engine.sharing",
                        fix="Set engine.sharing=auto, or put {image} first in model.prompt",
                    )
                continue
            try:
                difference = compare(strategy, self._plain, checks, self._checked)
            except Exception as error:  # a strategy may not work for this family at all
                if len(levels) == 1 or is_out_of_memory(error):
                    raise
                continue
            if difference.within(self._spec.dtype, quantised):
                return strategy, level
            if len(levels) == 1:
                raise inexact(level, difference)
        return self._select("vision") if "vision" not in levels and requested == "auto" else (self._plain, "none")

    def _generate(self, strategy: Strategy, batch: Sequence[ImageQuestions]) -> list[Answer]:
        decoding = self.decoding
        pick: Pick = Sampler(decoding, lambda pair: self._seed(batch, pair)) if decoding.sampled else greedy
        if self._stored and strategy.learns:
            self._learn(strategy, batch[0])
        encoded = [group.encoded for group in batch]
        max_tokens = decoding.max_new_tokens
        if self._reasoning is not None and self._end_tokens:
            begun = self._reasoning.begun
            pick = self._reasoning.limited(
                pick, lambda pair: begun(encoded[pair[0]].tokens(pair[1])), min(self._end_tokens)
            )
            max_tokens += decoding.reasoning_budget
        generated = strategy.generate(encoded, pick, self._end_tokens, max_tokens)
        with self.loaded.lock:
            return [
                self._answer(group, question, prompts[0], tokens[prompts[0]])
                for group, tokens in zip(batch, generated, strict=True)
                for question, prompts in group
            ]

    def _after_reasoning(self, strategy: Strategy, batch: Sequence[ImageQuestions]) -> list[Answer]:
        """Return P(Yes) after sampled reasonings, each with a seed of its own."""
        assert self._reasoning is not None
        n_prompts = len(batch[0].encoded.suffixes)

        def seed(pair: Pair) -> int:
            trace, prompt = divmod(pair[1], n_prompts)
            return self._seed(batch, (pair[0], prompt), trace)

        sampled = self.decoding if self.decoding.sampled else replace(self.decoding, temperature=1.0)
        forms, sampler = self._yes_no_forms(), Sampler(sampled, seed)
        with self.loaded.lock:
            return score_after_reasoning(
                batch, forms, strategy, self._reasoning, sampler, self._samples, self._end_tokens
            )

    def _learn(self, strategy: Strategy, group: ImageQuestions) -> None:
        """Let the drafts learn the stored answers to the questions of `group`, once."""
        tokenizer, end = self.loaded.processor.tokenizer, sorted(self._end_tokens)[:1]
        for question, prompts in group:
            for text in self._stored.pop(question.question_id, ()):
                with self.loaded.lock:
                    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
                strategy.learn(group.encoded.suffixes[prompts[0]], [*tokens, *end])

    def _seed(self, batch: Sequence[ImageQuestions], pair: Pair, trace: int = 0) -> int:
        """Return the seed of a pair: it depends only on the question, its sample, the image shown and the run."""
        group, prompt = batch[pair[0]], pair[1]
        question = next(question for question, prompts in group if prompt in prompts)
        if self._samples:
            question = replace(question, sample=question.sample * self._samples + trace)
        return seed_of(self.decoding, group.task, question)

    def _answer(self, group: ImageQuestions, question: Question, prompt: int, tokens: list[int]) -> Answer:
        image_id, question_id = group.task.image_id, question.question_id
        if self._reasoning is None:
            text = self.loaded.processor.tokenizer.decode(tokens, skip_special_tokens=True)
            return Answer(image_id, question_id, text.strip(), tokens=len(tokens))
        begun = self._reasoning.begun(group.encoded.tokens(prompt))
        split, n_reasoning = self._reasoning.split(tokens, begun=begun)
        return reasoned_answer(group.task, question, split, tokens=len(tokens), reasoning_tokens=n_reasoning)

    def _answer_tokens(self, questions: Sequence[Question]) -> tuple[YesNoForms | None, OptionTokens]:
        """Return the tokens of Yes and No, if a question needs them, and those of every option."""
        forms = self._yes_no_forms() if any(question.kind == "yes_no" for question in questions) else None
        choices = [question for question in questions if question.kind == "choice"]
        options = {option for question in choices for option in question.choices}
        with self.loaded.lock:
            tokens_of = {option: option_tokens(self.loaded.processor.tokenizer, option) for option in sorted(options)}
        for question in choices:
            check_options(question, tokens_of)
        return forms, tokens_of

    def _yes_no_forms(self) -> YesNoForms:
        if self._forms is None:
            with self.loaded.lock:
                forms = yes_no_forms(self.loaded.processor.tokenizer, self._spec.yes_no)
                self._forms = replace(forms, softmax=self._spec.softmax_dtype)
        return self._forms


def _reasoning_tokens(loaded: LoadedModel, prompt_format: PromptFormat, decoding: Decoding) -> ReasoningTokens | None:
    """Return the marks of the model's reasoning in tokens: those of its template, or else among its added tokens."""
    tokenizer = loaded.processor.tokenizer
    template = prompt_format.template
    marks = template.marks or added_marks(tokenizer)
    if marks is None:
        if template.possible and (decoding.reasoning not in ("off", "auto") or template.by_default):
            raise unknown_marks(prompt_format.checkpoint.id)
        return None
    return ReasoningTokens(tokenizer, marks, budget=decoding.reasoning_budget, longest=decoding.max_new_tokens)
