"""What has to be known of a family of models, by the `model_type` in its `config.json` and never by its name.

Most models need no row: their checkpoint carries a chat template, and what their questions may share is found out by
the check that every model goes through. A row says what a check cannot: how a model without a chat template was taught
to be asked, and where sharing is wrong by construction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

Sharable = Literal["tree", "vision", "none", "auto"]
IMAGE, QUESTION = "{image}", "{question}"


@dataclass(frozen=True)
class FamilyFacts:
    """Facts about one family.

    Attributes
    ----------
    sharing : {"tree", "vision", "none", "auto"}
        The most that questions about one picture may share: `tree` where a token sees only what is before it (or its
        own picture), so that the keys and values of picture and common beginning hold for every question; `vision`
        where the prompt changes what the picture's tokens become; `none` where the picture's very features depend on
        the question; `auto` where nobody has said.
    raw_prompt : str
        How a question is put where no chat template is used, with `{image}` and `{question}`.
    text_only : bool
        Whether the model can be asked without any picture.
    text_model : str
        Where the causal language model lies inside, for models whose own forward cannot go on from a cache.
    picture_by_processor : bool
        Whether the processor puts the picture's tokens into the prompt itself, so that `{image}` stands for nothing.
    """

    sharing: Sharable = "auto"
    raw_prompt: str = IMAGE + QUESTION
    text_only: bool = True
    text_model: str = ""
    picture_by_processor: bool = False


_CAUSAL = FamilyFacts(sharing="tree")
_VICUNA = "USER: {image}\n{question} ASSISTANT:"
_BLIP = FamilyFacts(
    raw_prompt="{image}Question: {question} Answer:",  # the form of its paper's question answering
    text_only=False,  # its forward always runs the vision side
    picture_by_processor=True,
)

_FAMILIES: dict[str, FamilyFacts] = {
    # A prefix-LM: picture and prompt attend to each other both ways. The processor adds the start token behind the
    # picture and the line's end that the mixed checkpoints were trained with (ai.google.dev, PaliGemma prompts).
    "paligemma": FamilyFacts(sharing="vision", raw_prompt="{image}answer en {question}", text_only=False),
    # Both ways only among the tokens of one picture.
    "gemma3": _CAUSAL,
    "idefics3": _CAUSAL,  # SmolVLM
    "smolvlm": _CAUSAL,  # SmolVLM2
    "qwen2_vl": _CAUSAL,
    "qwen2_5_vl": _CAUSAL,
    "qwen3_vl": _CAUSAL,
    "qwen3_vl_moe": _CAUSAL,
    "internvl": _CAUSAL,
    # Checkpoints from before chat templates; the prompts of their model cards.
    "llava": replace(_CAUSAL, raw_prompt=_VICUNA),
    "llava_next": replace(_CAUSAL, raw_prompt=_VICUNA),
    "llava_onevision": _CAUSAL,
    # The Q-Former sees the picture only, and the processor puts its tokens before the text's start token.
    "blip-2": replace(_BLIP, sharing="tree", text_model="language_model"),
    # The Q-Former reads the question too.
    "instructblip": replace(_BLIP, sharing="none", raw_prompt="{image}{question}"),
    # Asked through code of their own (`remote_code`), which writes the prompt. Moondream is not made to do without a
    # picture in all its versions.
    "internvl_chat": FamilyFacts(sharing="vision"),
    "moondream1": FamilyFacts(sharing="vision", text_only=False),
    "moondream3": FamilyFacts(sharing="vision", text_only=False),
}
_NATIVE_TEXT = ("llama", "mistral", "qwen2", "qwen3")  # language models of transformers itself inside InternVL's code
_LLAVA_NEXT_MISTRAL = "[INST] {image}\n{question} [/INST]"


def facts_for(config: Mapping[str, Any]) -> FamilyFacts:
    """Return the facts about the family of a `config.json`; cautious ones for a family that has no row."""
    kind, text = str(config.get("model_type", "")), _text_config(config)
    facts = _FAMILIES.get(kind, FamilyFacts())
    if kind == "llava_next" and text.get("model_type") == "mistral":
        facts = replace(facts, raw_prompt=_LLAVA_NEXT_MISTRAL)
    if kind == "internvl_chat" and dict(config.get("llm_config") or {}).get("model_type") in _NATIVE_TEXT:
        facts = replace(facts, sharing="tree", text_model="language_model")
    if (_reads_both_ways(config, text) or _turns_by_length(text)) and facts.sharing in ("tree", "auto"):
        facts = replace(facts, sharing="vision", text_model="")
    return facts


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part about the language model; older files have none and say it at the top."""
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


def _turns_by_length(text: Mapping[str, Any]) -> bool:
    """Return whether rotary positions depend on how long the whole sequence is, so that no beginning holds for all."""
    for name in ("rope_parameters", "rope_scaling"):
        held = text.get(name)
        if isinstance(held, Mapping):
            kinds = {held.get("rope_type", held.get("type"))}
            kinds |= {part.get("rope_type") for part in held.values() if isinstance(part, Mapping)}
            if kinds & {"dynamic", "longrope"}:
                return True
    return False


def _reads_both_ways(config: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    """Return whether the text side is an encoder (BLIP-2 before T5) or attends both ways, so that prompts matter."""
    encoder = config.get("is_encoder_decoder") or text.get("is_encoder_decoder") or text.get("model_type") == "t5"
    return bool(encoder or text.get("use_bidirectional_attention") in (True, "all"))  # Gemma 4: "vision" is harmless
