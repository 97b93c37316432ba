"""A tiny checkpoint of every model family, saved as a hub repository lays it out: real config, tokenizer and weights.

Use it from a test in this folder: `from family_checkpoints import FAMILIES, save`. Every checkpoint loads through the
real auto classes from disk, has 0.1-0.4 million parameters and is written in a fraction of a second. The weights are
random and about four times the usual size: only then do image and prompt move the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from family_checkpoints.blips import save_blip2_opt, save_blip2_t5
from family_checkpoints.gemmas import save_gemma3, save_paligemma, save_paligemma2
from family_checkpoints.llavas import save_llava, save_llava_next, save_llava_onevision
from family_checkpoints.qwens import save_internvl, save_qwen2_5_vl, save_qwen2_vl, save_qwen3_vl
from family_checkpoints.smols import save_idefics3, save_smolvlm

FAMILIES: dict[str, Callable[[Path, int], Path]] = {
    "paligemma": save_paligemma,
    "paligemma2": save_paligemma2,
    "gemma3": save_gemma3,
    "idefics3": save_idefics3,  # SmolVLM
    "smolvlm": save_smolvlm,  # SmolVLM2
    "qwen2_vl": save_qwen2_vl,
    "qwen2_5_vl": save_qwen2_5_vl,
    "qwen3_vl": save_qwen3_vl,
    "internvl": save_internvl,
    "llava": save_llava,
    "llava_next": save_llava_next,
    "llava_onevision": save_llava_onevision,
    "blip2_opt": save_blip2_opt,
    "blip2_t5": save_blip2_t5,
}


def save(family: str, folder: Path, seed: int = 0) -> Path:
    """Save the checkpoint of `family` into `folder` (made if it is not there) and return the folder."""
    return FAMILIES[family](folder, seed)
