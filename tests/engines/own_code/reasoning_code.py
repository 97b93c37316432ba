"""Modelling code that a checkpoint brings along: the bundled model, which first answers another question."""

import torch
from transformers import LlavaForConditionalGeneration as Llava


class LlavaForConditionalGeneration(Llava):  # a server knows what it serves by the name of the class
    """Where the prompt ends with the mark that opens the reasoning, the answer to a fixed question comes first."""

    def generate(self, input_ids=None, attention_mask=None, **inputs):
        """Return prompt, reasoning and answer; `config.reasoning` has the tokens of the marks and of the question."""
        settings, prompt = self.config.reasoning, input_ids[0].tolist()
        if prompt[-1] != settings["open"]:
            return super().generate(input_ids=input_ids, attention_mask=attention_mask, **inputs)
        asked = prompt[: prompt.index(settings["user"]) + 1] + settings["question"]
        thought = self._said(asked, inputs)[:-1]  # without the token that ends it
        answer = self._said(prompt[:-1], inputs)
        return torch.tensor([[*prompt, *thought, settings["close"], *answer]], device=input_ids.device)

    def _said(self, prompt, inputs):
        ids = torch.tensor([prompt], device=self.device)
        return super().generate(input_ids=ids, attention_mask=torch.ones_like(ids), **inputs)[0, len(prompt) :].tolist()
