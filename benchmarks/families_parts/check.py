"""What the engine may share with a checkpoint, by the engine's own check: a cell of text for each question."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from families_parts import build
from fp2.engines.checkpoint import resolve_checkpoint
from fp2.engines.hf.encoding import EncodedPrompts
from fp2.engines.hf.generation import BatchLimits, greedy
from fp2.engines.hf.inputs import _CHECK_QUESTIONS, InputBuilder
from fp2.engines.hf.loading import load
from fp2.engines.hf.model import HfSpec, LoadedModel
from fp2.engines.hf.prefix_policy import LogitDifference, boundaries, compare
from fp2.engines.hf.prompts import PromptFormat
from fp2.engines.hf.session import make_strategy
from fp2.engines.hf.whole_prompts import WholePrompts

EQUAL, PROBABILITY = "equal", 1e-5
SHARED = ("tree", "prefix", "vision")
DTYPES = ("float32", "bfloat16", "float16")
QUANTISED = ("int8", "nf4")
COLUMNS = ("asked", *SHARED, "several_images", "drafts", *DTYPES[1:], *QUANTISED)
_NEW = 12
CHUNK = 64
"""Tokens that the library's scans of linear attention and state-space layers take together: prompts have more."""


def cells_of(kind: str, folder: Path) -> dict[str, str]:
    """Return the cells of one type; `asked` says why where nothing else can be said."""
    try:
        folder, backend = build.save(kind, folder)
    except Exception as error:  # any class of the library may refuse its own defaults
        return {"asked": f"cannot be built: {_reason(error, folder)}"}
    try:
        loaded, encoded = _askable(folder, backend)
    except Exception as error:
        return {"asked": f"cannot be asked: {_reason(error, folder)}"}
    cells = {"asked": "yes"}
    shared = ""
    plain = WholePrompts(loaded.model, share_features=False, limits=BatchLimits(8, 512))
    for name in SHARED:
        strategy = make_strategy(name, loaded, BatchLimits(8, 512))
        cells[name] = _tried(lambda: _equal(strategy, plain, encoded[0], "float32"))  # noqa: B023
        if cells[name] == EQUAL and not shared:
            shared = name
    if shared:
        strategy = make_strategy(shared, loaded, BatchLimits(8, 512))
        cells["several_images"] = _tried(lambda: _several(strategy, plain, encoded))
        cells["drafts"] = _tried(lambda: _generated(strategy, plain, encoded[0]))
        del loaded, strategy, plain
        for dtype in DTYPES[1:]:
            cells[dtype] = _tried(lambda: _in(folder, backend, shared, dtype=dtype))  # noqa: B023
        for quantisation in QUANTISED:
            cells[quantisation] = _tried(lambda: _in(folder, backend, shared, quantisation=quantisation))  # noqa: B023
    return cells


def _askable(folder: Path, backend: str) -> tuple[LoadedModel, list[EncodedPrompts]]:
    """Return the loaded model with prompts about two images, once a way to write an image is found that it answers."""
    loaded, encoded, reason = None, [], ""
    spec = HfSpec(str(folder), image_backend=backend)  # type: ignore[arg-type]
    template = folder / "chat_template.jinja"
    template.unlink(missing_ok=True)
    first = load(resolve_checkpoint(str(folder)), spec, "cpu")
    for image in build.templates(first.processor):
        first.processor.chat_template = build.chat_template(image)
        template.write_text(first.processor.chat_template, encoding="utf-8")
        try:
            _set_image_token(first, folder)
            encoded = [_encoded(loaded := first, folder, seed) for seed in (0, 1)]
            plain = WholePrompts(loaded.model, share_features=False, limits=BatchLimits(8, 512))
            logits = [next(iter(plain.logits([one], [(0, ())])))[2][0, 0] for one in encoded]
            if not encoded[0].image_inputs:
                raise ValueError("the processor gives no pixels")
            if not bool(torch.isfinite(logits[0]).all()):
                raise ValueError("the logits of the random model are not numbers")
            if torch.equal(*logits):
                raise ValueError("the image does not change the logits")
        except Exception as error:
            reason = reason or _reason(error)
            continue
        return loaded, encoded
    raise ValueError(reason)


