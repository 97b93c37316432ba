"""A tiny LLaVA with random weights, saved as a checkpoint folder: the real Hugging Face code path at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CHAT = (
    "{{ bos_token }}{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% endif %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEXTS = (
    "What do you think this person does for work? Give your best guess.",
    "How educated does this person appear to be?",
    "I think that this person works as a nurse and lives in a quiet street.",
)


def save_tiny_llava(
    folder: Path, *, chat: bool = True, seed: int = 0, template: str = CHAT, added: Sequence[str] = ()
) -> Path:
    """Build and save the model (0.3 million parameters, 32 px, 5 image tokens) and its processor.

    The random weights are multiplied by 4: at the usual scale the pixels do not move the logits.
    """
    import torch
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_tokenizer(),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        padding_side="right",  # wrong for generation on purpose: the engine has to set it
        extra_special_tokens={"image_token": "<image>"},
    )
    tokenizer.add_tokens(list(added))
    pictures: Any = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = LlavaProcessor(
        pictures,
        tokenizer,
        patch_size=16,
        vision_feature_select_strategy="full",
        num_additional_image_tokens=1,
        chat_template=template if chat else None,
    )
    torch.manual_seed(seed)
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=32,
            patch_size=16,
        ),
        text_config=LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
    )
    model = LlavaForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_reasoning_llava(folder: Path, template: str, following: Mapping[str, str], added: Sequence[str] = ()) -> Path:
    """Save a tiny LLaVA that reasons: after each token of `following` comes the one that it names, whatever is asked.

    The layers add nothing to the residual stream, so the next token depends on the last one alone.
    """
    import torch
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    save_tiny_llava(folder, template=template, added=("<think>", "</think>", *added))
    tokenizer = AutoProcessor.from_pretrained(folder).tokenizer
    model: Any = LlavaForConditionalGeneration.from_pretrained(folder)
    language = model.model.language_model
    with torch.no_grad():
        for layer in language.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
        language.norm.weight.fill_(1)
        vectors = torch.nn.functional.normalize(language.embed_tokens.weight, dim=-1)
        language.embed_tokens.weight.copy_(vectors)
        model.lm_head.weight.zero_()
        for token, after in following.items():
            before, next_one = (tokenizer.convert_tokens_to_ids(name) for name in (token, after))
            model.lm_head.weight[next_one] += vectors[before]
    model.save_pretrained(folder)
    return folder


def _byte_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<pad>", "<s>", "</s>", "<image>", "<|assistant|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    # like most real tokenizers: a start token of its own accord, which a chat template must not double
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer
