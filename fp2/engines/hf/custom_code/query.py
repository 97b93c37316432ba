"""Code of its own that takes queries (moondream2): `encode_image` once for a picture, `query` for every question.

An encoded picture holds the keys and values of the picture's tokens, which attend to each other only, so every
question goes on from it exactly. Text is the answer of `query` itself. Its logits are not public: they are what
`_prefill_prompt` returns inside `query`, with the prompt that `query` was seen to write when the model was loaded. Code
that is made otherwise still answers in words.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from fp2.engines.checkpoint import Checkpoint
from fp2.engines.hf.custom_code.adapter import Facade
from fp2.engines.hf.encoding import Stimulus
from fp2.engines.hf.families import facts_for
from fp2.engines.hf.inputs import GREY, Ready
from fp2.engines.hf.prefix_policy import ways_to_try
from fp2.engines.hf.session import Session, Way
from fp2.engines.picture_memo import OncePerPicture
from fp2.engines.pixel_bytes import NAME as PIXELS
from fp2.engines.pixel_bytes import as_bytes, as_picture
from fp2.errors import Fp2Error
from fp2.tables import Answer

if TYPE_CHECKING:
    from PIL import Image

    from fp2.engines.hf.loading import HfSpec, LoadedModel

WAY = "`encode_image` with `query` (moondream)"
_TRIAL = "What is this?"


def offers(model: Any) -> bool:
    """Return whether a model has this interface."""
    return all(hasattr(model, name) for name in ("encode_image", "query"))


def adapt(model: Any, checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedModel:
    """Return the model behind the interface; one question is asked to see how it writes its prompts."""
    from fp2.engines.hf.loading import LoadedModel

    shown = QueryModel(model)
    processor = QueryProcessor(shown)
    return LoadedModel(shown, processor, device, "its own code's", facts_for(checkpoint.config))


class Encoded:
    """Pictures that the model's code has encoded, in the shape of transformers' image features."""

    def __init__(self, pooler_output: Sequence[Any]) -> None:
        self.pooler_output = list(pooler_output)

    def keys(self) -> list[str]:
        """Return the names of what is in it."""
        return ["pooler_output"]


class QueryModel(Facade):
    """The model, looking like one of transformers' own as far as its logits go.

    Parameters
    ----------
    inner : PreTrainedModel
        As its own code built it.
    """

    def __init__(self, inner: Any) -> None:
        self.inner, self._core = inner, getattr(inner, "model", inner)
        self.config = SimpleNamespace(get_text_config=SimpleNamespace)
        self.generation_config = SimpleNamespace(eos_token_id=None)
        self.base_model = self
        self._last: tuple[torch.Tensor, Any] | None = None
        fast: Any = importlib.import_module("transformers").PreTrainedTokenizerFast
        self.tokenizer = fast(tokenizer_object=self._core.tokenizer)
        self._written, self._options = self._trial()

    def generate(self, **options: Any) -> Any:
        """Refuse: words come from `query` (see `QuerySession`)."""
        raise NotImplementedError("this model is queried")

    def prompt(self, question: str) -> list[int]:
        """Return the tokens that `query` writes for a question behind the picture (without its own, if not known)."""
        before, blank, after = self._written or ([], "", [])
        return [*before, *self._ids(blank + question), *after]

    def encode(self, picture: torch.Tensor) -> Any:
        """Return a picture [height, width, 3] encoded; the last one is remembered."""
        picture = picture.cpu()
        if self._last is None or not torch.equal(self._last[0], picture):
            self._last = None  # two would take twice the memory
            self._last = (picture, self.inner.encode_image(as_picture(picture)))
        return self._last[1]

    def query(self, encoded: Any, question: str, settings: dict[str, Any]) -> str:
        """Return the answer of the model's own `query`."""
        return str(self.inner.query(encoded, question, settings=settings)["answer"])

    def get_image_features(self, return_dict: bool = True, **inputs: torch.Tensor) -> Encoded:
        """Return pictures [n, height, width, 3] encoded."""
        return Encoded([self.encode(picture) for picture in inputs[PIXELS]])

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: None = None,
        mm_encoder_outputs: dict[str, Encoded] | None = None,
        **inputs: torch.Tensor,
    ) -> Any:
        """Return `logits` [rows, 1, vocabulary] after the last of `input_ids`, which stand behind each row's picture.

        Raises
        ------
        Fp2Error
            If this version of the code computes them in a way that is not known.
        """
        if self._written is None:
            raise Fp2Error(
                "P(Yes) and choices need logits, and this model's code does not show them in a way that is known here",
                where="model.id",
                fix="Ask in words (kind: text), or pin another commit of its code",
            )
        shown = (mm_encoder_outputs or {"image": self.get_image_features(True, **inputs)})["image"].pooler_output
        rows = [self._logits(ids[None], encoded) for ids, encoded in zip(input_ids, shown, strict=True)]
        return SimpleNamespace(logits=torch.stack(rows))

    __call__ = forward

    def _logits(self, prompt: torch.Tensor, encoded: Any) -> torch.Tensor:
        """Return the next-token logits [1, vocabulary] behind a prompt [1, tokens]."""
        args, named = self._options
        self._core.load_encoded_image(encoded)
        logits: torch.Tensor = self._core._prefill_prompt(prompt, encoded.pos, *args, **named)[0]
        return logits.reshape(-1, logits.shape[-1])[-1:]

    def _trial(self) -> tuple[tuple[list[int], str, list[int]] | None, tuple[Any, Any]]:
        """Ask one question to see what `query` puts around it, and with which options it computes the first word."""
        nothing: tuple[None, tuple[Any, Any]] = None, ((), {})
        if not all(hasattr(self._core, name) for name in ("_prefill_prompt", "load_encoded_image")):
            return nothing
        with _overheard(self._core, "_prefill_prompt") as heard:
            encoded = self.inner.encode_image(GREY)
            self.inner.query(encoded, _TRIAL, settings={"temperature": 0.0, "max_tokens": 1})
        if len(heard) != 1 or len(heard[0][0]) < 2 or not hasattr(encoded, "pos"):
            return nothing
        (tokens, _, *args), named = heard[0]
        whole = tokens[0].tolist()
        for blank in ("", " "):
            own = self._ids(blank + _TRIAL)
            for start in range(len(whole) - len(own) + 1):
                if whole[start : start + len(own)] == own:
                    return (whole[:start], blank, whole[start + len(own) :]), (args, named)
        return nothing

    def _ids(self, text: str) -> list[int]:
        return list(self._core.tokenizer.encode(text).ids)


