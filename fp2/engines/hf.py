"""The generic adapter: any image-text-to-text model of transformers answers questions about pictures, in batches.

One picture is decoded and resized once for all its questions. Answers come back batch by batch; what goes wrong with
one picture or one answer becomes that answer's error, and a batch that does not fit into memory is halved.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.data.pixels import open_rgb, pixel_sha256
from fp2.engines.base import Answer, Decoding, ImageTask, Question
from fp2.engines.checkpoint import Checkpoint, resolve_checkpoint
from fp2.engines.file_digests import FileDigests
from fp2.engines.hf_loading import HfSpec, LoadedModel, default_threads, is_out_of_memory, load, resolve_device
from fp2.errors import Fp2Error
from fp2.hashing import digest

if TYPE_CHECKING:
    from PIL import Image

METHOD = "generate/1"  # raise the number whenever a change here can change an answer
_WINDOW_BATCHES = 4
_SMALL_MODEL, _SMALL_MODEL_BATCH, _BATCH = 50_000_000, 96, 16  # parameters; pairs


@dataclass(frozen=True)
class _Ask:
    """One question about one decoded picture."""

    task: ImageTask
    question: Question
    picture: Image.Image


class HfEngine:
    """Answers from a transformers model, loaded when the first open question arrives.

    Parameters
    ----------
    spec : HfSpec
        Which model, in which numbers.
    decoding : Decoding
        Greedy unless `temperature` is above 0; then every answer is drawn alone, with a seed of its own, so that it
        does not depend on the batch.
    batch_size : int, optional
        Most (picture, question) pairs in one generate call; by the model's size when not given; halved for good when
        memory runs out.
    device : str
        `auto` (a GPU if torch sees one), `cpu`, `cuda`, `cuda:N` or `mps`.
    threads : int, optional
        CPU threads; when not given, one for a small model and else all cores that the process may use.
    connection : sqlite3.Connection, optional
        Where the digests of weight files are remembered.
    verify_files : bool
        Read the files of a checkpoint folder again even when their digests are remembered.
    """

    def __init__(
        self,
        spec: HfSpec,
        decoding: Decoding,
        *,
        batch_size: int | None = None,
        device: str = "auto",
        threads: int | None = None,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise Fp2Error(f"a batch of {batch_size} is no batch", where="engine.batch_size", fix="Use 1 or more")
        self.spec, self.decoding = spec, decoding
        self.model_calls = 0
        self._asked_batch_size = batch_size if decoding.temperature <= 0 else 1
        self._device, self._threads = device, threads
        self._digests = FileDigests(connection, verify=verify_files)
        self._prompts: dict[str, str] = {}

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        """Which files the model's name stands for (found out at first use; no torch)."""
        return resolve_checkpoint(self.spec.id, self.spec.revision, self._digests)

    @property
    def uses_chat(self) -> bool:
        """Whether a question is wrapped in the checkpoint's chat template."""
        has = self.checkpoint.chat_template_digest is not None
        if self.spec.chat and not has:
            raise Fp2Error(f"the model {self.spec.id} has no chat template", where="model.chat", fix="Set it to null")
        return has if self.spec.chat is None else self.spec.chat

    def identity(self) -> dict[str, Any]:
        """Return everything about the model side that can change an answer. Imports neither torch nor transformers."""
        identity = {
            "engine": "hf",
            "family": {name: _family(name) for name in ("transformers", "torch")},
            **self.checkpoint.identity(),
            "dtype": self.spec.dtype,
            "quantisation": self.spec.quantisation,
        }
        identity["processor"]["backend"] = self.spec.image_backend
        return identity

    def method(self, question: Question, blind: bool = False) -> dict[str, Any]:
        """Return how a question is put to the model: the way of asking with its version, and the prompt format."""
        return {"name": METHOD, "prompt": "chat" if self.uses_chat else "raw"}

    def task_identity(self, task: ImageTask) -> dict[str, Any]:
        """Return nothing: a real model sees the pixels only."""
        return {}

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the answers but never hashed."""
        loaded = self.__dict__.get("_loaded")
        return {
            "device": loaded.device if loaded else self._device,
            "batch_size": self._batch_size if loaded else self._asked_batch_size,
            "attention": loaded.attention if loaded else None,
            "sharing": "pictures resized once",
            "versions": {name: importlib.metadata.version(name) for name in ("transformers", "torch", "pillow")},
        }

    def answer(self, tasks: Iterable[ImageTask]) -> Iterator[list[Answer]]:
        """Yield answers batch by batch: every question of every task once, in any order.

        Raises
        ------
        Fp2Error
            If the model cannot be loaded, the device is not there, or the chat template cannot be filled in.
        """
        for window in self._windows(tasks):
            asks: list[_Ask] = []
            for task in window:
                try:
                    picture = _decode(task)
                except Exception as error:  # whatever a decoder raises is this picture's problem
                    yield [
                        _failed(task, question, f"the picture cannot be read: {error}") for question in task.questions
                    ]
                else:
                    asks += [_Ask(task, question, picture) for question in task.questions]
            if asks:
                prompts = {ask.question.text: self._prompt(ask.question.text) for ask in asks}
                asks.sort(key=lambda ask: (len(prompts[ask.question.text]), ask.question.text))
                yield from self._in_batches(asks)
                self._loaded.pictures.forget()

    @functools.cached_property
    def _loaded(self) -> LoadedModel:
        """The model, loaded now if it was not."""
        import torch

        device = resolve_device(self._device)
        loaded = load(self.checkpoint, self.spec, device)
        threads = self._threads or default_threads(_is_small(loaded))
        if threads:
            torch.set_num_threads(threads)
        return loaded

    @functools.cached_property
    def _batch_size(self) -> int:
        """Pairs in one generate call: as asked for, or many for a small model (measured: twice as fast as few)."""
        if self._asked_batch_size is not None:
            return self._asked_batch_size
        return _SMALL_MODEL_BATCH if _is_small(self._loaded) else _BATCH

    def _windows(self, tasks: Iterable[ImageTask]) -> Iterator[list[ImageTask]]:
        """Group tasks so that a few batches are sorted together, and few pictures are held at once."""
        window: list[ImageTask] = []
        for task in tasks:
            window.append(task)
            if sum(len(held.questions) for held in window) >= _WINDOW_BATCHES * self._batch_size:
                yield window
                window = []
        if window:
            yield window

    def _prompt(self, text: str) -> str:
        """Return the prompt for a question: the chat template's, or the image token and the bare words."""
        if text not in self._prompts:
            processor = self._loaded.processor
            if not self.uses_chat:
                self._prompts[text] = (getattr(processor, "image_token", None) or "") + text
                return self._prompts[text]
            chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}]
            try:
                self._prompts[text] = processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            except Exception as error:  # templates are programs: they can raise anything
                what = f"the chat template of {self.spec.id} cannot be filled in: {error}"
                raise Fp2Error(what, where="model.id", fix="Set model.chat=false to ask in bare words") from error
        return self._prompts[text]

    def _in_batches(self, asks: Sequence[_Ask]) -> Iterator[list[Answer]]:
        """Ask in batches; halve them when memory runs out; ask one by one where a batch fails."""
        start = 0
        while start < len(asks):
            batch = asks[start : start + self._batch_size]
            error = None
            try:
                answers = self._generate(batch)
            except Exception as caught:  # a model can raise anything; which answer it was is found out below
                error = caught.with_traceback(None)  # the traceback would keep the batch's tensors alive
            if error is not None and is_out_of_memory(error) and len(batch) > 1:
                self._batch_size = len(batch) // 2
                _free_memory()
                continue
            if error is not None:
                answers = [self._alone(ask, error if len(batch) == 1 else None) for ask in batch]
            yield answers
            start += len(batch)

    def _alone(self, ask: _Ask, error: Exception | None) -> Answer:
        """Return the answer to one question asked by itself, or why there is none."""
        if error is None:
            try:
                return self._generate([ask])[0]
            except Exception as caught:
                error = caught.with_traceback(None)
        return _failed(ask.task, ask.question, f"the model failed: {type(error).__name__}: {error}")

    def _generate(self, batch: Sequence[_Ask]) -> list[Answer]:
        """Send one generate call; the wall time is shared equally by its answers."""
        import torch

        started = time.perf_counter()
        loaded = self._loaded
        prompts = [self._prompt(ask.question.text) for ask in batch]
        bos = loaded.processor.tokenizer.bos_token
        options = {"add_special_tokens": False} if bos and prompts[0].startswith(bos) else {}
        pictures = [[ask.picture] for ask in batch]
        inputs = loaded.processor(text=prompts, images=pictures, padding=True, return_tensors="pt", **options)
        inputs = inputs.to(loaded.device, dtype=getattr(torch, self.spec.dtype))
        if self.decoding.temperature > 0:
            torch.manual_seed(_seed(batch[0], self.decoding))
        self.model_calls += 1
        with torch.inference_mode():
            output = loaded.model.generate(**inputs, **self._generation())
        prompt = inputs["input_ids"]
        if output.shape[1] >= prompt.shape[1] and torch.equal(output[:, : prompt.shape[1]], prompt):
            output = output[:, prompt.shape[1] :]  # an encoder-decoder gives the new tokens alone
        share = (time.perf_counter() - started) / len(batch)
        return [self._read(ask, row, share) for ask, row in zip(batch, output.tolist(), strict=True)]

    def _generation(self) -> dict[str, Any]:
        """Return generate's options; those of the checkpoint that would make it sample or search are switched off."""
        tokenizer, heat = self._loaded.processor.tokenizer, self.decoding.temperature
        drawn = {"do_sample": True, "temperature": heat, "top_p": 1.0, "top_k": 0}
        greedy = {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
        fixed = {"max_new_tokens": self.decoding.max_new_tokens, "num_beams": 1, "pad_token_id": tokenizer.pad_token_id}
        return fixed | (drawn if heat > 0 else greedy)

    def _read(self, ask: _Ask, row: list[int], seconds: float) -> Answer:
        """Turn new token ids into words, cut after the first end token."""
        ends = self._loaded.model.generation_config.eos_token_id
        stops = set(ends) if isinstance(ends, list) else {ends}
        length = next((place + 1 for place, token in enumerate(row) if token in stops), len(row))
        text = self._loaded.processor.tokenizer.decode(row[:length], skip_special_tokens=True)
        return Answer(ask.task.image_id, ask.question.question_id, text.strip(), seconds=seconds, tokens=length)


def _is_small(loaded: LoadedModel) -> bool:
    return bool(loaded.model.num_parameters() < _SMALL_MODEL)


def _decode(task: ImageTask) -> Image.Image:
    """Return the picture as it was digested; one that has changed since is refused."""
    picture = open_rgb(task.path)
    if task.variant == "original" and pixel_sha256(picture) != task.pixel_sha256:
        raise ValueError("its pixels are not those that were digested; the file changed")
    return picture


def _failed(task: ImageTask, question: Question, reason: str) -> Answer:
    first = next(iter(reason.splitlines()), reason)
    return Answer(task.image_id, question.question_id, None, first[:500])


def _seed(ask: _Ask, decoding: Decoding) -> int:
    """Return a seed that depends on the question, the picture and the run's seed, and on nothing else."""
    return int(digest([decoding.seed, ask.task.pixel_sha256, ask.task.variant, ask.question.text])[:15], 16)


def _family(package: str) -> str:
    """Return `major.minor` of an installed package: the version family in which answers are taken to be the same."""
    return ".".join(itertools.islice(importlib.metadata.version(package).split("."), 2))


def _free_memory() -> None:
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
