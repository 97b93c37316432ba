"""A loaded model at work: it settles on the fastest way of asking that is exact for it, asks, and reads the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fp2.engines.base import seed_of
from fp2.engines.hf.choices import check_options, option_tokens
from fp2.engines.hf.encoding import Stimulus
from fp2.engines.hf.generation import Pair, Sampler, end_tokens, greedy, only_end_tokens
from fp2.engines.hf.inputs import Made, Maker, Ready
from fp2.engines.hf.loading import is_out_of_memory
from fp2.engines.hf.prefix_policy import difference, refusal, ways_to_try
from fp2.engines.hf.scoring import Options, Reading
from fp2.engines.hf.shared_prefix import SharedPrefix
from fp2.engines.hf.whole_prompts import WholePrompts
from fp2.engines.hf.yes_no import YesNoForms, yes_no_forms
from fp2.engines.limits import Limits
from fp2.errors import Fp2Error
from fp2.tables import Answer, Decoding, ImageTask, Question

if TYPE_CHECKING:
    from fp2.engines.hf.loading import HfSpec, LoadedModel
    from fp2.engines.hf.prompts import PromptFormat

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
        self._limits = Limits(batch_size, max_tokens)
        self._spec = spec
        self._lock = loaded.lock
        self._maker = Maker(loaded, prompt_format, decoding.choice_orders, self._lock)
        self._plain = WholePrompts(loaded.model, share_pictures=False, limits=self._limits)
        self._way: Way | None = None
        self._beside: Way | None = None
        self._sharing = sharing
        self._used: set[str] = set()
        self._forms: YesNoForms | None = None
        self._stops = end_tokens(loaded.model, loaded.processor.tokenizer)
        only_end_tokens(loaded.model, self._stops)

    @property
    def batch_size(self) -> int:
        """Most (picture, question) pairs that are generated side by side."""
        return self._limits.batch_size

    @property
    def limits(self) -> Limits:
        """How much goes side by side."""
        return self._limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._limits.batch_size, self._limits.max_tokens = limits.batch_size, limits.max_tokens

    @property
    def model_calls(self) -> int:
        """Forward passes and generate calls so far."""
        return sum(way.calls for way in {self._plain, self._way, self._beside} if way is not None)

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded and never hashed."""
        found: dict[str, Any] = {
            "device": self.loaded.device,
            "attention": self.loaded.attention,
            "batch_size": self.batch_size,
            "sharing": "+".join(sorted(self._used)) or self._sharing,
        }
        if self.loaded.spread:
            found["spread"] = self.loaded.spread
        if self._forms is not None:
            found["surface_forms"] = {word: list(forms) for word, forms in self._forms.spellings.items()}
        return found

    def make_ready(self, task: ImageTask) -> Made:
        """Decode and prepare the picture of `task`; see `Maker`."""
        return self._maker.make(task)

    def fit(self, pairs: int) -> None:
        """Generate at most `pairs` side by side from now on."""
        self._limits.batch_size = min(self._limits.batch_size, pairs)

    def shrink(self, *, scored: bool) -> bool:
        """Take smaller parts from now on; return False when they cannot be any smaller."""
        by_tree = scored and not isinstance(self._way, WholePrompts)
        return self._limits.shrink(tokens=by_tree)

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

    def _way_for(self, shown: Stimulus) -> Way:
        """Return the way to ask about `shown`; the ways are settled and checked with the first picture there is."""
        if self._way is None and self._maker.trial is None:
            self._used.add("none")
            return self._plain  # without any picture there is little to share
        if self._way is None:
            self._way, self._sharing = self._settled(self._sharing)
        if self._way.fits(shown):
            self._used.add(self._sharing)
            return self._way
        return self._way_beside(shown)

    def _way_beside(self, shown: Stimulus) -> Way:
        """Return how to ask where prompts do not begin with the picture: its features may be shared all the same."""
        if self._beside is None:
            few = "none" if self._maker.trial is None or self.loaded.facts.sharing == "none" else "vision"
            self._beside = self._settled(few)[0] if few == "vision" else self._plain
        self._used.add("vision" if self._beside is not self._plain else "none")
        return self._beside

    def _settled(self, asked: str) -> tuple[Way, str]:
        """Return the strongest way that is allowed and passes the check, with its name."""
        fine = self._spec.dtype == "float32" and self._spec.quantisation is None
        ways = ways_to_try(asked, self.loaded.facts.sharing, fine, self.loaded.attention)
        trial = self._maker.trial
        for name in ways:
            way = self._build(name)
            if way is self._plain or trial is None:
                return way, name
            if not way.fits(trial):
                if asked == name:
                    raise _apart(name)
                continue
            try:
                found = difference(way, self._plain, trial)
            except Exception as error:  # a way may be not for this family at all
                if len(ways) == 1 or is_out_of_memory(error):
                    raise
                continue
            if found.within(self._spec.dtype, self._spec.quantisation is not None):
                return way, name
            if len(ways) == 1:
                raise refusal(name, found)
        return self._settled("vision") if "vision" not in ways and asked == "auto" else (self._plain, "none")

    def _build(self, name: str) -> Way:
        if name == "tree":
            return SharedPrefix(self.loaded.model, self.loaded.facts.text_model, self._limits)
        if name == "vision":
            return WholePrompts(self.loaded.model, share_pictures=True, limits=self._limits)
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
        return seed_of(self.decoding, ready.task, question)

    def _answer(self, task: ImageTask, question: Question, tokens: list[int]) -> Answer:
        text = self.loaded.processor.tokenizer.decode(tokens, skip_special_tokens=True)
        return Answer(task.image_id, question.question_id, text.strip(), tokens=len(tokens))

    def _options(self, questions: Sequence[Question]) -> Options:
        asked = [question for question in questions if question.kind == "choice"]
        named = {option for question in asked for option in question.choices}
        with self._lock:
            found = {option: option_tokens(self.loaded.processor.tokenizer, option) for option in sorted(named)}
        for question in asked:
            check_options(question, found)
        return found

    def _yes_no(self) -> YesNoForms:
        if self._forms is None:
            with self._lock:
                self._forms = yes_no_forms(self.loaded.processor.tokenizer)
        return self._forms


def _apart(name: str) -> Fp2Error:
    return Fp2Error(
        f"sharing={name} needs the picture before the question, and this prompt has it behind",
        where="engine.sharing",
        fix="Set engine.sharing=auto, or put {image} first in model.prompt",
    )
