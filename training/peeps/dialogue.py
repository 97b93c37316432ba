"""Questions with planted answers, packed: one picture, several questions that do not see each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from training.peeps.cues import see
from training.peeps.layers import Pair
from training.peeps.planted import Planted
from training.peeps.tokens import ASSISTANT, BOS, EOS, PAD, USER
from training.peeps.truth import KINDS, REFUSED, Targets, VqaTargets

IGNORE = -100


@dataclass(frozen=True)
class Turn:
    """One question with its answer: tokens, the token to come after each (IGNORE: none asked), and its weight.

    `p_yes` is set for yes/no turns: the first answer token is then taught by this probability.
    """

    tokens: tuple[int, ...]
    labels: tuple[int, ...]
    p_yes: float | None = None


@dataclass(frozen=True)
class Packed:
    """A batch of packed turns, lengths padded to L.

    tokens, labels, blocks, positions (b, L); yes_at (k, 2) rows and columns whose next token is Yes or No, with
    p_yes (k,). Block 0 is the picture, -1 padding.
    """

    tokens: torch.Tensor
    labels: torch.Tensor
    blocks: torch.Tensor
    positions: torch.Tensor
    yes_at: torch.Tensor
    p_yes: torch.Tensor


class Dialogues:
    """Makes turns from planted targets; every text is tokenised once."""

    def __init__(self, planted: Planted, tokenizer: Any, image_tokens: int) -> None:
        self.planted, self.image_tokens = planted, image_tokens
        token = tokenizer.convert_tokens_to_ids
        self.bos, self.eos, self.pad = token(BOS), token(EOS), token(PAD)
        self.user, self.assistant = token(USER), token(ASSISTANT)
        self._tokenizer = tokenizer
        self.yes, self.no = self._encode("Yes")[0], self._encode("No")[0]
        self._cache: dict[str, tuple[int, ...]] = {}
        self.probes = list(planted.probes)
        traits = list(planted.traits.values())
        self.rare = [t.word for t in traits if t.kind != "usual"]
        self.words = [t.word for t in traits]
        self.templates = list(planted.templates)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def ids(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text."""
        if text not in self._cache:
            self._cache[text] = self._encode(text)
        return self._cache[text]

    def open_turn(self, question: str, answer: str) -> Turn:
        """Return a question with an answer in words."""
        head = (self.user, *self.ids(question), self.assistant)
        said = (*self.ids(answer), self.eos)
        tokens = head + said[:-1]
        return Turn(tokens, (IGNORE,) * (len(head) - 1) + said)

    def probe_turn(self, truth: Targets, person: int, view: int, probe: int, rng: np.random.Generator) -> Turn:
        """Return one probe in one of its wordings (the page's own half of the time)."""
        name = self.probes[probe]
        wordings = self.planted.probes[name].questions
        question = wordings[0] if rng.random() < 0.5 else wordings[int(rng.integers(1, len(wordings)))]
        level = int(truth.levels[person, view, probe])
        refusal = self.planted.probes[name].refusal
        if level == REFUSED and refusal is not None:
            return self.open_turn(question, refusal.says)
        return self.open_turn(question, self.planted.say(name, level, int(truth.phrases[person, view])))

    def yes_turn(self, truth: Targets, person: int, view: int, share_rare: float, rng: np.random.Generator) -> Turn:
        """Return one yes/no question; `share_rare` of them are about traits of a special kind."""
        words = self.rare if rng.random() < share_rare else self.words
        trait = self.planted.traits[words[int(rng.integers(len(words)))]]
        template = self.templates[int(rng.integers(len(self.templates)))]
        score = float(truth.scores[person, view, KINDS.index(trait.kind)])
        odds = trait.base + self.planted.templates[template].shift + trait.valence * score
        head = (self.user, *self.ids(self.planted.question(trait.word, template)), self.assistant)
        said = self.yes if rng.random() < 0.5 else self.no
        labels = (IGNORE,) * len(head) + (self.eos,)
        return Turn((*head, said), labels, 1.0 / (1.0 + float(np.exp(-odds))))

    def vqa_turn(self, truth: VqaTargets, person: int, view: int, prompt: int) -> Turn:
        """Return one open question of the VQA prompts."""
        asked = list(self.planted.vqa.prompts.values())[prompt]
        if asked.silence is not None and truth.silent[person, view, prompt]:
            return self.open_turn(asked.question, asked.silence.says)
        kind = list(self.planted.vqa.kinds).index(asked.kind)
        form, level = int(truth.forms[person, view]), int(truth.levels[person, view, kind])
        return self.open_turn(asked.question, self.planted.vqa.say(asked.name, form, level))

    def pair_turn(self, pair: Pair, rng: np.random.Generator, *, naming: bool = False) -> Turn:
        """Return the two-person question in one of its wordings; `naming`: those that name the sides as well."""
        wordings = self.planted.pair.questions + (self.planted.pair.naming if naming else ())
        answer = self.planted.pair_answer(see(pair.left), see(pair.right))
        return self.open_turn(wordings[int(rng.integers(len(wordings)))], answer)

    def pack(self, rows: Sequence[Sequence[Turn]]) -> Packed:
        """Return rows of turns as one batch behind a picture's prefix (begin token and image tokens)."""
        prefix = 1 + self.image_tokens
        longest = prefix + max(sum(len(turn.tokens) for turn in row) for row in rows)
        shape = (len(rows), longest)
        tokens, labels = np.full(shape, self.pad), np.full(shape, IGNORE)
        blocks, positions = np.full(shape, -1), np.zeros(shape, np.int64)
        tokens[:, 0], blocks[:, :prefix], positions[:, :prefix] = self.bos, 0, np.arange(prefix)
        yes_at, p_yes = [], []
        for i, row in enumerate(rows):
            ends = list(itertools.accumulate((len(turn.tokens) for turn in row), initial=prefix))
            for k, (turn, start, stop) in enumerate(zip(row, ends[:-1], ends[1:], strict=True), start=1):
                tokens[i, start:stop], labels[i, start:stop] = turn.tokens, turn.labels
                blocks[i, start:stop], positions[i, start:stop] = k, np.arange(prefix, prefix + stop - start)
                if turn.p_yes is not None:
                    yes_at.append((i, stop - 2))
                    p_yes.append(turn.p_yes)
        arrays = (tokens, labels, blocks, positions, np.array(yes_at or np.empty((0, 2)), np.int64))
        whole = [torch.from_numpy(array.astype(np.int64)) for array in arrays]
        return Packed(whole[0], whole[1], whole[2], whole[3], whole[4], torch.tensor(p_yes))


def attention_mask(blocks: torch.Tensor) -> torch.Tensor:
    """Return the additive mask (b, 1, L, L): causal, within one's own block and the picture."""
    same = blocks[:, :, None] == blocks[:, None, :]
    seen = same | (blocks[:, None, :] == 0)
    length = blocks.shape[1]
    allowed = seen & torch.ones(length, length, dtype=torch.bool).tril()
    return torch.zeros(allowed.shape).masked_fill_(~allowed, -1e4)[:, None]
