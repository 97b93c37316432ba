"""Modelling code that a checkpoint brings along: it encodes an image once and takes queries, as moondream2 does."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

SIZE, HEADS, LONGEST, PIECES = 64, 4, 128, 16


class AskedConfig(PretrainedConfig):
    model_type = "moondream1"


@dataclass(frozen=True)
class EncodedImage:
    pos: int
    caches: list


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.mlp = nn.Sequential(nn.Linear(SIZE, SIZE), nn.GELU(), nn.Linear(SIZE, SIZE))

    def forward(self, x, mask, places):
        q, k, v = (part.view(len(x), HEADS, -1).transpose(0, 1) for part in self.qkv(x).chunk(3, -1))
        self.keys[:, places], self.values[:, places] = k, v
        seen = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        x = x + self.out(seen.transpose(0, 1).flatten(1))
        return x + self.mlp(x)


class Core(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.tokenizer = Tokenizer.from_file(str(Path(config._name_or_path) / "tokenizer.json"))
        self.words, self.places = nn.Embedding(config.words, SIZE), nn.Embedding(LONGEST, SIZE)
        self.see, self.head = nn.Linear(3, SIZE), nn.Linear(SIZE, config.words)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        mask = torch.tril(torch.ones(LONGEST, LONGEST, dtype=torch.bool))
        mask[: PIECES + 1, : PIECES + 1] = True
        self.register_buffer("attn_mask", mask, persistent=False)

    def set_up(self):
        for layer in self.layers:
            room = torch.zeros(HEADS, LONGEST, SIZE // HEADS, dtype=self.see.weight.dtype)
            layer.keys, layer.values = room, room.clone()

    def _run(self, x, start):
        places = torch.arange(start, start + len(x))
        x = x + self.places(places)
        for layer in self.layers:
            x = layer(x, self.attn_mask[places], places)
        return x

    def encode_image(self, image):
        if isinstance(image, EncodedImage):
            return image
        with torch.inference_mode():
            pixels = torch.from_numpy(np.array(image.resize((4, 4)))).reshape(PIECES, 3) / 127.5 - 1
            seen = torch.tanh(3 * self.see(pixels.to(self.see.weight.dtype)))
            self._run(torch.cat([self.words(torch.tensor([0])), seen]), 0)
        length = PIECES + 1
        kept = [(layer.keys[:, :length].clone(), layer.values[:, :length].clone()) for layer in self.layers]
        return EncodedImage(length, kept)

    def load_encoded_image(self, encoded):
        for layer, (keys, values) in zip(self.layers, encoded.caches, strict=True):
            layer.keys[:, : encoded.pos], layer.values[:, : encoded.pos] = keys, values

    def _prefill_prompt(self, prompt_tokens, pos, temperature, top_p):
        with torch.inference_mode():
            hidden = self._run(self.words(prompt_tokens[0]), pos)
            logits = self.head(hidden[-1:])
            token = logits.argmax(-1) if temperature == 0 else torch.multinomial((logits / temperature).softmax(-1), 1)
        return logits, hidden, token.reshape(1, 1), pos + prompt_tokens.shape[1]

    def query(self, image, question, stream=False, settings=None):
        encoded = self.encode_image(image)
        self.load_encoded_image(encoded)
        prompt = torch.tensor([[1, *self.tokenizer.encode(" " + question).ids, 2]])
        heat, top_p = settings.get("temperature", 0.5), settings.get("top_p", 0.3)
        _, _, token, pos = self._prefill_prompt(prompt, encoded.pos, heat, top_p)
        said = []
        while int(token) != 0 and len(said) < settings.get("max_tokens", 768):
            said.append(int(token))
            _, _, token, pos = self._prefill_prompt_one(token, pos, heat, top_p)
        return {"answer": self.tokenizer.decode(said)}

    def _prefill_prompt_one(self, token, pos, temperature, top_p):
        return type(self)._prefill_prompt(self, token, pos, temperature, top_p)

    def from_scratch(self, image, prompt):
        """For the tests: the next-token logits behind a prompt, with nothing kept from before."""
        encoded = self.encode_image(image)
        self.load_encoded_image(encoded)
        for token in prompt[:-1]:
            *_, pos = self._prefill_prompt_one(torch.tensor([[token]]), encoded.pos, 0, 0)
            encoded = EncodedImage(pos, [])
        return self._prefill_prompt_one(torch.tensor([prompt[-1:]]), encoded.pos, 0, 0)[0][0]


class Asked(PreTrainedModel):
    config_class = AskedConfig

    def __init__(self, config):
        super().__init__(config)
        self.model, self._ready = Core(config), False

    def _core(self):
        if not self._ready:
            self.model.set_up()
            self._ready = True
        return self.model

    @property
    def encode_image(self):
        return self._core().encode_image

    @property
    def query(self):
        return self._core().query
