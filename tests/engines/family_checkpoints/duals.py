"""Tiny CLIP, SigLIP, SigLIP 2 (SigLIP's model, Gemma's tokenizer) and SigLIP 2 NaFlex, laid out as on the hub.

Also tiny RegNet, ResNet and DINOv2, which read no text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from family_checkpoints.parts import save_processing

SIZE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
IMAGE, PATCH, LENGTH = 32, 8, 64
LINES = (
    "a photo of a woman with short hair outdoors",
    "a photograph of a man with long hair indoors",
    "a picture of a person in the city, in a village, on the street",
    "An Image Of A Nurse! What is this person's work?",
)


def save_clip(folder: Path, seed: int = 0) -> Path:
    """CLIP: texts end at their end token, which has the highest id, as in OpenAI's checkpoints."""
    from transformers import CLIPConfig, CLIPTextConfig, CLIPVisionConfig
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    tokenizer = _clip_tokenizer()
    pictures: Any = CLIPImageProcessorPil(size={"shortest_edge": IMAGE}, crop_size={"height": IMAGE, "width": IMAGE})
    save_processing(folder, tokenizer, pictures, "CLIPProcessor")
    text = CLIPTextConfig(**SIZE, vocab_size=len(tokenizer), max_position_embeddings=77, eos_token_id=2)
    vision = CLIPVisionConfig(**SIZE, image_size=IMAGE, patch_size=PATCH)
    config = CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=24)
    return _save(folder, "CLIPModel", config, seed, scale=4.6)


def save_siglip(folder: Path, seed: int = 0) -> Path:
    """SigLIP: a SentencePiece tokenizer that takes off capitals and punctuation."""
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    folder.mkdir(parents=True, exist_ok=True)
    pieces = _sentence_pieces(folder)
    pictures = SiglipImageProcessorPil(size={"height": IMAGE, "width": IMAGE})
    config = pictures.to_dict() | {"image_processor_type": "SiglipImageProcessor", "processor_class": "SiglipProcessor"}
    _write(folder / "preprocessor_config.json", config)
    tokenizer = {
        "tokenizer_class": "SiglipTokenizer",
        "processor_class": "SiglipProcessor",
        "model_max_length": LENGTH,
        "model_input_names": ["input_ids"],
        "do_lower_case": True,
        "eos_token": "</s>",
        "pad_token": "</s>",
        "unk_token": "<unk>",
    }
    _write(folder / "tokenizer_config.json", tokenizer)
    return _save(folder, "SiglipModel", _siglip_config("Siglip", pieces), seed, scale=2.0, bias=-3.0)


def save_siglip2(folder: Path, seed: int = 0) -> Path:
    """SigLIP 2 of one resolution: model type `siglip`, and Gemma's tokenizer, which keeps capitals."""
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    vocabulary = _save_gemma(folder, SiglipImageProcessorPil(size={"height": IMAGE, "width": IMAGE}), "SiglipProcessor")
    return _save(folder, "SiglipModel", _siglip_config("Siglip", vocabulary), seed, scale=2.0, bias=-3.0)


def save_siglip2_naflex(folder: Path, seed: int = 0) -> Path:
    """SigLIP 2 NaFlex: images of any shape as up to 20 patches."""
    from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil

    pictures = Siglip2ImageProcessorPil(patch_size=PATCH, max_num_patches=20)
    vocabulary = _save_gemma(folder, pictures, "Siglip2Processor")
    return _save(folder, "Siglip2Model", _siglip_config("Siglip2", vocabulary), seed, scale=2.0, bias=-3.0)


DUALS: dict[str, Callable[[Path, int], Path]] = {
    "clip": save_clip,
    "siglip": save_siglip,
    "siglip2": save_siglip2,
    "siglip2_naflex": save_siglip2_naflex,
}


