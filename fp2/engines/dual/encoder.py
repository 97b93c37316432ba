"""Dual encoders (CLIP, SigLIP, SigLIP 2): pictures and texts as vectors of one space, compared by cosine.

They write no words, so they answer no battery of questions; zero-shot classification, dataset diversity and similarity
stand on this module.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fp2.data.pixels import open_rgb, pixel_sha256
from fp2.engines.checkpoint import Checkpoint, resolve_checkpoint
from fp2.engines.dual.embedding_cache import EmbeddingCache
from fp2.engines.dual.loading import LoadedDual, load_dual, reading_of
from fp2.engines.dual.zero_shot import Combine, Scale, ZeroShot, check_classes, classify, normalised
from fp2.engines.file_digests import FileDigests
from fp2.engines.hf.loading import HfSpec, default_threads, is_out_of_memory
from fp2.engines.hf.model_cache import free_memory
from fp2.engines.packages import families, versions
from fp2.engines.prefetch import ahead
from fp2.errors import Fp2Error, without_path
from fp2.hashing import digest
from fp2.tables import ImageTask

if TYPE_CHECKING:
    from PIL import Image

METHOD = "embed/1"  # raise the number whenever a change here can change an embedding
_BATCH, _GPU_BATCH, _TEXTS = 16, 128, 256
_WINDOW = 512  # tasks looked up together

T = TypeVar("T")
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """The embedding (d,) of one picture of a task, not normalised, or the reason why there is none."""

    task: ImageTask
    vector: Vectors | None
    error: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Decoded:
    """A task's picture as its variant shows it, or the reason why there is none."""

    task: ImageTask
    picture: Image.Image | None
    error: str | None = None


