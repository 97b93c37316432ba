"""vLLM at work: pictures and unexpanded prompts go in, tokens and the log-probabilities of named tokens come out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from fp2.engines.hf.encoding import Stimulus, Wanted
from fp2.engines.hf.inputs import Ready
from fp2.engines.hf.scoring import Reading
from fp2.engines.hf.session import Session
from fp2.engines.hf.token_tree import Tokens
from fp2.engines.picture_memo import OncePerPicture
from fp2.engines.pixel_bytes import as_bytes, picture_of
from fp2.tables import Answer

if TYPE_CHECKING:
    from PIL import Image

_MOST_NAMED = 128  # tokens whose log-probabilities vLLM gives in one request (its MAX_LOGPROB_TOKEN_IDS)


class Unexpanded:
    """A processor that leaves pictures to vLLM: prompts in tokens with one mark for a picture, pixels as they are."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.image_processor = OncePerPicture(as_bytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(
        self, text: list[str], images: list[list[Image.Image]] | None = None, return_tensors: str = "pt", **options: Any
    ) -> dict[str, torch.Tensor]:
        """Return `input_ids` [1, tokens] and the picture's bytes, if there is one."""
        ids = self._inner.tokenizer(text[0], return_tensors=return_tensors, **options)["input_ids"]
        pixels: dict[str, torch.Tensor] = {} if images is None else self.image_processor(images[0][0])
        return {"input_ids": ids} | pixels


class VllmModel:
    """`vllm.LLM`, with what a session wants to know of a model."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.config = SimpleNamespace(get_text_config=SimpleNamespace)
        self.generation_config = SimpleNamespace(eos_token_id=None)
        self.base_model = self

    def modules(self) -> Iterator[Any]:
        """Yield nothing: the model's parts are in another process."""
        return iter(())

    def forward(self) -> None:
        """Refuse: logits stay with vLLM (see `VllmWay`)."""
        raise NotImplementedError("vLLM gives no logits")

    def generate(self, prompts: Sequence[dict[str, Any]], params: Sequence[dict[str, Any]]) -> list[Any]:
        """Return vLLM's completion of every prompt, each with its own `vllm.SamplingParams`."""
        sampling: Any = importlib.import_module("vllm").SamplingParams
        outputs = self.llm.generate(list(prompts), [sampling(**one) for one in params], use_tqdm=False)
        return [output.outputs[0] for output in outputs]


class VllmWay:
    """Next-token log-probabilities of the tokens in `named`, in the shape of logits."""

    def __init__(self, model: VllmModel, batch_size: int) -> None:
        self._model, self._batch_size = model, batch_size
        self.named: list[int] = []
        self.calls = 0

    def read(self, shown: Stimulus, wanted: Sequence[Wanted]) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
        """Yield (which of `wanted`, logits [n, highest of `named` + 2] in float32), every one of them once.

        A row holds the log-probabilities of `named`; in its last place stands what is left to 1, so that its softmax
        gives the model's own probabilities.
        """
        parts = [self.named[start : start + _MOST_NAMED] for start in range(0, len(self.named), _MOST_NAMED)]
        for start in range(0, len(wanted), self._batch_size):
            places = range(start, min(start + self._batch_size, len(wanted)))
            prompts = [prompt_for(shown, *wanted[place]) for place in places]
            logs = torch.full((len(prompts), max(self.named) + 2), -torch.inf, dtype=torch.float64)
            for part in parts:
                asked = {"temperature": 0.0, "max_tokens": 1, "logprob_token_ids": part, "detokenize": False}
                for row, found in enumerate(self._asked(prompts, [asked] * len(prompts))):
                    first = found.logprobs[0]
                    logs[row, part] = torch.tensor([first[token].logprob for token in part], dtype=torch.float64)
            rest = 1 - logs.exp().sum(dim=-1)
            logs[:, -1] = rest.clamp_min(1e-12).log()
            yield places, logs.float()

    def say(self, prompts: Sequence[dict[str, Any]], params: Sequence[dict[str, Any]]) -> list[list[int]]:
        """Return the new tokens behind every prompt."""
        return [list(found.token_ids) for found in self._asked(prompts, params)]

    def _asked(self, prompts: Sequence[dict[str, Any]], params: Sequence[dict[str, Any]]) -> list[Any]:
        self.calls += 1
        return self._model.generate(prompts, params)


class VllmSession(Session):
    """Asks vLLM; pictures are made ready, and answers read, as for any model."""

    _asks: VllmWay | None = None

    @property
    def model_calls(self) -> int:
        """Calls of vLLM so far."""
        return self._vllm.calls

    @property
    def _vllm(self) -> VllmWay:
        if self._asks is None:
            self._asks = VllmWay(self.loaded.model, self.batch_size)
        return self._asks

    def shrink(self, *, scored: bool) -> bool:
        """Return False: vLLM fits its batches into memory by itself."""
        return False

    def ask(self, group: Sequence[Ready]) -> list[Answer]:
        """Ask about pictures (about one, where answers are scored); return all their answers."""
        if not group[0].scored:
            return self._said(group)
        questions = group[0].questions
        forms = self._yes_no() if any(question.kind == "yes_no" for question in questions) else None
        options = self._options(questions)
        named = {token for ways in options.values() for way in ways for token in way}
        if forms is not None:
            named |= {*forms.yes, *forms.no, forms.yes_first, forms.no_first}
        self._vllm.named = sorted(named)
        return Reading(group[0], forms, options).answers(self._vllm)

    def _said(self, group: Sequence[Ready]) -> list[Answer]:
        asked = [(row, question, prompts[0]) for row, ready in enumerate(group) for question, prompts in ready]
        heat, most = self.decoding.temperature, self.decoding.max_new_tokens
        words = self._vllm.say(
            [prompt_for(group[row].shown, prompt) for row, _, prompt in asked],
            [
                {"temperature": heat, "max_tokens": most, "detokenize": False}
                | ({"seed": self._seed(group, (row, prompt))} if heat > 0 else {})
                for row, _, prompt in asked
            ],
        )
        with self._lock:
            return [
                self._answer(group[row].task, question, tokens)
                for (row, question, _), tokens in zip(asked, words, strict=True)
            ]


def prompt_for(shown: Stimulus, which: int, behind: Tokens = ()) -> dict[str, Any]:
    """Return a prompt as vLLM takes it: tokens, and the picture that belongs to their mark."""
    prompt: dict[str, Any] = {"prompt_token_ids": [*shown.head, *shown.tails[which], *behind]}
    picture = picture_of(shown.inputs)
    return prompt if picture is None else prompt | {"multi_modal_data": {"image": picture}}