def save_image_encoder(folder: Path, family: str, seed: int = 0) -> Path:
    """A network that reads no text, whose image processor crops the centre, as SEER's and DINOv2's do."""
    import torch
    import transformers
    from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
    from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil

    imagenet = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    stages = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    own = {
        "regnet": ("RegNet", stages | {"groups_width": 8}),
        "resnet": ("ResNet", stages | {"layer_type": "basic"}),
        "dinov2": (
            "Dinov2",
            {
                "image_size": IMAGE,
                "patch_size": PATCH,
                "hidden_size": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
            },
        ),
    }
    name, size = own[family]
    torch.manual_seed(seed)
    getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**size)).save_pretrained(folder)
    pictures: Any = ConvNextImageProcessorPil(size={"shortest_edge": IMAGE}, crop_pct=0.875, **imagenet)
    if family == "dinov2":
        crop = {"height": IMAGE, "width": IMAGE}
        pictures = BitImageProcessorPil(size={"shortest_edge": IMAGE + 4}, crop_size=crop, **imagenet)
    pictures.save_pretrained(folder)
    return folder


def _siglip_config(name: str, vocabulary: int) -> Any:
    import transformers

    shape = {"num_patches": 16} if name == "Siglip2" else {"image_size": IMAGE}
    text = getattr(transformers, f"{name}TextConfig")(**SIZE, vocab_size=vocabulary, max_position_embeddings=LENGTH)
    vision = getattr(transformers, f"{name}VisionConfig")(**SIZE, patch_size=PATCH, **shape)
    return getattr(transformers, f"{name}Config")(text_config=text.to_dict(), vision_config=vision.to_dict())


def _save(folder: Path, model_class: str, config: Any, seed: int, *, scale: float, bias: float | None = None) -> Path:
    """Build and save the model, its weights four times the usual size: then pixels and every word move the result."""
    import torch
    import transformers

    torch.manual_seed(seed)
    model = getattr(transformers, model_class)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            constant = bool((parameter == parameter.flatten()[0]).all())
            parameter.add_(torch.randn_like(parameter), alpha=0.1) if constant else parameter.mul_(4)
        model.logit_scale.fill_(scale)
        if bias is not None:
            model.logit_bias.fill_(bias)
    model.save_pretrained(folder)
    return folder


def _clip_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, trainers
    from transformers import CLIPTokenizer

    like = CLIPTokenizer().backend_tokenizer  # for its way of cutting texts into words
    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = like.normalizer, like.pre_tokenizer
    letters = [chr(code) for code in range(33, 127)]
    trainer = trainers.BpeTrainer(
        vocab_size=400, end_of_word_suffix="</w>", initial_alphabet=letters, show_progress=False
    )
    tokenizer.train_from_iterator(LINES * 3, trainer)
    inner = json.loads(tokenizer.to_str())["model"]
    vocabulary = dict(inner["vocab"])
    for token in (*(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"):
        vocabulary.setdefault(token, len(vocabulary))
    return CLIPTokenizer(vocab=vocabulary, merges=[tuple(pair) for pair in inner["merges"]], model_max_length=77)


def _sentence_pieces(folder: Path) -> int:
    """Write `spiece.model` and return its number of pieces."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line.lower() for line in LINES] * 5),
        model_prefix=str(folder / "spiece"),
        vocab_size=80,
        hard_vocab_limit=False,
        pad_id=-1,
        bos_id=-1,
        eos_id=1,
        unk_id=2,
        minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()
    return int(sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model")).get_piece_size())


def _save_gemma(folder: Path, pictures: Any, processor_class: str) -> int:
    """Write the processor's files with a tokenizer of Gemma's kind, which ends every text and begins none."""
    from tokenizers import Tokenizer, models, normalizers, trainers
    from transformers import GemmaTokenizer

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*LINES * 3, *(line.lower() for line in LINES)], trainer)
    inner = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(pair) for pair in inner["merges"]]
    gemma = GemmaTokenizer(
        vocab=inner["vocab"],
        merges=merges,
        add_bos_token=False,
        add_eos_token=True,
        padding_side="right",
        model_input_names=["input_ids"],
    )
    save_processing(folder, gemma, pictures, processor_class)
    return len(gemma)


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, default=str), encoding="utf-8")
