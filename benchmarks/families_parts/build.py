"""A tiny random checkpoint of any image-text-to-text type, from the library's own config and processor classes."""

from __future__ import annotations

import importlib
import inspect
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from families_parts.shrink import WINDOW, shrunk

_MARK = re.compile(r"""["'](<[^\s"'<>]+>|<\|[^\s"']+\|>|\[[A-Z_]+\])["']""")
_NAMED = re.compile(r"tokenizer\.(\w+_token)\b")
_WORDS = "Yes No yes no YES NO A B C D"
_LINES = (
    "Is this person kind and patient? Answer with Yes or No. Describe this person in one sentence.",
    "What does this person do for work? USER: ASSISTANT: nurse street brave honest",
)
_SQUARE = ({"height", "width"}, {"shortest_edge"}, {"longest_edge"})
_BASE = ("<unk>", "<pad>", "<s>", "</s>")
ASK = "Is this person kind?"


def picture(seed: int = 0, size: tuple[int, int] = (160, 128)) -> Image.Image:
    """Return an image of noise."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8))


def auto(module: str) -> Any:
    """Return a module of transformers' auto classes."""
    return importlib.import_module(f"transformers.models.auto.{module}")


def save(kind: str, folder: Path, seed: int = 0, scale: int = 1, gain: float = 4.0) -> tuple[Path, str]:
    """Save a checkpoint of model type `kind` into `folder`; return it, and the backend of its image processor.

    Parameters
    ----------
    scale : int
        Times the smallest widths.
    gain : float
        See `amplify`.
    """
    config_class = auto("configuration_auto").CONFIG_MAPPING[kind]
    defaults = config_class()
    part = getattr(defaults, "sub_configs", {}).get("vision_config")
    if part is not None and getattr(defaults, "vision_config", part) is None and part.model_type:
        defaults.vision_config = part()
    vision = getattr(defaults, "vision_config", None)
    if tokens := getattr(defaults, "mm_tokens_per_image", 0):  # pooled: two patches a side for each token
        vision.image_size = vision.patch_size * 2 * math.isqrt(tokens)
    elif hasattr(vision, "max_num_tiles"):  # every token attends to all patches of all tiles
        vision.image_size = 12 * vision.patch_size
    elif hasattr(defaults, "image_grid_pinpoints"):
        pass  # tiles of its size
    elif isinstance(getattr(vision, "image_size", None), int) and isinstance(getattr(vision, "patch_size", None), int):
        vision.image_size -= vision.image_size % (4 * vision.patch_size)  # patches are merged by 2 or by 4 a side
    processor_class, pictures, backend = _processor_parts(kind, defaults)
    tokenizer = _tokenizer(processor_class, config_class)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(folder)
    settings = _fitted(pictures, defaults)
    settings = _hearing(kind, processor_class) | settings
    settings["image_processor_type"] = type(pictures).__name__.removesuffix("Pil")
    settings["processor_class"] = processor_class.__name__
    _write(folder / "preprocessor_config.json", settings)
    needed = _needed(processor_class, defaults)
    _write(folder / "processor_config.json", {"processor_class": processor_class.__name__, **needed})
    for part in _parts(defaults):
        _complete(part)
    config = config_class.from_dict(_with_tokens(shrunk(defaults.to_dict(), len(tokenizer), scale), tokenizer))
    torch.manual_seed(seed)
    model = getattr(
        importlib.import_module("transformers"), auto("modeling_auto").MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES[kind]
    )(config)
    amplify(model, gain)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    return folder, backend


def _parts(config: Any) -> Iterator[Any]:
    """Yield a config and those inside it."""
    yield config
    for name in getattr(config, "sub_configs", {}):
        if (inner := getattr(config, name, None)) is not None:
            yield from _parts(inner)


def _complete(config: Any) -> None:
    """Give a config what its model reads and its defaults leave out: every kind of layer, and rotary sections.

    The default text config of some types has full attention only, and published checkpoints of them do not.
    """
    module = type(config).__module__.replace(".configuration_", ".modeling_")
    try:
        source = inspect.getsource(importlib.import_module(module))
    except (ImportError, OSError):
        return
    kinds = getattr(config, "layer_types", None)
    if kinds and len(set(kinds)) == 1 and len(kinds) > 1:
        allowed = importlib.import_module("transformers.configuration_utils").ALLOWED_ATTN_LAYER_TYPES
        known = [kind for kind in allowed if f'"{kind}"' in source and kind not in ("moe", "hybrid")]
        if "is_attention_layer" in source or "ShortConv" in source:
            known = list(dict.fromkeys([*known, "conv", "full_attention"]))
        if len(known) > 1:
            config.layer_types = [known[place % len(known)] for place in range(len(kinds))]
    rope = getattr(config, "rope_parameters", None)
    if isinstance(rope, dict) and "rope_type" in rope and "mrope_section" not in rope and "mrope_section" in source:
        rope["mrope_section"] = [3, 3, 2]
    if getattr(config, "sliding_window", 0) is None and "sliding_attention" in (
        getattr(config, "layer_types", None) or ()
    ):
        config.sliding_window = WINDOW
        config.use_sliding_window = True


