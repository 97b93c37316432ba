"""How many floating-point operations the naive loop does, and how few would do: the arithmetic limit of sharing.

A multiplication with an addition counts two. Counted: linear layers, convolutions, attention (both products over every
key that the kernel computes, masked or not) and the output layer; not counted: norms, activations, rotary positions.
Naive: image, prompt and output layer over the whole prompt, for each question. Limit: the image once, the common
beginning once, each further token of the prompts' tree once (attending to its own ancestors only), and the output layer
where an answer is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Prompt = Sequence[int]


@dataclass(frozen=True)
class TextFlops:
    """Costs of a decoder, in operations."""

    per_token: float
    per_pair: float  # one query looking at one key, in all layers
    per_output: float  # the output layer at one position

    @classmethod
    def of(cls, config: Any) -> TextFlops:
        """Return the costs of the decoder with this config (gated MLP, grouped-query attention)."""
        hidden, heads = config.hidden_size, config.num_attention_heads
        size = getattr(config, "head_dim", None) or hidden // heads
        attention = hidden * size * (2 * heads + 2 * config.num_key_value_heads)
        layer = 2 * (attention + 3 * hidden * config.intermediate_size)
        layers = config.num_hidden_layers
        return cls(layers * layer, layers * 4 * heads * size, 2 * hidden * config.vocab_size)

    def prompt(self, length: int, n_outputs: int) -> float:
        """Return the cost of one forward pass over `length` tokens."""
        return length * self.per_token + length**2 * self.per_pair + n_outputs * self.per_output


def qwen_vision(config: Any, grid: tuple[int, int]) -> float:
    """Return the cost of encoding one image of `grid` patches (rows, columns) in Qwen2.5-VL's tower."""
    hidden, rows, columns = config.hidden_size, *grid
    patches, merge = rows * columns, config.spatial_merge_size
    window = config.window_size // config.patch_size
    windows = _parts(rows, window), _parts(columns, window)
    near = sum((height * width) ** 2 for height in windows[0] for width in windows[1])
    full = len(config.fullatt_block_indexes)
    pairs = full * patches**2 + (config.depth - full) * near
    block = 4 * hidden**2 + 3 * hidden * config.intermediate_size
    embed = config.in_channels * config.temporal_patch_size * config.patch_size**2 * hidden
    wide = hidden * merge**2
    merger = (wide**2 + wide * config.out_hidden_size) / merge**2
    return 2 * patches * (embed + config.depth * block + merger) + 4 * hidden * pairs


def idefics3_vision(config: Any, n_tiles: int) -> float:
    """Return the cost of encoding one image of `n_tiles` tiles in a SigLIP tower with pixel shuffle (Idefics3)."""
    vision, hidden = config.vision_config, config.vision_config.hidden_size
    patches = (vision.image_size // vision.patch_size) ** 2
    block = 4 * hidden**2 + 2 * hidden * vision.intermediate_size
    embed = vision.num_channels * vision.patch_size**2 * hidden
    connector = hidden * config.text_config.hidden_size  # (hidden * s^2) inputs, one output token per s^2 patches
    per_tile = 2 * patches * (embed + vision.num_hidden_layers * block + connector)
    return n_tiles * (per_tile + 4 * hidden * patches**2 * vision.num_hidden_layers)


def vision_flops(config: Any, inputs: Any) -> float:
    """Return the cost of encoding the images in a processor's `inputs`."""
    if config.model_type == "qwen2_5_vl":
        grids = inputs["image_grid_thw"].tolist()
        return sum(qwen_vision(config.vision_config, (rows, columns)) for _, rows, columns in grids)
    return idefics3_vision(config, inputs["pixel_values"].shape[1])


@dataclass(frozen=True)
class Costs:
    """What an image's questions cost one by one, and at least."""

    naive: float
    shared: float

    @property
    def limit(self) -> float:
        """How many times faster than the naive loop sharing can be, if every operation takes the same time."""
        return self.naive / self.shared


def score_costs(text: TextFlops, vision: float, prompts: Sequence[Prompt]) -> Costs:
    """Return the costs of one forward pass per prompt about one image, and of their tree."""
    naive = sum(vision + text.prompt(len(prompt), len(prompt)) for prompt in prompts)
    beginning, tree, pairs = _tree(prompts)
    shared = vision + text.prompt(beginning, 0) + tree * text.per_token + pairs * text.per_pair
    return Costs(naive, shared + len(prompts) * text.per_output)


def generate_costs(text: TextFlops, vision: float, prompts: Sequence[Prompt], n_new: int) -> Costs:
    """Return the costs of `generate` with `n_new` tokens per prompt, and of the same words behind their tree.

    `generate` reads the output layer at the last position only.
    """
    said = 0.0
    for prompt in prompts:
        cached = sum(len(prompt) + step + 1 for step in range(n_new - 1))
        said += (n_new - 1) * text.per_token + cached * text.per_pair + n_new * text.per_output
    naive = said + sum(vision + text.prompt(len(prompt), 0) for prompt in prompts)
    beginning, tree, pairs = _tree(prompts)
    return Costs(naive, said + vision + text.prompt(beginning, 0) + tree * text.per_token + pairs * text.per_pair)


def tree_sizes(prompts: Sequence[Prompt]) -> dict[str, float]:
    """Return the token counts that the limit stands on."""
    beginning, tree, _ = _tree(prompts)
    mean = sum(map(len, prompts)) / len(prompts)
    return {"prompts": len(prompts), "prompt_tokens": mean, "common_tokens": beginning, "tree_tokens": tree}


def counted(model: Any, inputs: Any) -> float:
    """Return the operations of one forward pass as torch's counter sees them (attention taken apart into products)."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(**inputs)
    return float(counter.get_total_flops())


def _tree(prompts: Sequence[Prompt]) -> tuple[int, int, int]:
    """Return the length of the common beginning, the tokens of the tree behind it, and the keys that they look at."""
    rows = [tuple(prompt) for prompt in prompts]
    beginning, shortest = 0, min(map(len, rows)) - 1
    while beginning < shortest and len({row[beginning] for row in rows}) == 1:
        beginning += 1
    paths = {row[:end] for row in rows for end in range(beginning + 1, len(row) + 1)}
    return beginning, len(paths), sum(map(len, paths))


def _parts(length: int, part: int) -> list[int]:
    return [min(part, length - start) for start in range(0, length, part)]
