"""Custom code with a `chat` method (InternVL 1.5 to 3): a vision encoder and a causal language model.

The public interface: `chat` writes a conversation from `conv_template`, inserts `num_image_token` tokens for every tile
of the image, and generates; `forward` takes the same tokens with `pixel_values` and `image_flags` and returns logits;
`extract_feature` returns the image features. Tokens after the image are causal, so what can be shared is found as for
any model (`prefix_policy`).

An image is cut into tiles as the model card does, and transformers' GOT-OCR2 image processor too: the grid of at most
`max_dynamic_patch` tiles whose aspect ratio is nearest to the image's, and the whole image once more (Chen et al. 2024,
"How far are we to GPT-4V?", arXiv 2404.16821, section 3.3).
"""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fp2.extension import Checkpoint, Fp2Error, HfSpec, LastImageProcessor, LoadedModel, facts_for
from fp2.methods.custom_code import ModelAdapter

if TYPE_CHECKING:
    import torch
    from PIL import Image

INTERFACE = "`chat` with `extract_feature` and a `conv_template` (InternVL)"
_IMAGE, _START, _CONTEXT, _END = "<image>", "<img>", "<IMG_CONTEXT>", "</img>"
_MEAN, _STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]  # ImageNet's, as the model card normalises


def has_interface(model: Any) -> bool:
    """Return whether a model has this interface."""
    wanted = ("chat", "extract_feature", "conv_template", "num_image_token", "language_model")
    return all(hasattr(model, name) for name in wanted)


def adapt(model: Any, checkpoint: Checkpoint, path: Path, spec: HfSpec, device: str) -> LoadedModel:
    """Return the model with an adapter, and a processor that writes prompts as its code does.

    Raises
    ------
    Exception
        Whatever the loaders of tokenizer and image processor raise.
    """
    auto: Any = importlib.import_module("transformers").AutoTokenizer
    tokenizer = auto.from_pretrained(path, trust_remote_code=True)
    tiles = LastImageProcessor(tile_processor(checkpoint.config, spec.image_backend))
    adapted = ChatModel(model, tokenizer)
    attention = str(getattr(model.language_model.config, "_attn_implementation", ""))
    return LoadedModel(adapted, ChatProcessor(model, tokenizer, tiles), device, attention, facts_for(checkpoint.config))


def tile_processor(config: dict[str, Any], backend: str) -> Any:
    """Return the image processor that cuts an image into tiles as `config` says."""
    side = int(config.get("force_image_size") or config["vision_config"]["image_size"])
    dynamic = bool(config.get("dynamic_image_size", True))
    module = "image_processing_pil_got_ocr2" if backend == "pil" else "image_processing_got_ocr2"
    name = "GotOcr2ImageProcessorPil" if backend == "pil" else "GotOcr2ImageProcessor"
    kind: Any = getattr(importlib.import_module(f"transformers.models.got_ocr2.{module}"), name)
    return kind(
        size={"height": side, "width": side},
        crop_to_patches=dynamic,
        min_patches=int(config.get("min_dynamic_patch", 1)),
        max_patches=int(config.get("max_dynamic_patch", 12)),
        image_mean=_MEAN,
        image_std=_STD,
    )


class ChatProcessor:
    """Writes a conversation as the model's code does, with the image tokens of every tile."""

    def __init__(self, model: Any, tokenizer: Any, tiles: LastImageProcessor) -> None:
        self.tokenizer, self.image_processor = tokenizer, tiles
        self._model = model

    def write(self, question: str, image: bool) -> str:
        """Return the conversation, with one placeholder for the image."""
        template = copy.deepcopy(self._model.conv_template)
        template.system_message = self._model.system_message
        template.append_message(template.roles[0], f"{_IMAGE}\n{question}" if image else question)
        template.append_message(template.roles[1], None)
        return str(template.get_prompt())

    def __call__(
        self, text: list[str], images: list[list[Image.Image]] | None = None, return_tensors: str = "pt", **options: Any
    ) -> dict[str, torch.Tensor]:
        """Return `input_ids` and `attention_mask` [1, tokens], and `pixel_values` [tiles, 3, side, side]."""
        (prompt,) = text
        pixels = {}
        if images is not None:
            values = self.image_processor(images[0][0], return_tensors=return_tensors)["pixel_values"]
            tokens = _CONTEXT * (int(self._model.num_image_token) * len(values))
            prompt = prompt.replace(_IMAGE, _START + tokens + _END, 1)
            pixels = {"pixel_values": values}
        encoded = self.tokenizer(prompt, return_tensors=return_tensors, **options)
        return {name: encoded[name] for name in ("input_ids", "attention_mask")} | pixels


