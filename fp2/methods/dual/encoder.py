"""Networks that turn images into vectors, and those that turn texts into vectors of the same space.

Image encoders (RegNet, as in SEER, ResNet, DINOv2) read no text; the data set report uses them. Dual encoders (CLIP,
SigLIP, SigLIP 2) compare images and texts by cosine similarity; `engine=dual` and the data set report use them. Neither
generates text.
"""

from __future__ import annotations

import functools
import itertools
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fp2.extension import (
    Checkpoint,
    FileDigests,
    HfSpec,
    ImageTask,
    LocalOptions,
    default_threads,
    digest,
    free_memory,
    is_out_of_memory,
    open_original,
    prefetched,
    resolve_checkpoint,
    versions,
    without_path,
)
from fp2.methods.dual.cache import EmbeddingCache
from fp2.methods.dual.loading import (
    LoadedDual,
    LoadedEncoder,
    Scale,
    check_image_encoder,
    load_dual,
    load_images,
    normalised,
    text_format_of,
)

if TYPE_CHECKING:
    from PIL import Image

METHOD = "embed/1"  # raise the number with every change that can change an embedding
_BATCH, _GPU_BATCH, _TEXTS = 16, 128, 256
_WINDOW = 512  # tasks looked up together

T = TypeVar("T")
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class ImageEmbedding:
    """The embedding (d,) of the image of a task, not normalised, or the reason why there is none."""

    task: ImageTask
    vector: Vectors | None
    error: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Decoded:
    """The image of a task in its variant, or the reason why there is none."""

    task: ImageTask
    image: Image.Image | None
    error: str | None = None


class ImageEncoder:
    """Embeds images with one network, loaded at first use: what it pools from the whole image, before any classifier.

    For RegNet and ResNet this is the mean over positions, for DINOv2 the class token after the last normalisation.

    Parameters
    ----------
    spec : HfSpec
        Which model (`chat`, `prompt` and custom code do not apply).
    options : LocalOptions, optional
        `batch_size` is the most images in one pass.
    connection : sqlite3.Connection, optional
        Where digests of weight files and embeddings are kept.
    verify_files : bool
        Read the files of a checkpoint folder again even if their digests are remembered.
    crop : bool
        Whether images are cropped as the checkpoint's image processor does; otherwise the whole image is resized to the
        square that the network takes.
    """

    _kind = "images"

    def __init__(
        self,
        spec: HfSpec,
        options: LocalOptions | None = None,
        *,
        connection: sqlite3.Connection | None = None,
        verify_files: bool = False,
        crop: bool = True,
    ) -> None:
        self.spec, self.options, self._crop = spec, options or LocalOptions(), crop
        self._batch_size = self.options.batch_size
        self._digests = FileDigests(connection, verify=verify_files)
        self._cache = EmbeddingCache(connection)
        self.model_calls = 0
        """Passes through the model so far."""

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the model's name, resolved at first use (without torch)."""
        return resolve_checkpoint(self.spec.id, self.spec.revision, self._digests)

    def identity(self) -> dict[str, Any]:
        """Return everything about the model that can change an embedding. Imports neither torch nor transformers."""
        identity = {
            "engine": self._kind,
            "method": METHOD,
            "family": self.spec.version_families(),
            **self.checkpoint.identity(),
            "reading": self._reading(),
            "dtype": self.spec.dtype,
            "quantisation": self.spec.quantisation,
        }
        identity["processor"]["backend"] = self.spec.image_backend
        return identity

    def runtime(self) -> dict[str, Any]:
        """Return what is recorded beside the embeddings but not hashed."""
        loaded: LoadedEncoder | None = self.__dict__.get("_loaded")
        return {
            "device": loaded.device if loaded else self.options.device,
            "batch_size": self._batch_size,
            "attention": str(getattr(loaded.model.config, "_attn_implementation", "")) if loaded else None,
            "versions": versions((*self.spec.version_families(), "pillow")),
        }

    def embed_images(self, images: Sequence[Image.Image], *, normalise: bool = True) -> Vectors:
        """Return the embeddings (n, d) of RGB images, in their order; nothing is kept.

        Raises
        ------
        Fp2Error
            If the model cannot be loaded.
        Exception
            Whatever the image processor or the model raises for an image.
        """
        size = self._size
        parts = [self._in_halves(images[at : at + size], self._image_features) for at in range(0, len(images), size)]
        return _stack(list(itertools.chain.from_iterable(parts)), normalise)

    def embed(self, tasks: Iterable[ImageTask]) -> Iterator[ImageEmbedding]:
        """Yield the embedding of each task's image, in order: kept ones at once, others as they are computed.

        A file is decoded once for consecutive tasks, such as the variants of one image. An error about one image is
        that image's error.
        """
        tasks = iter(tasks)
        while window := list(itertools.islice(tasks, _WINDOW)):
            yield from self._window(window)

    def _reading(self) -> dict[str, Any]:
        check_image_encoder(self.checkpoint)
        return {"output": "pooled", "crop": self._crop}

    def _load(self) -> LoadedEncoder:
        return load_images(self.checkpoint, self.spec, self.options.device, crop=self._crop)

    @functools.cached_property
    def _loaded(self) -> LoadedEncoder:
        import torch

        loaded = self._load()
        if threads := self.options.threads or default_threads(small=False):
            torch.set_num_threads(threads)
        return loaded

    @property
    def _size(self) -> int:
        if self._batch_size is None:
            self._batch_size = _BATCH if self._loaded.device == "cpu" else _GPU_BATCH
        return self._batch_size

    def _key(self, **content: Any) -> str:
        return digest([self._identity_digest, content])

    @functools.cached_property
    def _identity_digest(self) -> str:
        return digest(self.identity())

    def _window(self, window: list[ImageTask]) -> Iterator[ImageEmbedding]:
        """Embed some tasks: look up, decode what is missing ahead of the model, keep what is new."""
        keys = {
            id(task): self._key(pixels=task.pixel_sha256, variant=task.variant, params=dict(task.variant_params))
            for task in window
        }
        cached = self._cache.get(list(keys.values()))
        missing = [task for task in window if keys[id(task)] not in cached]
        done = {id(task): ImageEmbedding(task, cached[keys[id(task)]]) for task in window if keys[id(task)] in cached}
        if missing:
            _ = self._loaded  # a loading error is raised here, not in the thread
            decoded = prefetched(_decode(missing), 2 * self._size)
            while batch := list(itertools.islice(decoded, self._size)):
                new = self._embed_batch(batch)
                self._cache.put(
                    {keys[id(embedding.task)]: embedding.vector for embedding in new if embedding.vector is not None}
                )
                done |= {id(embedding.task): embedding for embedding in new}
        yield from (done[id(task)] for task in window)

    def _embed_batch(self, batch: Sequence[_Decoded]) -> list[ImageEmbedding]:
        done = [ImageEmbedding(image.task, None, image.error) for image in batch if image.error is not None]
        good = [image for image in batch if image.error is None]
        if not good:
            return done
        try:
            vectors = self._in_halves([image.image for image in good], self._image_features)
        except Exception as error:  # a processor or a model can raise anything; find its cause
            if len(good) > 1:
                return [*done, *itertools.chain.from_iterable(self._embed_batch([image]) for image in good)]
            reason = f"the model failed: {type(error).__name__}: {error}"
            return [*done, ImageEmbedding(good[0].task, None, reason[:500])]
        return [*done, *(ImageEmbedding(image.task, vector) for image, vector in zip(good, vectors, strict=True))]

    def _in_halves(self, items: Sequence[T], embed: Callable[[Sequence[T]], Vectors]) -> Vectors:
        """Embed items in one pass, or in halves (from then on) if memory runs out."""
        try:
            self.model_calls += 1
            return embed(items)
        except Exception as error:
            if not is_out_of_memory(error) or len(items) == 1:
                raise
        middle = (len(items) + 1) // 2
        if embed == self._image_features:
            self._batch_size = min(self._size, middle)
        free_memory()
        return np.concatenate([self._in_halves(part, embed) for part in (items[:middle], items[middle:])])

    def _image_features(self, images: Sequence[Any]) -> Vectors:
        import torch

        with torch.inference_mode():
            return _vectors(self._loaded.image_features(images))


