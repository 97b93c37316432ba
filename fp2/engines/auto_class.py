"""Which class of transformers a checkpoint is to be loaded with, and whether code of its own may run."""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, Any

from fp2.engines.checkpoint import Checkpoint
from fp2.engines.hf.processors import NOT_VLM
from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from fp2.engines.hf.loading import HfSpec

_AUTO = "AutoModelForImageTextToText"


def auto_class(checkpoint: Checkpoint) -> str:
    """Return the name of the class to load: the auto class for pictures and text, or the one that the checkpoint names.

    Raises
    ------
    Fp2Error
        If the checkpoint is no model that looks at pictures and writes text.
    """
    served: Any = importlib.import_module("transformers.models.auto.modeling_auto")
    known: Any = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING
    if checkpoint.model_type in served.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return _AUTO
    if checkpoint.code or checkpoint.model_type not in known:
        return _AUTO  # which says what is missing: permission, or a newer transformers
    for name in checkpoint.config.get("architectures") or ():
        if _sees_and_writes(getattr(importlib.import_module("transformers"), str(name), None)):
            return str(name)
    raise Fp2Error(
        f"a model of type {checkpoint.model_type} does not look at pictures and write text",
        where=f"model.id: {checkpoint.path}",
        fix=NOT_VLM,
    )


def _sees_and_writes(kind: Any) -> bool:
    return kind is not None and hasattr(kind, "get_image_features") and bool(kind.can_generate())


def check_code(checkpoint: Checkpoint, spec: HfSpec) -> None:
    """Refuse code of a checkpoint's own that nothing pins: it could be another code tomorrow.

    A folder is pinned by its digests, a hub model by a whole commit (a branch or tag can move).

    Raises
    ------
    Fp2Error
        If such code is allowed to run and is not pinned.
    """
    if not (spec.trust_remote_code and checkpoint.code):
        return
    elsewhere = sorted(name.split("--")[0] for name in checkpoint.code.values() if "--" in name)
    if elsewhere:
        raise Fp2Error(
            f"the model {spec.id} runs code from another repository ({elsewhere[0]}), which nothing pins",
            where="model.trust_remote_code",
            fix="Copy that code into the model's folder, and mend auto_map in its config.json",
        )
    if checkpoint.revision is not None and not re.fullmatch(r"[0-9a-f]{40}", spec.revision or ""):
        raise Fp2Error(
            f"the model {spec.id} runs code of its own, and model.revision is {spec.revision!r}",
            where="model.revision",
            fix=f"Read that code at a commit and pin it, for instance model.revision={checkpoint.revision}",
        )
