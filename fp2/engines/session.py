"""A loaded model at work: it settles on the fastest way of asking that is exact for it, asks, and reads the answers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fp2.engines.base import Answer, Decoding, ImageTask, Question
from fp2.engines.choices import option_tokens
from fp2.engines.generation import Pair, Sampler, end_tokens, greedy
from fp2.engines.prompt_ids import Shown
from fp2.engines.ready import Made, Maker, Ready
from fp2.engines.scored import Options, Reading
from fp2.engines.shared_prefix import SharedPrefix
from fp2.engines.sharing import agrees, largest_difference, refuse, ways_to_try
from fp2.engines.whole_prompts import WholePrompts
from fp2.engines.yes_no import YesNoForms, yes_no_forms
from fp2.hashing import digest

if TYPE_CHECKING:
    from fp2.engines.hf_loading import HfSpec, LoadedModel
    from fp2.engines.prompts import PromptFormat

Way = SharedPrefix | WholePrompts


class Session:
    """Asks a loaded model.

    Parameters
    ----------
    loaded : LoadedModel
    spec : HfSpec
    prompt_format : PromptFormat
    decoding : Decoding
    sharing : str
        As asked for; settled with the first picture.
    batch_size, max_tokens : int
        See `HfEngine`.
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
    ) -> None:
        self.loaded, self.decoding = loaded, decoding
        self.batch_size = batch_size
        self._spec, self._max_tokens = spec, max_tokens
        self._lock = threading.Lock()
        self._maker = Maker(loaded, prompt_format, decoding.choice_orders, self._lock)
        self._plain = WholePrompts(loaded.model, share_pictures=False, batch_size=batch_size)
        self._way: Way | None = None
        self._sharing = sharing
        self._forms: YesNoForms | None = None
        self._stops = end_tokens(loaded.model, loaded.processor.tokenizer)

    @property
    def model_calls(self) -> int:
        """Forward passes and generate calls so far."""
        return sum(way.calls for way in {self._plain, self._way} if way is not None)

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded and never hashed."""
        found: dict[str, Any] = {
            "device": self.loaded.device,
            "attention": self.loaded.attention,
            "batch_size": self.batch_size,
            "sharing": self._sharing,
        }
        if self.loaded.spread:
            found["spread"] = self.loaded.spread
        if self._forms is not None:
            found["surface_forms"] = {word: list(forms) for word, forms in self._forms.spellings.items()}
        return found

    def make_ready(self, task: ImageTask) -> Made:
        """Decode and prepare the picture of `task`; see `Maker`."""
        return self._maker.make(task)

    def shrink(self) -> bool:
        """Take smaller parts from now on; return False when they cannot be any smaller."""
        return self._way is not None and self._way.shrink()

    def ask(self, group: Sequence[Ready]) -> list[Answer]:
        """Ask about pictures of one layout (about one picture, where answers are scored); return all their answers.

        Raises
        ------
        Fp2Error
            If the fast way of asking does not agree with the plain one, or P(Yes) cannot be read from this model.
        Exception
            Whatever the model raises, out of memory included.
        """
        way = self._way_for(group[0].shown)
        if not group[0].scored:
            return self._words(way, group)
        questions = group[0].questions
        forms = self._yes_no() if any(question.kind == "yes_no" for question in questions) else None
        return Reading(group[0], forms, self._options(questions)).answers(way)

    def _way_for(self, shown: Shown) -> Way:
        """Return the way to ask about `shown`: settled and checked with the first picture."""
        if not SharedPrefix.fits(shown) and self._way is None:
            return self._plain  # nothing to settle it with
        if self._way is None:
            self._way, self._sharing = self._settled(shown)
        return self._way if self._way.fits(shown) else self._plain

    def _settled(self, shown: Shown) -> tuple[Way, str]:
        ways = ways_to_try(self._sharing, self.loaded.facts.sharing, self._spec.dtype, self.loaded.attention)
        for name in ways:
            way = self._build(name)
            if way is self._plain:
                return way, name
            try:
                found = largest_difference(way, self._plain, shown)
            except (RuntimeError, TypeError, ValueError, AttributeError, KeyError):
                if len(ways) == 1:
                    raise
                continue  # a family that nobody has tried yet, and this way is not for it
            if agrees(*found, self._spec.dtype, self._spec.quantisation is not None):
                return way, name
            if len(ways) == 1:
                raise refuse(name, *found)
        return self._plain, "none"

    def _build(self, name: str) -> Way:
        if name == "tree":
            return SharedPrefix(self.loaded.model, self.loaded.facts.text_model, self._max_tokens)
        if name == "vision":
            return WholePrompts(self.loaded.model, share_pictures=True, batch_size=self.batch_size)
        return self._plain

    def _words(self, way: Way, group: Sequence[Ready]) -> list[Answer]:
        """Generate text."""
        sampled = self.decoding.temperature > 0
        pick = Sampler(self.decoding.temperature, lambda pair: self._seed(group, pair)) if sampled else greedy
        words = way.generate([ready.shown for ready in group], pick, self._stops, self.decoding.max_new_tokens)
        with self._lock:
            return [
                self._answer(ready.task, question, said[prompts[0]])
                for ready, said in zip(group, words, strict=True)
                for question, prompts in ready
            ]

    def _seed(self, group: Sequence[Ready], pair: Pair) -> int:
        """Return a seed that depends on the question, the picture and the run's seed, and on nothing else."""
        ready, prompt = group[pair[0]], pair[1]
        question = next(question for question, prompts in ready if prompt in prompts)
        task = ready.task
        parts = [self.decoding.seed, task.pixel_sha256, task.variant, dict(task.variant_params), question.text]
        return int(digest(parts)[:15], 16)

    def _answer(self, task: ImageTask, question: Question, tokens: list[int]) -> Answer:
        text = self.loaded.processor.tokenizer.decode(tokens, skip_special_tokens=True)
        return Answer(task.image_id, question.question_id, text.strip(), tokens=len(tokens))

    def _options(self, questions: Sequence[Question]) -> Options:
        named = {option for question in questions if question.kind == "choice" for option in question.choices}
        with self._lock:
            return {option: option_tokens(self.loaded.processor.tokenizer, option) for option in sorted(named)}

    def _yes_no(self) -> YesNoForms:
        if self._forms is None:
            with self._lock:
                self._forms = yes_no_forms(self.loaded.processor.tokenizer)
        return self._forms
