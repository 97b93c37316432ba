"""The processor of a checkpoint, composed for still images, with the image backend that was asked for.

`AutoProcessor` takes the image backend that is installed, and for several families (SmolVLM2, Qwen2-VL and later,
InternVL, LLaVA-OneVision) needs torchvision and num2words for videos, which are never shown here. So the same class is
built from the same files: its image processor on the backend that the response key names, its tokenizer, its settings,
its chat template, and a stand-in for what reads videos. On still images it is the original processor.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fp2.engines.checkpoint import Checkpoint
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from transformers import BaseImageProcessor

_VOCABULARIES = ("tokenizer.json", "*.model", "vocab.json", "vocab.txt", "tekken.json", "*.tiktoken")
CHOOSE_VLM = "Choose a model that takes images and text and generates text (image-text-to-text)"
RAW_PIXELS = "pixel_bytes"


class LastImageProcessor:
    """An image processor that remembers its result for the last images; other attributes are those of `inner`.

    A processor runs its image processor again for every prompt about an image. With this in its place each image is
    resized once. The images of a prompt are processed together, and never with those of another.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._last: tuple[Any, dict[str, object], Any] | None = None  # holds the images too, so that no id is reused

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def forget(self) -> None:
        """Drop the images."""
        self._last = None

    def __call__(self, images: object, *args: object, **options: object) -> Any:
        """Return the result of `inner` for `images`: those of one prompt, possibly in a list in a list."""
        shown = images
        while isinstance(shown, list) and len(shown) == 1:
            shown = shown[0]
        shown = shown if isinstance(shown, list) else [shown]
        if args or any(isinstance(image, list) for image in shown):
            return self._inner(images, *args, **options)
        if self._last is None or [*map(id, self._last[0])] != [*map(id, shown)] or self._last[1] != options:
            self._last = (shown, dict(options), self._inner(images, **options))
        features = self._last[2]
        return type(features)(features)  # a processor may remove entries


def load_processor(path: Path, checkpoint: Checkpoint, *, backend: str, remote_code: bool) -> Any:
    """Return the processor of the checkpoint in `path`: each image resized once, texts padded on the left.

    Parameters
    ----------
    path : Path
        The folder; the weights may be missing.
    checkpoint : Checkpoint
    backend : {"pil", "torchvision"}
        The library that resizes images. The two give different pixels, so it is part of the model's identity.
    remote_code : bool
        Whether code of the checkpoint may run.

    Raises
    ------
    Fp2Error
        If it is not a processor for images and text, or has no version on that backend.
    Exception
        Whatever the loaders raise for missing or damaged files.
    """
    _check_files(path, backend)
    options: dict[str, object] = {"trust_remote_code": remote_code}
    kind = _processor_class(checkpoint)
    image_processor = _auto("AutoImageProcessor").from_pretrained(path, backend=backend, **options)
    check_backend(image_processor, backend)
    if kind is None:  # a class of the checkpoint's own
        processor = _auto("AutoProcessor").from_pretrained(path, **options)
    else:
        processor = _compose(kind, path, image_processor, options)
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None or not hasattr(processor, "image_processor"):
        raise Fp2Error("the model has no processor for images and text", where=str(path), fix=CHOOSE_VLM)
    processor.image_processor = LastImageProcessor(image_processor)
    tokenizer.padding_side = "left"  # for generation in batches
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return processor


def check_backend(image_processor: BaseImageProcessor, backend: str) -> None:
    """Raise if an image processor is not on the backend that the response key names."""
    torchvision: Any = importlib.import_module("transformers.image_processing_backends").TorchvisionBackend
    if isinstance(image_processor, torchvision) == (backend == "torchvision"):
        return
    kind = type(image_processor).__name__
    if backend == "torchvision":
        message, fix = f"the image processor {kind} has no torchvision version", "Set model.image_backend=pil"
    else:
        message = f"the image processor {kind} has no PIL version, and torchvision gives different pixels"
        fix = "Set model.image_backend=torchvision, which becomes part of the response key"
    raise Fp2Error(message, where="model.image_backend", fix=fix)