def amplify(model: Any, gain: float = 4.0) -> None:
    """Multiply weights, and add noise to constant ones: only then do image and prompt move the logits."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel() == 1 and not bool(parameter.any()):
                parameter.fill_(0.5)  # a gate that is closed before training
            elif parameter.numel() > 1 and bool((parameter == parameter.flatten()[0]).all()):
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            elif not bool(torch.isfinite(parameter).all()):
                parameter.normal_(0, 0.1)
            else:
                parameter.mul_(gain)


def templates(processor: Any) -> Iterator[str]:
    """Yield how an image may be written before a question, the likeliest first."""
    tokenizer = processor.tokenizer
    names = ("image_token", "boi_token", "start_image_token", "fake_image_token", "image_start_token")
    token = next(
        (str(value) for name in names if (value := getattr(processor, name, None) or getattr(tokenizer, name, None))),
        "",
    )
    known = set(map(str, tokenizer.get_added_vocab()))
    for before in sorted(known):
        after = re.sub("start|begin", "end", before, flags=re.IGNORECASE)
        after = after.upper() if before.isupper() else after
        if after != before and after in known and re.search("vision|image", before, re.IGNORECASE):
            yield before + token + after
    yield token
    yield from (mark for mark in sorted(known) if "image" in mark.lower() and mark != token)
    yield ""


def chat_template(image: str) -> str:
    """Return a chat template that writes `image` for an image."""
    part = f"{{% if part['type'] == 'image' %}}{image}{{% else %}}{{{{ part['text'] }}}}{{% endif %}}"
    content = (
        "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
        f"{{% for part in message['content'] %}}{part}{{% endfor %}}{{% endif %}}"
    )
    return (
        f"{{% for message in messages %}}USER: {content} {{% endfor %}}"
        "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
    )


def _processor_parts(kind: str, config: Any) -> tuple[Any, Any, str]:
    named = auto("processing_auto").PROCESSOR_MAPPING_NAMES.get(kind)
    package = importlib.import_module(f"{type(config).__module__.rpartition('.')[0]}")
    if not named:
        named = next(
            (
                name
                for name in dir(package)
                if name.endswith("Processor") and "Image" not in name and "Video" not in name and "Feature" not in name
            ),
            None,
        )
    if not named:
        raise LookupError("transformers has no processor of images and text for it")
    processor_class = auto("processing_auto").processor_class_from_name(named) or getattr(package, named)
    images = auto("image_processing_auto").IMAGE_PROCESSOR_MAPPING_NAMES
    # a type without an entry has the image processor of another type with the same processor
    twins = [other for other, name in auto("processing_auto").PROCESSOR_MAPPING_NAMES.items() if name == named]
    backends = next((images[name] for name in (kind, *twins) if images.get(name)), None)
    if not backends:
        raise LookupError("transformers has no image processor for it")
    backend = "pil" if "pil" in backends else "torchvision"
    name = backends[backend]
    kind_class = getattr(importlib.import_module("transformers"), name, None)
    if kind_class is None:
        for module in list(_image_modules(name)):
            kind_class = getattr(module, name, kind_class)
    return processor_class, kind_class(), backend


def _image_modules(name: str) -> Iterator[Any]:
    import pkgutil

    import transformers.models as models

    wanted = name.removesuffix("Pil").removesuffix("ImageProcessor").lower()
    for entry in pkgutil.iter_modules(models.__path__):
        if entry.name.replace("_", "") == wanted.replace("_", ""):
            for inner in pkgutil.iter_modules([f"{models.__path__[0]}/{entry.name}"]):
                if inner.name.startswith("image_processing"):
                    yield importlib.import_module(f"transformers.models.{entry.name}.{inner.name}")


def _tokenizer(processor_class: Any, config_class: Any) -> Any:
    """Return a byte-level tokenizer with every mark that the code of a processor or a config names."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    source = inspect.getsource(sys.modules[processor_class.__module__])
    marks = {mark for mark in _MARK.findall(source) if "{" not in mark and len(mark) < 60}
    named = {name: f"<{name}>" for name in _NAMED.findall(source)} | {
        f"{match[1]}": f"<{match[1]}>"
        for match in re.finditer(r"(\w+_token)_(?:id|index)\b", inspect.getsource(sys.modules[config_class.__module__]))
    }
    usual = {
        "bos_token",
        "eos_token",
        "pad_token",
        "unk_token",
        "decoder_start_token",
        "cls_token",
        "sep_token",
        "mask_token",
    }
    if "image_token.content" in source:  # the processor of BLIP-2 makes its own
        usual.add("image_token")
    named = {name: mark for name, mark in named.items() if name not in usual}
    for name in named:  # a mark that the code of the processor gives by default
        if match := re.search(rf"\b{name}\b(?:\s*:[\w| ]+)?\s*=\s*[\"'](<[^\"'{{}}]+>)[\"']", source):
            named[name] = match[1]
    special = [*_BASE, *sorted(marks - set(_BASE)), *sorted(set(named.values()) - marks)]
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + 420,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words = [word for single in _WORDS.split() for word in (single, f" {single}")]
    inner.train_from_iterator([*_LINES, *words * 9], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        padding_side="right",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        extra_special_tokens=named,
    )


