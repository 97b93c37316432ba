"""A model of transformers that is loaded already, with its processor, as an engine."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.engines.checkpoint import Checkpoint, read_small_files
from fp2.engines.given import NAME, GivenEngine, weights_digest
from fp2.engines.hf.engine import HfEngine, HfOptions
from fp2.engines.hf.families import facts_for
from fp2.engines.hf.loading import load_processor_of
from fp2.engines.hf.model import HfSpec, LoadedModel
from fp2.engines.hf.placement import Placement, input_device
from fp2.errors import Fp2Error
from fp2.tables import Decoding

if TYPE_CHECKING:
    from transformers import ProcessorMixin


class LoadedEngine(HfEngine):
    """Answers from a model in memory, as `HfEngine` does from a checkpoint.

    Config and processor are written to a temporary folder, from which prompts and the processor are read; the weights
    stay where they are and are identified by their digest. The caller's processor is not changed.
    """

    serves = (NAME,)
    create = GivenEngine.create  # type: ignore[assignment]

    def __init__(
        self,
        model: Any,
        processor: ProcessorMixin,
        name: str,
        decoding: Decoding,
        options: HfOptions | None = None,
    ) -> None:
        dtype = str(model.dtype).removeprefix("torch.")
        super().__init__(HfSpec.of({"id": name, "dtype": dtype}, Placement()), decoding, options)
        self._name, self._model = name, model
        self._files = tempfile.TemporaryDirectory(prefix="fp2-model-")
        try:
            model.config.save_pretrained(self._files.name)
            processor.save_pretrained(self._files.name)
        except (AttributeError, OSError, TypeError, ValueError) as error:
            fix = "Give a (model, processor) pair of transformers, an engine, or a function(image, question)"
            raise Fp2Error(f"the model cannot be used: {error}", where="model", fix=fix) from error

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        """The small files of the model, and the digest of its weights."""
        return read_small_files(self._name, Path(self._files.name), weights_digest(self._model))

    def _load(self) -> LoadedModel:
        folder = Path(self._files.name)
        processor = load_processor_of(self.checkpoint, folder, self.spec)
        device = input_device(self._model, str(self._model.device))
        attention = str(getattr(self._model.config, "_attn_implementation", ""))
        return LoadedModel(self._model.eval(), processor, device, attention, facts_for(self.checkpoint.config))


def is_pair(value: object) -> bool:
    """Whether `value` is a loaded model with its processor."""
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and hasattr(value[0], "named_parameters")
        and hasattr(value[1], "save_pretrained")
    )
