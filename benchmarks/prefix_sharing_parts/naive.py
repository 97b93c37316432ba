"""The loop that the published scripts run: one full forward pass, or one `generate`, per question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from PIL import Image

from prefix_sharing_parts.calibration import clock


@dataclass
class Naive:
    """Model and processor as a plain script loads them, and what its loop gave."""

    model: Any
    processor: Any
    seconds: list[float] = field(default_factory=list)
    """Of each question, from opening the image to the logits."""
    second: Path | None = None
    """An image that every prompt shows after its own."""

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Naive:
        """Load the checkpoint in `folder`."""
        from transformers import AutoModelForImageTextToText

        model = AutoModelForImageTextToText.from_pretrained(folder, dtype=dtype).to(device).eval()
        return cls(model, still_processor(folder))

    def inputs(self, path: Path, text: str, **options: Any) -> Any:
        """Open the images, fill in the chat template and run the processor, with `options`."""
        images = []
        for file in (path, *([self.second] if self.second else [])):
            with Image.open(file) as picture:
                images.append(picture.convert("RGB"))
        inputs = self.processor(text=[self._prompt(text)], images=images, return_tensors="pt", **options)
        return inputs.to(self.model.device, dtype=self.model.dtype)

    def logits(self, path: Path, text: str) -> torch.Tensor:
        """Return the next-token logits [vocabulary], float32, of one question."""
        started = clock()
        with torch.no_grad():
            logits = self.model(**self.inputs(path, text)).logits[0, -1].float().cpu()
        self.seconds.append(clock() - started)
        return logits

    def generate(self, path: Path, text: str, max_new_tokens: int) -> str:
        """Return the greedy answer to one question."""
        started = clock()
        inputs = self.inputs(path, text)
        with torch.no_grad():
            output = self.model.generate(**inputs, max_new_tokens=max_new_tokens, do_sample=False)
        new = output[0, inputs["input_ids"].shape[1] :]
        answer = self.processor.tokenizer.decode(new, skip_special_tokens=True)
        self.seconds.append(clock() - started)
        return str(answer).strip()

    def prompt_ids(self, path: Path, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the token ids of every question about one image, image tokens included."""
        whole = self.inputs(path, texts[0])["input_ids"][0].tolist()
        image = self.processor.tokenizer.convert_tokens_to_ids(self.processor.image_token)
        tails = []
        for text in texts:
            ids = self.processor.tokenizer(self._prompt(text))["input_ids"]
            tails.append(ids[len(ids) - ids[::-1].index(image) :])
        head = whole[: len(whole) - len(tails[0])]
        if head + tails[0] != whole:
            raise RuntimeError("the processor writes the prompt otherwise than its tokenizer does")
        return [(*head, *tail) for tail in tails]

    def _prompt(self, text: str) -> str:
        shown = [{"type": "image"}] * (2 if self.second else 1)
        chat = [{"role": "user", "content": [*shown, {"type": "text", "text": text}]}]
        return str(self.processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))


def still_processor(folder: Path) -> Any:
    """Return the checkpoint's processor with PIL images; without torchvision, one that takes no videos."""
    from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer

    pictures = AutoImageProcessor.from_pretrained(folder, backend="pil")
    try:
        processor = AutoProcessor.from_pretrained(folder)
    except ImportError:
        from transformers import Qwen2_5_VLProcessor

        class StillImages(Qwen2_5_VLProcessor):  # type: ignore[misc]
            """Qwen2.5-VL's processor without its video processor, which needs torchvision."""

            def check_argument_for_proper_class(self, name: str, value: Any) -> Any:
                return (
                    type(value) if name == "video_processor" else super().check_argument_for_proper_class(name, value)
                )

        tokenizer = AutoTokenizer.from_pretrained(folder)
        videos = SimpleNamespace(model_input_names=[])
        return StillImages(pictures, tokenizer, videos, chat_template=tokenizer.chat_template)
    processor.image_processor = pictures
    return processor
