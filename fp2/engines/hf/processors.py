"""The processor of a checkpoint, put together for still pictures, with the image backend that was asked for.

`AutoProcessor` takes the image backend that it finds installed, and for several families (SmolVLM2, Qwen2-VL and later,
InternVL, LLaVA-OneVision) wants torchvision and num2words for films that are never shown here. So the same class is
built from the same files by hand: its image processor on the backend that the response key names, its tokenizer, its
settings, its chat template, and nothing that reads films. On still pictures it is the real processor.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fp2.engines.checkpoint import Checkpoint
from fp2.engines.picture_memo import OncePerPicture
from fp2.errors import Fp2Error

_VOCABULARIES = ("tokenizer.json", "*.model", "vocab.json", "vocab.txt", "tekken.json", "*.tiktoken")
NOT_VLM = "Choose a model that takes pictures and text and writes text (image-text-to-text)"


def load_processor(path: Path, checkpoint: Checkpoint, *, backend: str, remote_code: bool) -> Any:
    """Return the processor of the checkpoint in `path`: pictures resized once, texts padded on the left.

    Parameters
    ----------
    path : Path
        The folder; it may lack the weights.
    checkpoint : Checkpoint
        What the small files say.
    backend : {"pil", "torchvision"}
        Which library resizes pictures. The two give other pixels, so it is part of the model's identity.
    remote_code : bool
        Whether code from the folder may run.

    Raises
    ------
    Fp2Error
        If it is no processor for pictures and text, or has no version on that backend.
    Exception
        Whatever the loaders raise for files that are missing or damaged.
    """
    _check_files(path, backend)
    options = {"trust_remote_code": remote_code}
    kind = _processor_class(checkpoint)
    pictures = _auto("AutoImageProcessor").from_pretrained(path, backend=backend, **options)
    check_backend(pictures, backend)
    if kind is None:  # a class of the checkpoint's own
        processor = _auto("AutoProcessor").from_pretrained(path, **options)
    else:
        processor = _compose(kind, path, pictures, options)
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None or not hasattr(processor, "image_processor"):
        raise Fp2Error("the model has no processor for pictures and text", where=str(path), fix=NOT_VLM)
    processor.image_processor = OncePerPicture(pictures)
    tokenizer.padding_side = "left"  # as generation in batches needs it
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return processor


def _check_files(path: Path, backend: str) -> None:
    """Refuse what transformers would make up for: a tokenizer without words, the other backend."""
    if not any(True for pattern in _VOCABULARIES for _ in path.glob(pattern)):
        what = f"the model has no tokenizer, or its files are missing ({' or '.join(_VOCABULARIES)})"
        raise Fp2Error(what, where=str(path), fix="Copy or download the checkpoint again")
    installed = importlib.import_module("transformers.utils").is_torchvision_available()
    if backend == "torchvision" and not installed:
        what = "torchvision was asked for to resize pictures, and is not installed here"
        raise Fp2Error(
            what, where="model.image_backend", fix="Set it to pil, or install the torchvision for this torch"
        )


def _auto(name: str) -> Any:
    """Return a name of transformers, which is imported now."""
    return getattr(importlib.import_module("transformers"), name)


def _processor_class(checkpoint: Checkpoint) -> Any:
    """Return transformers' class for the processor: as the checkpoint names it, else as its model type has it."""
    auto = importlib.import_module("transformers.models.auto.processing_auto")
    named = auto.processor_class_from_name(checkpoint.processor_class) if checkpoint.processor_class else None
    if named is not None or checkpoint.processor_class or "AutoProcessor" in checkpoint.code:
        return named
    usual = auto.PROCESSOR_MAPPING_NAMES.get(checkpoint.model_type)
    return auto.processor_class_from_name(usual) if usual else None


class NoFilms(dict[str, Any]):
    """Stands where a processor would read films: an empty record, since processors write down what they consist of."""

    model_input_names: tuple[str, ...] = ()
    num_frames = fps = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to read one."""
        raise Fp2Error("films cannot be shown, only still pictures", where="processor")


def _compose(kind: Any, path: Path, pictures: Any, options: dict[str, Any]) -> Any:
    """Build a processor of class `kind` as its `from_pretrained` would, with `NoFilms` for what reads films."""
    settings, _ = kind.get_processor_dict(path)
    parts = [_part(name, path, pictures, options) for name in kind.get_attributes()]
    with _without_number_words(kind):
        return _lenient(kind).from_args_and_dict(parts, settings)


def _part(name: str, path: Path, pictures: Any, options: dict[str, Any]) -> Any:
    """Return one of the processors that a processor is made of."""
    if "video" in name:
        return NoFilms()
    if "image" in name:
        return pictures
    return _auto("AutoTokenizer" if "tokenizer" in name else "AutoFeatureExtractor").from_pretrained(path, **options)


def _lenient(kind: Any) -> Any:
    """Return the same processor class, which takes `NoFilms` too."""

    def check(self: Any, name: str, part: Any) -> Any:
        return NoFilms if isinstance(part, NoFilms) else kind.check_argument_for_proper_class(self, name, part)

    return type(kind.__name__, (kind,), {"check_argument_for_proper_class": check, "__module__": kind.__module__})


@contextlib.contextmanager
def _without_number_words(kind: Any) -> Iterator[None]:
    """Let a class be built that asks for num2words (SmolVLM), which it needs to tell the length of a film only."""
    module = sys.modules[kind.__module__]
    missing = getattr(module, "num2words", module) is None
    if missing:
        module.num2words = str  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if missing:
            module.num2words = None  # type: ignore[attr-defined]


def check_backend(pictures: Any, backend: str) -> None:
    """Refuse an image processor that is not on the backend that the response key says."""
    torchvision: Any = importlib.import_module("transformers.image_processing_backends").TorchvisionBackend
    if isinstance(pictures, torchvision) == (backend == "torchvision"):
        return
    kind = type(pictures).__name__
    if backend == "torchvision":
        what, fix = f"the image processor {kind} has no torchvision version", "Set model.image_backend=pil"
    else:
        what = f"the image processor {kind} has no PIL version, and torchvision gives other pixels"
        fix = "Set model.image_backend=torchvision: the response key then says so"
    raise Fp2Error(what, where="model.image_backend", fix=fix)