class DualEncoder:
    """Embeds pictures and texts with one model, loaded when first needed.

    Parameters
    ----------
    spec : HfSpec
        Which model, in which numbers (`chat`, `prompt` and code of a checkpoint's own do not concern it).
    batch_size : int, optional
        Most pictures in one pass; by device when not given; halved for good when memory runs out.
    device : str
        `auto` (a GPU if torch sees one), `cpu`, `cuda`, `cuda:N` or `mps`.
    threads : int, optional
        CPU threads; when not given, all cores that the process may use.
    connection : sqlite3.Connection, optional
        Where digests of weight files and the embeddings of pictures and texts are kept.
    verify_files : bool
        Read the files of a checkpoint folder again even when their digests are remembered.
    """

    def __init__(
        self,
        spec: HfSpec,
        *,
        batch_size: int | None = None,
        device: str = "auto",
        threads: int | None = None,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise Fp2Error(f"a batch of {batch_size} is no batch", where="engine.batch_size", fix="Use 1 or more")
        self.spec, self._device, self._threads = spec, device, threads
        self._batch_size = batch_size
        self._digests = FileDigests(connection, verify=verify_files)
        self._cache = EmbeddingCache(connection)
        self.model_calls = 0
        """Passes through the model so far."""

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        """Which files the model's name stands for (found out at first use; no torch)."""
        return resolve_checkpoint(self.spec.id, self.spec.revision, self._digests)

    def identity(self) -> dict[str, Any]:
        """Return everything about the model that can change an embedding. Imports neither torch nor transformers.

        Raises
        ------
        Fp2Error
            If the checkpoint is not there or is no dual encoder.
        """
        identity = {
            "engine": "dual",
            "method": METHOD,
            "family": families(self.spec),
            **self.checkpoint.identity(),
            "reading": reading_of(self.checkpoint).identity(),
            "dtype": self.spec.dtype,
            "quantisation": self.spec.quantisation,
        }
        identity["processor"]["backend"] = self.spec.image_backend
        return identity

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the embeddings but never hashed."""
        loaded: LoadedDual | None = self.__dict__.get("_loaded")
        return {
            "device": loaded.device if loaded else self._device,
            "batch_size": self._batch_size,
            "attention": str(getattr(loaded.model.config, "_attn_implementation", "")) if loaded else None,
            "versions": versions((*families(self.spec), "pillow")),
        }

    @property
    def scale(self) -> Scale:
        """How the model turns similarities into logits and probabilities."""
        return self._loaded.scale

    def embed_texts(self, texts: Sequence[str], *, normalise: bool = True) -> Vectors:
        """Return the embeddings (n, d) of texts, in their order; each distinct text is read once.

        Raises
        ------
        Fp2Error
            If the model cannot be loaded, or a text is longer than it reads.
        """
        keys = {text: self._key(text=text) for text in texts}
        found = self._cache.get(list(keys.values()))
        missing = [text for text, key in keys.items() if key not in found]
        for start in range(0, len(missing), _TEXTS):
            part = missing[start : start + _TEXTS]
            vectors = self._in_halves(part, self._read)
            fresh = {keys[text]: vector for text, vector in zip(part, vectors, strict=True)}
            self._cache.put(fresh)
            found |= fresh
        return _stack([found[keys[text]] for text in texts], normalise)

    def embed_pictures(self, pictures: Sequence[Image.Image], *, normalise: bool = True) -> Vectors:
        """Return the embeddings (n, d) of RGB pictures, in their order; nothing is kept.

        Raises
        ------
        Fp2Error
            If the model cannot be loaded.
        Exception
            Whatever the image processor or the model raises for a picture.
        """
        size = self._size
        parts = [self._in_halves(pictures[at : at + size], self._see) for at in range(0, len(pictures), size)]
        return _stack(list(itertools.chain.from_iterable(parts)), normalise)

    def embed(self, tasks: Iterable[ImageTask]) -> Iterator[Embedded]:
        """Yield the embedding of each task's picture, in order: kept ones at once, others as they are computed.

        A file is decoded once for tasks that follow each other, such as the variants of one picture. What goes wrong
        with one picture is that picture's error.

        Raises
        ------
        Fp2Error
            If the model cannot be loaded.
        """
        tasks = iter(tasks)
        while window := list(itertools.islice(tasks, _WINDOW)):
            yield from self._window(window)

    def zero_shot(
        self, pictures: Vectors, classes: Mapping[str, Sequence[str]], *, combine: Combine = "mean"
    ) -> ZeroShot:
        """Return which of `classes` (label -> wordings) each embedded picture (n, d) is nearest to; see `classify`."""
        check_classes(classes, combine)
        wordings = list(dict.fromkeys(itertools.chain.from_iterable(classes.values())))
        texts = dict(zip(wordings, self.embed_texts(wordings), strict=True))
        return classify(pictures, texts, classes, self.scale, combine)

    @functools.cached_property
    def _loaded(self) -> LoadedDual:
        import torch

        loaded = load_dual(self.checkpoint, self.spec, self._device)
        if threads := self._threads or default_threads(small=False):
            torch.set_num_threads(threads)
        return loaded

    @property
    def _size(self) -> int:
        if self._batch_size is None:
            self._batch_size = _BATCH if self._loaded.device == "cpu" else _GPU_BATCH
        return self._batch_size

    def _key(self, **of: Any) -> str:
        return digest([self._identity_digest, of])

    @functools.cached_property
    def _identity_digest(self) -> str:
        return digest(self.identity())

    def _task_key(self, task: ImageTask) -> str:
        return self._key(pixels=task.pixel_sha256, variant=task.variant, params=dict(task.variant_params))

    def _window(self, window: list[ImageTask]) -> Iterator[Embedded]:
        """Embed some tasks: look up, decode what is missing ahead of the model, keep what is new."""
        keys = {id(task): self._task_key(task) for task in window}
        kept = self._cache.get(list(keys.values()))
        open_tasks = [task for task in window if keys[id(task)] not in kept]
        done = {id(task): Embedded(task, kept[keys[id(task)]]) for task in window if keys[id(task)] in kept}
        if open_tasks:
            _ = self._loaded  # before the thread starts: what cannot be loaded is raised here
            decoded = ahead(_decode_all(open_tasks), 2 * self._size)
            while batch := list(itertools.islice(decoded, self._size)):
                fresh = self._embed_batch(batch)
                self._cache.put({keys[id(one.task)]: one.vector for one in fresh if one.vector is not None})
                done |= {id(one.task): one for one in fresh}
        yield from (done[id(task)] for task in window)

    def _embed_batch(self, batch: Sequence[_Decoded]) -> list[Embedded]:
        """Embed decoded pictures together, and one by one where that fails."""
        done = [Embedded(one.task, None, one.error) for one in batch if one.error is not None]
        good = [one for one in batch if one.error is None]
        if not good:
            return done
        try:
            vectors = self._in_halves([one.picture for one in good], self._see)
        except Exception as error:  # a processor or a model can raise anything; which picture it was is found out
            if len(good) > 1:
                return [*done, *itertools.chain.from_iterable(self._embed_batch([one]) for one in good)]
            reason = f"the model failed: {type(error).__name__}: {error}"
            return [*done, Embedded(good[0].task, None, reason[:500])]
        return [*done, *(Embedded(one.task, vector) for one, vector in zip(good, vectors, strict=True))]

    def _in_halves(self, items: Sequence[T], embed: Callable[[Sequence[T]], Vectors]) -> Vectors:
        """Embed items in one pass, or in halves (from then on) when memory runs out."""
        try:
            self.model_calls += 1
            return embed(items)
        except Exception as error:
            if not is_out_of_memory(error) or len(items) == 1:
                raise
        middle = (len(items) + 1) // 2
        if embed == self._see:
            self._batch_size = min(self._size, middle)
        free_memory()
        return np.concatenate([self._in_halves(part, embed) for part in (items[:middle], items[middle:])])

    def _see(self, pictures: Sequence[Any]) -> Vectors:
        import torch

        with torch.inference_mode():
            return _vectors(self._loaded.model.get_image_features(**self._loaded.pixels(pictures)))

    def _read(self, texts: Sequence[str]) -> Vectors:
        import torch

        with torch.inference_mode():
            return _vectors(self._loaded.model.get_text_features(**self._loaded.tokens(texts)))


def _decode_all(tasks: Iterable[ImageTask]) -> Iterator[_Decoded]:
    """Yield each task with its picture; a file is opened once for tasks that follow each other."""
    last: tuple[tuple[Any, str], Image.Image] | None = None
    for task in tasks:
        try:
            if task.blind:
                raise ValueError("a dual encoder cannot do without a picture")
            name = (task.path, task.pixel_sha256)
            if last is None or last[0] != name:
                picture = open_rgb(task.path)
                if pixel_sha256(picture) != task.pixel_sha256:
                    raise ValueError("its pixels are not those that were digested; the file changed")
                last = (name, picture)
            shown = last[1] if task.change is None else task.change(last[1].copy())
        except Exception as error:  # whatever a decoder raises is this picture's problem
            yield _Decoded(task, None, f"the picture cannot be read: {without_path(error, task.path)}"[:500])
        else:
            yield _Decoded(task, shown)


def _vectors(features: Any) -> Vectors:
    """Return what a model's `get_..._features` gave as (n, d) in float32."""
    pooled = getattr(features, "pooler_output", features)
    return np.asarray(pooled.float().cpu().numpy(), np.float32)


def _stack(vectors: Sequence[Vectors], normalise: bool) -> Vectors:
    stacked = np.stack(vectors) if len(vectors) else np.zeros((0, 0), np.float32)
    return np.asarray(normalised(stacked), np.float32) if normalise else stacked
