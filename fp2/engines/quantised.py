"""Weights in 8 or 4 bits by bitsandbytes: how they are asked for, and where they would be computed wrongly."""

from __future__ import annotations

import importlib
from typing import Any

from fp2.errors import Fp2Error

_INPUTS, _OUTPUTS = 64, 32


def bits_config(quantisation: str, dtype: str) -> Any:
    """Return what transformers takes for `int8` (LLM.int8) or `nf4`, computed in `dtype`."""
    torch, bits = importlib.import_module("torch"), importlib.import_module("transformers").BitsAndBytesConfig
    if quantisation == "int8":
        return bits(load_in_8bit=True)
    return bits(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=getattr(torch, dtype))


def check_nf4(model: Any) -> None:
    """Refuse 4-bit layers on a CPU that bitsandbytes does not compute rightly there.

    Weights are quantised in blocks of 64 that run on from row to row, and its CPU kernels (0.50) read them as blocks
    within a row: where rows are no multiple of 64, values come out wrong, on some processors with an error and on
    others without one. The kernel for processors with AVX512-BF16 takes outputs by 32.

    Raises
    ------
    Fp2Error
        Naming the first such layer.
    """
    kind = importlib.import_module("bitsandbytes").nn.Linear4bit
    for name, layer in model.named_modules():
        if not isinstance(layer, kind) or layer.weight.device.type != "cpu":
            continue
        if layer.in_features % _INPUTS or layer.out_features % _OUTPUTS:
            raise Fp2Error(
                f"bitsandbytes cannot compute nf4 on a CPU for this model: its layer {name} is {layer.out_features} x "
                f"{layer.in_features}, not a multiple of {_OUTPUTS} x {_INPUTS}",
                where="model.quantisation",
                fix="Set model.quantisation=int8, or use a GPU",
            )