def _set_image_token(loaded: LoadedModel, folder: Path) -> None:
    """Give the config the token that the processor writes for each part of an image: the one that it repeats."""
    shown = loaded.processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "x"}]}], tokenize=False
    )
    ids = loaded.processor(text=[shown], images=[[build.picture()]], return_tensors="pt")["input_ids"][0].tolist()
    loaded.image_processor.forget()
    token, count = Counter(ids).most_common(1)[0]
    held = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for name in ("image_token_id", "image_token_index"):
        field = type(loaded.model.config).attribute_map.get(name, name)
        if count > 3 and field in held:
            held[field] = token
            setattr(loaded.model.config, name, token)
    (folder / "config.json").write_text(json.dumps(held), encoding="utf-8")


def _encoded(loaded: LoadedModel, folder: Path, seed: int) -> EncodedPrompts:
    return encoded(loaded, folder, _CHECK_QUESTIONS, build.picture(seed))


def encoded(loaded: LoadedModel, folder: Path, questions: Sequence[str], picture: Image.Image) -> EncodedPrompts:
    """Return questions about a picture as the model gets them."""
    prompts = PromptFormat(resolve_checkpoint(str(folder)), loaded.facts).with_processor(loaded.processor)
    builder = InputBuilder(loaded, prompts, "given")
    texts = [builder._prompt(text, images=1) for text in questions]
    loaded.image_processor.forget()
    return builder._encoder.encode([picture], texts)


def _equal(strategy: Any, plain: WholePrompts, encoded: EncodedPrompts, dtype: str, *, quantised: bool = False) -> str:
    if not strategy.supports(encoded):
        return "no: the image is not before the question"
    text = plain.model.config.get_text_config(decoder=True)
    found = compare(strategy, plain, encoded, max({CHUNK, *boundaries(text)}))
    return _verdict(found, dtype, quantised=quantised)


def _verdict(found: LogitDifference, dtype: str, *, quantised: bool = False) -> str:
    exact = dtype != "float32" or quantised or found.probability <= PROBABILITY
    return (
        EQUAL if found.within(dtype, quantised) and exact else f"not equal ({found.error:.1g} of {found.largest:.2g})"
    )


def _several(strategy: Any, plain: WholePrompts, encoded: list[EncodedPrompts]) -> str:
    if encoded[0].layout != encoded[1].layout:
        return "one at a time: their prompts differ"
    wanted = [(prompt, ()) for prompt in range(len(encoded[0].suffixes))]
    largest, error = 1.0, 0.0
    for images, places, logits in strategy.logits(encoded, wanted):
        for image, rows in zip(images, logits, strict=True):
            for place, row in zip(places, rows, strict=True):
                alone = next(iter(plain.logits([encoded[image]], [wanted[place]])))[2][0, 0]
                largest, error = max(largest, float(alone.abs().max())), max(error, float((row - alone).abs().max()))
    return EQUAL if error <= 1e-4 * largest else f"not equal ({error:.1g} of {largest:.2g})"


def _generated(strategy: Any, plain: WholePrompts, encoded: EncodedPrompts) -> str:
    one = plain.generate([encoded], greedy, set(), _NEW)
    first = strategy.generate([encoded], greedy, set(), _NEW)
    again = strategy.generate([encoded], greedy, set(), _NEW)  # with the drafts of the first time
    return EQUAL if one == first == again else "not equal"


def _in(folder: Path, backend: str, shared: str, dtype: str = "float32", quantisation: str | None = None) -> str:
    spec = HfSpec(str(folder), dtype=dtype, quantisation=quantisation, image_backend=backend)  # type: ignore[arg-type]
    loaded = load(resolve_checkpoint(str(folder)), spec, "cpu")
    gc.collect()
    plain = WholePrompts(loaded.model, share_features=False, limits=BatchLimits(8, 512))
    strategy = make_strategy(shared, loaded, BatchLimits(8, 512))
    return _equal(strategy, plain, _encoded(loaded, folder, 0), dtype, quantised=quantisation is not None)


def _tried(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except Exception as error:
        return f"no: {_reason(error)}"


def _reason(error: Exception, folder: Path | None = None) -> str:
    cause = error.__cause__ if error.__cause__ is not None and "cannot be loaded" in str(error) else error
    text = next((line.strip() for line in str(cause).splitlines() if line.strip()), "")
    if folder is not None:  # of this machine, and another each time
        text = text.replace(str(folder), "the checkpoint")
    return f"{type(cause).__name__}: {text}"[:160].replace("\n", " ").rstrip(": ")