class ChatModel(ModelAdapter):
    """The model with the interface of a model of transformers.

    Parameters
    ----------
    inner : PreTrainedModel
        As its own code builds it.
    tokenizer : PreTrainedTokenizer
    """

    generates_from_features = True

    def __init__(self, inner: Any, tokenizer: Any) -> None:
        self.inner, self.language_model = inner, inner.language_model
        self._image_token = int(tokenizer.convert_tokens_to_ids(_CONTEXT))
        inner.img_context_token_id = self._image_token
        text = self.language_model.config
        self.config = SimpleNamespace(image_token_id=self._image_token, get_text_config=lambda **_: text)
        end = tokenizer.convert_tokens_to_ids(inner.conv_template.sep.strip())  # ends an answer of `chat`
        self.generation_config = SimpleNamespace(eos_token_id=end)
        self.base_model = self

    def get_image_features(self, pixel_values: torch.Tensor, return_dict: bool = True) -> Any:
        """Return the features of tiles [tiles, tokens, hidden]."""
        outputs: Any = importlib.import_module("transformers.modeling_outputs").BaseModelOutputWithPooling
        return outputs(pooler_output=self.inner.extract_feature(pixel_values))

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor | None = None,
        mm_encoder_outputs: dict[str, Any] | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
    ) -> Any:
        """Return the output with `logits` [rows, tokens, vocabulary]; of the code's own forward if there are pixels."""
        cache = {"past_key_values": past_key_values, "use_cache": use_cache, "return_dict": True}
        if pixel_values is not None:
            flags = input_ids.new_ones(len(pixel_values), 1)
            return self.inner(
                pixel_values=pixel_values,
                input_ids=input_ids,
                attention_mask=attention_mask,
                image_flags=flags,
                **cache,
            )
        embedded = self._embedded(input_ids, mm_encoder_outputs)
        return self.language_model(inputs_embeds=embedded, attention_mask=attention_mask, **cache)

    __call__ = forward

    def generate(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor | None = None,
        mm_encoder_outputs: dict[str, Any] | None = None,
        **options: Any,
    ) -> torch.Tensor:
        """Return the new tokens [rows, new]."""
        new: torch.Tensor
        if not hasattr(self.language_model, "generate"):
            kind = type(self.language_model).__name__
            what = f"{kind} cannot generate: since transformers 4.50 a model's code has to inherit that itself"
            raise Fp2Error(what, where="model.id", fix="Ask yes/no or choice questions, which need its logits only")
        if pixel_values is not None:
            new = self.inner.generate(
                pixel_values=pixel_values, input_ids=input_ids, attention_mask=attention_mask, **options
            )
            return new
        embedded = self._embedded(input_ids, mm_encoder_outputs)
        new = self.language_model.generate(inputs_embeds=embedded, attention_mask=attention_mask, **options)
        return new

    def _embedded(self, input_ids: torch.Tensor, outputs: dict[str, Any] | None) -> torch.Tensor:
        """Return the token embeddings, with the image features in place of the image tokens."""
        embedded: torch.Tensor = self.language_model.get_input_embeddings()(input_ids)
        if outputs is None:
            return embedded
        features = outputs["image"].pooler_output.to(embedded.dtype)
        return embedded.masked_scatter((input_ids == self._image_token)[..., None], features)
