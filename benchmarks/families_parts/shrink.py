"""Configs of transformers with small dimensions: the fields of a default config, walked and shrunk by their names.

Widths, depths, heads and experts become small. What an image is cut into (image and patch sizes, tokens an image) stays
as it is, so that the config and the image processor of a family still agree. Of the layers, one of each kind stays;
windows and chunks of attention become shorter than any prompt, so that every prompt crosses them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

WIDTH, INNER, LAYERS, HEADS, KV_HEADS, HEAD, EXPERTS, CHOSEN, RANK = 64, 256, 4, 4, 2, 16, 4, 2, 32
WINDOW = 32
_ROTARY = HEAD // 2
_WIDTHS = {WIDTH, INNER, HEAD, 2 * HEAD, 4 * WIDTH, RANK}
_SIZES: tuple[tuple[str, int], ...] = (  # the first pattern that a field's whole name matches
    (r"(linear_)?num_(key_)?value_heads_per_.*", 1),
    (r"qk_head_dim", 2 * HEAD),
    (r"projector_input_dim|projector_output_dim|vision_output_dim", 4 * WIDTH),
    (r"num_kv_shared_layers", 2),
    (r"hidden_size_per_layer_input|laurel_rank|ssm_state_size|mamba_d_state|index_head_dim", HEAD),
    (r".*(key_value_heads|kv_heads)|num_global_key_value_heads|attn_kv_heads", KV_HEADS),
    (r".*heads|n_head|num_attention_heads_per_layer|.*_num_head", HEADS),
    (r".*head_dim|.*head_size|d_kv|attention_head_dim|attn_head_dim|kv_channels|head_width|mamba_d_head", HEAD),
    (r".*(lora_rank|lora_dim)", RANK),
    (r".*(intermediate|ffn|feedforward|feed_forward|mlp)_(hidden_)?(size|dims?)(_mlp)?|d_ff|n_inner", INNER),
    (r".*(num_(hidden_)?layers|n_layers?|depth|encoder_layers|decoder_layers|local_layers)|layers", LAYERS),
    (r"num_global_layers", 2),
    (r"(num|n)_(routed_|local_)?experts|moe_num_experts", EXPERTS),
    (r"(moe_)?num_experts_per_tok|moe_k|moe_top_?k|top_k_experts|experts_per_token|router_top_?k", CHOSEN),
    (r"n_group|topk_group|n_groups|mamba_n_groups", 1),
    (r"query_pre_attn_scalar", HEAD),
    (r"sliding_window|attention_chunk_size|sliding_window_size|.*attention_window(_size)?", WINDOW),
    (r".*(hidden_size|embed_dim|d_model|n_embd|hidden_dim|projection_dim|output_dim|out_dim|embedding_size|conv_dim"
     r"|projector_dim|hidden_width|embed_size|hidden_sizes?_\w+|proj_dim|block_dim)", WIDTH),
)  # fmt: skip
_LAYER_INDICES = re.compile(r".*(index|layers?|indices|block_indexes).*")


def shrunk(config: Mapping[str, Any], vocabulary: int, scale: int = 1) -> dict[str, Any]:
    """Return a config, as a dict, with small dimensions and `vocabulary` tokens; widths are multiplied by `scale`."""
    if isinstance(config.get("architecture"), str):  # a backbone of timm, whose name fixes its widths
        return dict(config)
    small: dict[str, Any] = {}
    layers = _layers(config)
    for name, value in config.items():
        if name == "per_layer_config" and isinstance(value, Mapping):
            kept = {layer: place for place, layer in enumerate(layers)}
            small[name] = {
                kept[int(layer)]: shrunk(own, vocabulary, scale) for layer, own in value.items() if int(layer) in kept
            }
        elif isinstance(value, Mapping):
            nested = "config" in name or "model_type" in value
            small[name] = (
                shrunk(value, vocabulary, scale) if nested else _rope(value, scale) if "rope" in name else value
            )
        elif isinstance(value, bool) or value is None:
            small[name] = value
        elif isinstance(value, int):
            small[name] = _size(name, value, vocabulary, scale)
        elif isinstance(value, (list, tuple)):
            small[name] = _list(name, list(value), layers)
        elif isinstance(value, str) and layers and len(value) == _depth(config):
            small[name] = "".join(value[place] for place in layers)  # a pattern of one letter a layer
        else:
            small[name] = value
    if "kv_lora_rank" in small:  # latent attention: a key and a value for each head
        small["num_key_value_heads"] = small["num_attention_heads"]
    return small


def _size(name: str, value: int, vocabulary: int, scale: int) -> int:
    if "vocab_size" in name:
        return vocabulary
    if name.endswith(("_id", "_index", "_token", "_layer")):
        return value
    limit = next((size for pattern, size in _SIZES if re.fullmatch(pattern, name)), value)
    widened = limit * scale if limit in _WIDTHS and "window" not in name and "chunk" not in name else limit
    return min(value, widened) if value > 0 else value


def _depth(config: Mapping[str, Any]) -> int:
    names = ("num_hidden_layers", "depth", "num_layers", "n_layers", "layers")
    return next((config[name] for name in names if isinstance(config.get(name), int)), 0)


def _layers(config: Mapping[str, Any]) -> list[int]:
    """Return the layers that stay: the first of each kind, then a second one of each."""
    depth = _depth(config)
    kinds = config.get("layer_types") or config.get("layers_block_type") or config.get("hybrid_override_pattern")
    if not kinds or len(kinds) != depth:
        return list(range(min(LAYERS, depth)))
    first = {kind: place for place, kind in reversed(list(enumerate(kinds)))}
    chosen = sorted(first.values())[:LAYERS]
    rest = [place for place in range(depth) if place not in chosen]
    for kind in itertools.cycle([kinds[place] for place in chosen]):  # every kind again, for layers that share a cache
        if len(chosen) >= LAYERS or not rest:
            return chosen
        place = next((place for place in rest if kinds[place] == kind), rest[0])
        chosen.append(place)
        rest.remove(place)
    return chosen


def _list(name: str, values: list[Any], layers: list[int]) -> list[Any]:
    each_layer = layers and len(values) > max(LAYERS, *layers) and not name.endswith(("mean", "std"))
    if each_layer and (len(set(map(str, values))) < len(values) or not all(isinstance(value, int) for value in values)):
        return [values[place] for place in layers]
    plain = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if plain and values and _LAYER_INDICES.match(name) and "token" not in name and max(values) >= LAYERS:
        first = min(1, *values)  # where the first layer is not among them, it stays so
        return list(range(first, first + min(len(values), LAYERS - 1)))
    return values


def _rope(settings: Mapping[str, Any], scale: int) -> dict[str, Any]:
    small = {name: _rope(value, scale) if isinstance(value, Mapping) else value for name, value in settings.items()}
    if sections := small.get("mrope_section"):
        share = max(1, int(_ROTARY * scale * float(small.get("partial_rotary_factor", 1.0))))
        parts = [max(1, int(share * part / sum(sections))) for part in sections]
        parts[0] += share - sum(parts)
        small["mrope_section"] = parts
    return small