def raw_pixels(image: Image.Image) -> dict[str, torch.Tensor]:
    """Return an RGB image as `RAW_PIXELS`, a tensor [1, height, width, 3] of bytes.

    This is the image processor of models that process images themselves.
    """
    import numpy as np
    import torch

    return {RAW_PIXELS: torch.from_numpy(np.array(image))[None]}


def image_of(pixels: torch.Tensor) -> Image.Image:
    """Return the image of a tensor [height, width, 3] of bytes."""
    from PIL import Image

    return Image.fromarray(pixels.cpu().numpy())


def _check_files(path: Path, backend: str) -> None:
    """Raise where transformers would substitute something: an empty tokenizer, or the other backend."""
    if not any(True for pattern in _VOCABULARIES for _ in path.glob(pattern)):
        message = f"the model has no tokenizer, or its files are missing ({' or '.join(_VOCABULARIES)})"
        raise Fp2Error(message, where=str(path), fix="Copy or download the checkpoint again")
    installed = importlib.import_module("transformers.utils").is_torchvision_available()
    if backend == "torchvision" and not installed:
        fix = "Set it to pil, or install the torchvision for this torch"
        raise Fp2Error("torchvision is not installed", where="model.image_backend", fix=fix)


def _auto(name: str) -> Any:
    return getattr(importlib.import_module("transformers"), name)


def _processor_class(checkpoint: Checkpoint) -> Any:
    """Return transformers' class for the processor: the one that the checkpoint names, else that of its model type."""
    auto = importlib.import_module("transformers.models.auto.processing_auto")
    named = auto.processor_class_from_name(checkpoint.processor_class) if checkpoint.processor_class else None
    if named is not None or checkpoint.processor_class or "AutoProcessor" in checkpoint.code:
        return named
    usual = auto.PROCESSOR_MAPPING_NAMES.get(checkpoint.model_type)
    return auto.processor_class_from_name(usual) if usual else None


class NoVideos(dict[str, object]):
    """Stands in for a video processor; an empty mapping, since processors write down their parts."""

    model_input_names: tuple[str, ...] = ()
    num_frames = fps = slice_mode = downsample_mode = None

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Raise: videos cannot be shown."""
        raise Fp2Error("videos cannot be shown, only still images", where="processor")


def _compose(kind: Any, path: Path, image_processor: BaseImageProcessor, options: dict[str, object]) -> Any:
    """Build a processor of class `kind` as its `from_pretrained` would, with `NoVideos` for its video processor."""
    settings, _ = kind.get_processor_dict(path)
    components = [_part(name, path, image_processor, options) for name in kind.get_attributes()]
    with _num2words_optional(kind):
        return _accepting_no_videos(kind).from_args_and_dict(components, settings)


def _part(name: str, path: Path, image_processor: BaseImageProcessor, options: dict[str, object]) -> object:
    if "video" in name:
        return NoVideos()
    if "image" in name:
        return image_processor
    return _auto("AutoTokenizer" if "tokenizer" in name else "AutoFeatureExtractor").from_pretrained(path, **options)


def _accepting_no_videos(kind: Any) -> Any:
    """Return a subclass of a processor class that accepts `NoVideos` as a part."""

    def check(self: object, name: str, component: object) -> object:
        return (
            NoVideos if isinstance(component, NoVideos) else kind.check_argument_for_proper_class(self, name, component)
        )

    return type(kind.__name__, (kind,), {"check_argument_for_proper_class": check, "__module__": kind.__module__})


@contextlib.contextmanager
def _num2words_optional(kind: type[object]) -> Iterator[None]:
    """Let a class be built that requires num2words (SmolVLM), which it uses for the length of videos only."""
    module = sys.modules[kind.__module__]
    missing = getattr(module, "num2words", module) is None
    if missing:
        module.num2words = str  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if missing:
            module.num2words = None  # type: ignore[attr-defined]
