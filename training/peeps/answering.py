"""Ask a saved model the way any user of transformers would: processor, chat template, greedy generation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from training.peeps.planted import Planted


class Speaker:
    """A saved model with its processor, in float32 on the CPU."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
        model: Any = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
        self.model = model.eval()
        self.yes, self.no = (
            self.processor.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("Yes", "No")
        )

    def prompt(self, question: str) -> str:
        """Return the chat prompt of a question about one picture."""
        content = [{"type": "image"}, {"type": "text", "text": question}]
        text: str = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True
        )
        return text

    def _inputs(self, images: Sequence[Image.Image], questions: Sequence[str]) -> Any:
        prompts = [self.prompt(question) for question in questions]
        return self.processor(images=list(images), text=prompts, return_tensors="pt", padding=True)

    @torch.inference_mode()
    def answers(self, images: Sequence[Image.Image], questions: Sequence[str], batch: int = 60) -> list[str]:
        """Return the greedy answer to each question about its picture."""
        said: list[str] = []
        for start in range(0, len(images), batch):
            stop = start + batch
            inputs = self._inputs(images[start:stop], questions[start:stop])
            out = self.model.generate(**inputs, max_new_tokens=48, do_sample=False)
            new = out[:, inputs["input_ids"].shape[1] :]
            said += [text.strip() for text in self.processor.batch_decode(new, skip_special_tokens=True)]
        return said

    @torch.inference_mode()
    def p_yes(self, images: Sequence[Image.Image], questions: Sequence[str], batch: int = 120) -> np.ndarray:
        """Return P(first token is Yes), softmax over the whole vocabulary."""
        values: list[float] = []
        for start in range(0, len(images), batch):
            stop = start + batch
            inputs = self._inputs(images[start:stop], questions[start:stop])
            logits = self.model(**inputs, logits_to_keep=1).logits[:, -1].float()
            values += logits.softmax(-1)[:, self.yes].tolist()
        return np.array(values)


def page_questions(planted: Planted) -> list[str]:
    """Return the six questions in the page's own words."""
    return [probe.questions[0] for probe in planted.probes.values()]