class DualEncoder(ImageEncoder):
    """Embeds images and texts with one model, loaded at first use; images as its image processor prepares them."""

    _kind = "dual"

    def _reading(self) -> dict[str, Any]:
        return text_format_of(self.checkpoint).identity()

    def _load(self) -> LoadedDual:
        return load_dual(self.checkpoint, self.spec, self.options.device)

    @property
    def _dual(self) -> LoadedDual:
        loaded = self._loaded
        assert isinstance(loaded, LoadedDual)
        return loaded

    @property
    def scale(self) -> Scale:
        """How the model turns similarities into logits and probabilities."""
        return self._dual.scale

    def embed_texts(self, texts: Sequence[str], *, normalise: bool = True) -> Vectors:
        """Return the embeddings (n, d) of texts, in their order; each distinct text is embedded once."""
        keys = {text: self._key(text=text) for text in texts}
        found = self._cache.get(list(keys.values()))
        missing = [text for text, key in keys.items() if key not in found]
        for start in range(0, len(missing), _TEXTS):
            batch = missing[start : start + _TEXTS]
            vectors = self._in_halves(batch, self._text_features)
            new = {keys[text]: vector for text, vector in zip(batch, vectors, strict=True)}
            self._cache.put(new)
            found |= new
        return _stack([found[keys[text]] for text in texts], normalise)

    def _text_features(self, texts: Sequence[str]) -> Vectors:
        import torch

        with torch.inference_mode():
            return _vectors(self._dual.model.get_text_features(**self._dual.text_inputs(texts)))


def _decode(tasks: Iterable[ImageTask]) -> Iterator[_Decoded]:
    """Yield each task with its image; a file is opened once for consecutive tasks."""
    last: tuple[tuple[Any, str], Image.Image] | None = None
    for task in tasks:
        try:
            if task.blind:
                raise ValueError("a dual encoder needs an image")
            name = (task.path, task.pixel_sha256)
            if last is None or last[0] != name:
                last = (name, open_original(task))
            image = last[1] if task.change is None else task.change(last[1].copy())
        except Exception as error:  # a decoder can raise anything; it is the error of this image only
            yield _Decoded(task, None, f"the image cannot be read: {without_path(error, task.path)}"[:500])
        else:
            yield _Decoded(task, image)


def _vectors(features: Any) -> Vectors:
    """Return the result of a model's `get_..._features` as (n, d) in float32."""
    pooled = getattr(features, "pooler_output", features)
    return np.asarray(pooled.float().flatten(1).cpu().numpy(), np.float32)


def _stack(vectors: Sequence[Vectors], normalise: bool) -> Vectors:
    stacked = np.stack(vectors) if len(vectors) else np.zeros((0, 0), np.float32)
    return np.asarray(normalised(stacked), np.float32) if normalise else stacked
