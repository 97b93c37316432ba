"""A session with vLLM: images and unexpanded prompts go in, tokens and log-probabilities of given tokens come out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from fp2.extension import (
    RAW_PIXELS,
    Answer,
    Continuation,
    EncodedPrompts,
    ImageQuestions,
    LastImageProcessor,
    Logits,
    Session,
    Tokens,
    image_of,
    raw_pixels,
    score,
)

if TYPE_CHECKING:
    from PIL import Image

_MOST_TOKENS = 128  # whose log-probabilities vLLM returns in one request (its MAX_LOGPROB_TOKEN_IDS)


class UnexpandedProcessor:
    """A processor that leaves images to vLLM: prompts in tokens, with one token an image, and raw pixels."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.image_processor = LastImageProcessor(_pixels_of_each)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(
        self, text: list[str], images: list[list[Image.Image]] | None = None, return_tensors: str = "pt", **options: Any
    ) -> dict[str, torch.Tensor]:
        """Return `input_ids` [1, tokens], and the raw pixels of the images, if there are any."""
        ids = self._inner.tokenizer(text[0], return_tensors=return_tensors, **options)["input_ids"]
        pixels: dict[str, torch.Tensor] = {} if images is None else self.image_processor(images[0])
        return {"input_ids": ids} | pixels


def _pixels_of_each(images: Sequence[Image.Image]) -> dict[str, torch.Tensor]:
    """Return the raw pixels of each image, which may have sizes of their own."""
    return {f"{RAW_PIXELS}_{number}": raw_pixels(image)[RAW_PIXELS] for number, image in enumerate(images)}


class VllmModel:
    """`vllm.LLM` with the attributes of a model that a session uses."""

    def __init__(self, llm: Any) -> None:
        self.llm = llm
        self.config = SimpleNamespace(get_text_config=SimpleNamespace)
        self.generation_config = SimpleNamespace(eos_token_id=None)
        self.base_model = self

    def modules(self) -> Iterator[Any]:
        """Yield nothing: the modules are in another process."""
        return iter(())

    def forward(self) -> None:
        """Raise: vLLM returns no logits (see `VllmLogits`)."""
        raise NotImplementedError("vLLM returns no logits")

    def generate(self, prompts: Sequence[dict[str, Any]], params: Sequence[dict[str, Any]]) -> list[Any]:
        """Return vLLM's completion of every prompt, each with its own `vllm.SamplingParams`."""
        sampling: Any = importlib.import_module("vllm").SamplingParams
        outputs = self.llm.generate(list(prompts), [sampling(**one) for one in params], use_tqdm=False)
        return [output.outputs[0] for output in outputs]


class VllmLogits:
    """Next-token log-probabilities of `tokens`, in the shape of logits."""

    def __init__(self, model: VllmModel, batch_size: int) -> None:
        self._model, self._batch_size = model, batch_size
        self.tokens: list[int] = []
        self.calls = 0

    def logits(self, batch: Sequence[EncodedPrompts], wanted: Sequence[Continuation]) -> Iterator[Logits]:
        """Yield the logits about one image, [1, n, highest of `tokens` + 2]; see `LogitSource`.

        A row has the log-probabilities of `tokens`; its last place has the log of the remaining probability, so that
        its softmax gives the model's own probabilities.
        """
        parts = [self.tokens[start : start + _MOST_TOKENS] for start in range(0, len(self.tokens), _MOST_TOKENS)]
        for start in range(0, len(wanted), self._batch_size):
            places = range(start, min(start + self._batch_size, len(wanted)))
            prompts = [vllm_prompt(batch[0], *wanted[place]) for place in places]
            logs = torch.full((len(prompts), max(self.tokens) + 2), -torch.inf, dtype=torch.float64)
            for part in parts:
                params = {"temperature": 0.0, "max_tokens": 1, "logprob_token_ids": part, "detokenize": False}
                for row, found in enumerate(self._complete(prompts, [params] * len(prompts))):
                    first = found.logprobs[0]
                    logs[row, part] = torch.tensor([first[token].logprob for token in part], dtype=torch.float64)
            rest = 1 - logs.exp().sum(dim=-1)
            logs[:, -1] = rest.clamp_min(1e-12).log()
            yield [0], places, logs.float()[None]

    def generate(self, prompts: Sequence[dict[str, Any]], params: Sequence[dict[str, Any]]) -> list[list[int]]:
        """Return the new tokens of every prompt."""
        return [list(found.token_ids) for found in self._complete(prompts, params)]

    def _complete(self, prompts: Sequence[dict[str, Any]], params: Sequence[dict[str, Any]]) -> list[Any]:
        self.calls += 1
        return self._model.generate(prompts, params)


class VllmSession(Session):
    """Runs vLLM; inputs are built and answers read as for any model."""

    _logits: VllmLogits | None = None

    @property
    def model_calls(self) -> int:
        """Calls of vLLM so far."""
        return self._vllm.calls

    @property
    def _vllm(self) -> VllmLogits:
        if self._logits is None:
            self._logits = VllmLogits(self.loaded.model, self.batch_size)
        return self._logits

    def shrink(self, *, scored: bool) -> bool:
        """Return False: vLLM fits its batches into memory by itself."""
        return False

    def ask(self, batch: Sequence[ImageQuestions]) -> list[Answer]:
        """Return all answers about images (about one, if answers are scored)."""
        if not batch[0].scored:
            asked = [(row, question, prompts[0]) for row, group in enumerate(batch) for question, prompts in group]
            budget = self.decoding.reasoning_budget if self._reasoning is not None else 0
            longer = {"max_tokens": self.decoding.max_new_tokens + budget} if budget else {}
            generated = self._vllm.generate(
                [vllm_prompt(batch[row].encoded, prompt) for row, _, prompt in asked],
                [
                    {**self.decoding.request(), "detokenize": False, **longer}
                    | ({"seed": self._seed(batch, (row, prompt))} if self.decoding.sampled else {})
                    for row, _, prompt in asked
                ],
            )
            with self.loaded.lock:
                return [
                    self._answer(batch[row], question, prompt, tokens)
                    for (row, question, prompt), tokens in zip(asked, generated, strict=True)
                ]
        forms, options = self._answer_tokens(batch[0].questions)
        tokens = {token for sequences in options.values() for sequence in sequences for token in sequence}
        if forms is not None:
            tokens |= {*forms.yes, *forms.no, forms.yes_first, forms.no_first}
        self._vllm.tokens = sorted(tokens)
        return score(batch, forms, options, self._vllm)


def vllm_prompt(encoded: EncodedPrompts, prompt: int, appended: Tokens = ()) -> dict[str, Any]:
    """Return a prompt as vLLM takes it: tokens, and the images of their image tokens."""
    found: dict[str, Any] = {"prompt_token_ids": [*encoded.prefix, *encoded.suffixes[prompt], *appended]}
    images = [image_of(pixels[0]) for _, pixels in sorted(encoded.image_inputs.items())]
    return found | {"multi_modal_data": {"image": images if len(images) > 1 else images[0]}} if images else found