class QueryProcessor:
    """Hands over the picture's pixels as they are, and the prompt in the tokens that `query` writes."""

    def __init__(self, model: QueryModel) -> None:
        self._model = model
        self.tokenizer = model.tokenizer
        self.image_processor = OncePerPicture(as_bytes)

    def write(self, question: str, picture: bool) -> str:
        """Return the question: the code writes what is around it."""
        return question

    def __call__(
        self, text: list[str], images: list[list[Image.Image]], return_tensors: str = "pt", **options: Any
    ) -> dict[str, torch.Tensor]:
        """Return `input_ids` and `attention_mask` [1, tokens], and the picture [1, height, width, 3] in bytes."""
        ids = torch.tensor([self._model.prompt(text[0])])
        pixels: dict[str, torch.Tensor] = self.image_processor(images[0][0])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | pixels


class QuerySession(Session):
    """Asks a model that is queried: words come from `query`, everything else as usual."""

    def ask(self, group: Sequence[Ready]) -> list[Answer]:
        """Ask about pictures of one layout; see `Session.ask`."""
        if group[0].scored:
            return super().ask(group)
        return [answer for row in range(len(group)) for answer in self._queried(group, row)]

    def _way_for(self, shown: Stimulus) -> Way:
        """Return the only way: the code goes on from its encoded picture by itself."""
        if self._way is None:
            ways_to_try(self._sharing, self.loaded.facts.sharing, True, self.loaded.attention)
            self._way, self._sharing = self._plain, "vision"
        return self._plain

    def _queried(self, group: Sequence[Ready], row: int) -> Iterator[Answer]:
        ready, model = group[row], self.loaded.model
        encoded = model.encode(ready.shown.inputs[PIXELS][0])
        heat = self.decoding.temperature
        settings = {"temperature": heat, "top_p": 1.0, "max_tokens": self.decoding.max_new_tokens}
        for question, prompts in ready:
            self._plain.calls += 1
            with torch.random.fork_rng(), torch.no_grad():
                torch.manual_seed(self._seed(group, (row, prompts[0])) if heat > 0 else 0)
                said = model.query(encoded, question.text, settings)
            with self._lock:
                length = len(model.tokenizer(said)["input_ids"])
            yield Answer(ready.task.image_id, question.question_id, said.strip(), tokens=length)


@contextlib.contextmanager
def _overheard(thing: Any, name: str) -> Iterator[list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Collect the arguments of every call of a method."""
    heard: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    method = getattr(thing, name)

    def listening(*args: Any, **named: Any) -> Any:
        heard.append((args, named))
        return method(*args, **named)

    setattr(thing, name, listening)
    try:
        yield heard
    finally:
        delattr(thing, name)