def _needed(processor_class: Any, config: Any) -> dict[str, Any]:
    """Return the settings of a processor that its class does not know and its config does."""
    held = [config, getattr(config, "vision_config", None)]
    known: dict[str, Any] = {}
    for name, parameter in inspect.signature(processor_class.__init__).parameters.items():
        if name == "num_image_tokens" and hasattr(held[1], "image_size"):
            known[name] = (held[1].image_size // held[1].patch_size) ** 2
        if name == "image_seq_len" and hasattr(config, "scale_factor"):  # patches are merged
            known[name] = (held[1].image_size // held[1].patch_size // config.scale_factor) ** 2
        field = "image_size" if name == "img_size" else name
        value = next((getattr(part, field) for part in held if isinstance(getattr(part, field, None), int)), None)
        if value is None and parameter.default in (None, inspect.Parameter.empty):
            value = next((getattr(part, name) for part in held if isinstance(getattr(part, name, None), str)), None)
        if value is not None and ("token" not in name or name == "num_query_tokens"):
            known[name] = value
    if "vision_feature_select_strategy" in inspect.signature(processor_class.__init__).parameters:
        known["vision_feature_select_strategy"] = getattr(config, "vision_feature_select_strategy", "default")
        known["num_additional_image_tokens"] = 1
    return known


def _fitted(pictures: Any, config: Any) -> dict[str, Any]:
    """Return the settings of an image processor with the patches of a config."""
    settings = pictures.to_dict()
    vision = getattr(config, "vision_config", None)
    for name in ("patch_size", "temporal_patch_size"):
        if isinstance(settings.get(name), int) and isinstance(getattr(vision, name, None), int):
            settings[name] = getattr(vision, name)
    side = getattr(vision, "image_size", None)
    side = side[0] if isinstance(side, (list, tuple)) else side
    if isinstance(side, int) and getattr(pictures, "image_seq_length", 0) is None:
        settings["image_seq_length"] = (side // vision.patch_size) ** 2
    for name in ("size", "crop_size", "max_image_size"):
        given = settings.get(name)
        if isinstance(side, int) and isinstance(given, dict) and set(given) in _SQUARE:
            settings[name] = dict.fromkeys(given, side)
    if "max_image_size" in settings:  # of a tile
        settings["size"] = {"longest_edge": 2 * side}
    return {name: value for name, value in settings.items() if value is not None}


def _with_tokens(config: dict[str, Any], tokenizer: Any) -> dict[str, Any]:
    """Set the ids of special tokens to those of the tokenizer."""
    usual = {"bos_token_id": "<s>", "eos_token_id": "</s>", "pad_token_id": "<pad>", "decoder_start_token_id": "<s>"}
    for name, value in config.items():
        if not isinstance(name, str):
            continue  # the settings of one layer
        if isinstance(value, dict) and "config" in name:
            config[name] = _with_tokens(value, tokenizer)
        elif name in usual:
            config[name] = tokenizer.convert_tokens_to_ids(usual[name])
        elif (match := re.fullmatch(r"(\w+_token)_(?:id|index)", name)) and not isinstance(value, list):
            mark = getattr(tokenizer, match[1], f"<{match[1]}>")
            if mark in tokenizer.get_added_vocab():
                config[name] = tokenizer.convert_tokens_to_ids(mark)
        elif isinstance(value, int) and not isinstance(value, bool) and name.endswith("_id"):
            config[name] = min(value, len(tokenizer) - 1)
    return config


def _hearing(kind: str, processor_class: Any) -> dict[str, Any]:
    """Return the settings of the part of a processor that reads sound, if it has one."""
    named = auto("feature_extraction_auto").FEATURE_EXTRACTOR_MAPPING_NAMES.get(kind, "ParakeetFeatureExtractor")
    if "feature_extractor" not in processor_class.get_attributes():
        return {}
    extractor = getattr(importlib.import_module("transformers"), named)()
    return {**extractor.to_dict(), "feature_extractor_type": named}


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, default=str), encoding="utf-8")
