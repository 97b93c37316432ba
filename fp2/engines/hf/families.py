"""Facts about families of models, by the `model_type` in `config.json` and never by a model's name.

Most models need no row: their checkpoint has a chat template, and what their questions may share is found by the check
that every model goes through. In 16 bits that check cannot tell a small error from rounding: there it confirms what was
found in float32 on a small checkpoint of the family (`families.csv`, written by `python -m benchmarks.families`). A row
says what a check cannot: how a model without a chat template was trained to be asked, and where sharing is wrong by
construction.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

Sharable = Literal["tree", "prefix", "vision", "none", "auto"]
IMAGE, QUESTION = "{image}", "{question}"


@dataclass(frozen=True)
class FamilyFacts:
    """Facts about one family.

    Attributes
    ----------
    sharing : {"tree", "prefix", "vision", "none", "auto"}
        The most that questions about one image may share: `tree` where attention is causal (or bidirectional within
        one image), so that the keys and values of the image and the common prefix hold for every question; `vision`
        where the prompt changes the image's hidden states in the language model; `none` where the image features
        depend on the question; `auto` where nothing is known.
    raw_prompt : str
        The prompt format without a chat template, with `{image}` and `{question}`.
    text_only : bool
        Whether the model can be asked without an image.
    text_model : str
        Attribute of the causal language model, for models whose own forward cannot continue from a cache.
    image_by_processor : bool
        Whether the processor inserts the image tokens itself, so that `{image}` stands for nothing.
    proven : {"tree", "prefix", "vision", "auto"}
        The most that was exact on a small checkpoint of the family in float32, where `sharing` is `auto`.
    several_images : bool
        Whether images may be computed in one batch: False where that was not exact, or is not known.
    """

    sharing: Sharable = "auto"
    raw_prompt: str = IMAGE + QUESTION
    text_only: bool = True
    text_model: str = ""
    image_by_processor: bool = False
    proven: Sharable = "auto"
    several_images: bool = True

    @property
    def expected(self) -> Sharable:
        """The sharing that a model of the family will have, `auto` if nothing is known."""
        return self.proven if self.sharing == "auto" else self.sharing


_CAUSAL = FamilyFacts(sharing="tree")
_VICUNA = "USER: {image}\n{question} ASSISTANT:"
_BLIP = FamilyFacts(
    raw_prompt="{image}Question: {question} Answer:",  # the form of its paper's question answering
    text_only=False,  # its forward always runs the vision encoder
    image_by_processor=True,
)

_FAMILIES: dict[str, FamilyFacts] = {
    # Prefix-LM attention: image and prompt attend to each other bidirectionally. The processor adds the start token
    # after the image and the line break that the mix checkpoints were trained with (ai.google.dev, PaliGemma prompts).
    "paligemma": FamilyFacts(sharing="vision", raw_prompt="{image}answer en {question}", text_only=False),
    # Bidirectional only among the tokens of one image.
    "gemma3": _CAUSAL,
    "idefics3": _CAUSAL,  # SmolVLM
    "smolvlm": _CAUSAL,  # SmolVLM2
    "qwen2_vl": _CAUSAL,
    "qwen2_5_vl": _CAUSAL,
    "qwen3_vl": _CAUSAL,
    "qwen3_vl_moe": _CAUSAL,
    "internvl": _CAUSAL,
    # Checkpoints older than chat templates; the prompts of their model cards.
    "llava": replace(_CAUSAL, raw_prompt=_VICUNA),
    "llava_next": replace(_CAUSAL, raw_prompt=_VICUNA),
    "llava_onevision": _CAUSAL,
    # The Q-Former sees the image only, and the processor puts its tokens before the start token of the text.
    "blip-2": replace(_BLIP, sharing="tree", text_model="language_model"),
    # The Q-Former reads the question too.
    "instructblip": replace(_BLIP, sharing="none", raw_prompt="{image}{question}"),
    # The prompt of its model card, for checkpoints without a chat template that takes images.
    "phi4_multimodal": FamilyFacts(raw_prompt="<|user|>{image}{question}<|end|><|assistant|>"),
    # Asked through code of their own (`custom_code`), which writes the prompt. Not every version of moondream can be
    # asked without an image.
    "internvl_chat": FamilyFacts(sharing="vision"),
    "moondream1": FamilyFacts(sharing="vision", text_only=False),
    "moondream3": FamilyFacts(sharing="vision", text_only=False),
}
_NATIVE_TEXT = ("llama", "mistral", "qwen2", "qwen3")  # language models of transformers inside InternVL's code
_LLAVA_NEXT_MISTRAL = "[INST] {image}\n{question} [/INST]"


def facts_for(config: Mapping[str, object]) -> FamilyFacts:
    """Return the facts about the family of a `config.json`; for a family without a row, nothing is assumed."""
    kind, text = str(config.get("model_type", "")), config.get("text_config")
    text = text if isinstance(text, Mapping) else config  # older files have it at the top level
    facts = _FAMILIES.get(kind, FamilyFacts())
    proven, several = _proven().get(kind, ("auto", ""))
    if facts.sharing == "auto":
        facts = replace(facts, proven=proven, several_images=several == "equal")
    elif several.startswith("not equal"):
        facts = replace(facts, several_images=False)
    if kind == "llava_next" and text.get("model_type") == "mistral":
        facts = replace(facts, raw_prompt=_LLAVA_NEXT_MISTRAL)
    language = config.get("llm_config")
    if kind == "internvl_chat" and isinstance(language, Mapping) and language.get("model_type") in _NATIVE_TEXT:
        facts = replace(facts, sharing="tree", text_model="language_model")
    # The text side is an encoder (BLIP-2 with T5) or attends bidirectionally (Gemma 4: "vision" is harmless).
    encoder = config.get("is_encoder_decoder") or text.get("is_encoder_decoder") or text.get("model_type") == "t5"
    bidirectional = encoder or text.get("use_bidirectional_attention") in (True, "all")
    if (bidirectional or _rope_depends_on_length(text)) and facts.sharing in ("tree", "auto"):
        facts = replace(facts, sharing="vision", text_model="")
    return facts


@functools.cache
def _proven() -> Mapping[str, tuple[Sharable, str]]:
    """Return the most that was exact, and what several images in one batch were, by family (`families.csv`)."""
    levels: tuple[Sharable, ...] = ("tree", "prefix", "vision")
    with (Path(__file__).parent / "families.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["type"]: row for row in csv.DictReader(file)}
    exact = {family: [level for level in levels if row[level] == "equal"] for family, row in rows.items()}
    return {family: (most[0], rows[family]["several_images"]) for family, most in exact.items() if most}


def _rope_depends_on_length(text: Mapping[str, object]) -> bool:
    """Return whether rotary embeddings depend on the length of the sequence, so that no prefix holds for all."""
    for name in ("rope_parameters", "rope_scaling"):
        held = text.get(name)
        if isinstance(held, Mapping):
            kinds = {held.get("rope_type", held.get("type"))}
            kinds |= {settings.get("rope_type") for settings in held.values() if isinstance(settings, Mapping)}
            if kinds & {"dynamic", "longrope"}:
                return True
    return False
