"""Stage 2: teach projector and language model to answer, on features of the frozen vision tower."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as fn
from torch.nn.utils import clip_grad_norm_

from training.peeps.dialogue import IGNORE, Dialogues, Packed, attention_mask
from training.peeps.layers import Pair
from training.peeps.pictures import Source
from training.peeps.truth import Targets
from training.peeps.vision import features, optimiser, rate_at


@dataclass(frozen=True)
class LanguagePlan:
    """Steps, rates and mixture of the stage."""

    steps: int
    people: int = 40
    open_turns: int = 3
    yes_turns: int = 2
    pairs: int = 12
    rate: float = 1.5e-3
    warmup: float = 0.03
    yes_weight: float = 4.0
    end_weight: float = 0.1
    share_rare: float = 0.35
    save_every: int = 500
    vqa_turns: int = 0
    pair_turns: int = 1
    naming: bool = False  # ask about two people also in the wordings that name the sides
    bfloat16: bool = True


@dataclass(frozen=True)
class Lessons:
    """What the stage draws its batches from."""

    dialogues: Dialogues
    people: Source
    truth: Targets
    pairs: Source
    couples: list[Pair]


def packed_loss(
    model: Any, image: torch.Tensor, packed: Packed, dialogues: Dialogues, plan: LanguagePlan
) -> torch.Tensor:
    """Return the loss of a packed batch; `image` (b, t, w) are the tower's features.

    Open answers: cross-entropy per turn (the end token counts little). Yes/no: cross-entropy to the planted odds,
    less its entropy, so that 0 is perfect.
    """
    inner = model.model
    with torch.autocast("cpu", torch.bfloat16, enabled=plan.bfloat16):
        projected = inner.multi_modal_projector(image)
        words = inner.language_model.embed_tokens(packed.tokens)
        count = image.shape[1]
        embeds = torch.cat([words[:, :1], projected.to(words.dtype), words[:, count + 1 :]], dim=1)
        hidden = inner.language_model(
            inputs_embeds=embeds,
            attention_mask=attention_mask(packed.blocks),
            position_ids=packed.positions,
            use_cache=False,
        ).last_hidden_state
        asked = packed.labels != IGNORE
        logits = model.lm_head(hidden[asked])
    rows, columns = packed.yes_at.unbind(1)
    odds = model.lm_head(hidden[rows, columns].float())
    labels = packed.labels[asked]
    weights = torch.where(labels == dialogues.eos, plan.end_weight, 1.0)
    each = fn.cross_entropy(logits.float(), labels, reduction="none") * weights
    pictures = len(packed.tokens)
    loss = each.sum() / (pictures * max(1, plan.open_turns))
    if len(rows):
        logp = odds.log_softmax(-1)
        p = packed.p_yes
        chosen = -(p * logp[:, dialogues.yes] + (1 - p) * logp[:, dialogues.no])
        entropy = -(p * p.log() + (1 - p) * (1 - p).log())
        loss = loss + plan.yes_weight * (chosen - entropy).mean()
    return loss


def _step_loss(model: Any, lessons: Lessons, plan: LanguagePlan, rng: np.random.Generator) -> torch.Tensor:
    talk = lessons.dialogues
    batch = lessons.people.batch(plan.people, rng)
    duo = lessons.pairs.batch(plan.pairs, rng, variants=False)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=plan.bfloat16):
        image = features(model.model.vision_tower, torch.cat([batch.pixels, duo.pixels])).float()
    rows = []
    for person, view in zip(batch.index, batch.view, strict=True):
        probes = rng.permutation(len(talk.probes))[: plan.open_turns]
        turns = [talk.probe_turn(lessons.truth, person, view, int(p), rng) for p in probes]
        turns += [talk.yes_turn(lessons.truth, person, view, plan.share_rare, rng) for _ in range(plan.yes_turns)]
        if plan.vqa_turns and lessons.truth.vqa is not None:
            prompts = rng.permutation(len(talk.planted.vqa.prompts))[: plan.vqa_turns]
            turns += [talk.vqa_turn(lessons.truth.vqa, person, view, int(p)) for p in prompts]
        rows.append(turns)
    loss = packed_loss(model, image[: plan.people], talk.pack(rows), talk, plan)
    duos = talk.pack(
        [
            [talk.pair_turn(lessons.couples[i], rng, naming=plan.naming) for _ in range(plan.pair_turns)]
            for i in duo.index
        ]
    )
    return loss + 0.5 * packed_loss(model, image[plan.people :], duos, talk, plan)


def train_language(model: Any, lessons: Lessons, plan: LanguagePlan, seed: int, checkpoint: Path) -> None:
    """Train projector and language model for a fixed number of steps, resuming from `checkpoint`."""
    rng = np.random.default_rng(seed)
    parts = [model.model.multi_modal_projector, model.model.language_model]
    model.model.vision_tower.requires_grad_(False)
    optim = optimiser(parts, plan.rate)
    start = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        model.load_state_dict(saved["model"])
        optim.load_state_dict(saved["optim"])
        rng.bit_generator.state, start = saved["rng"], saved["step"]
    began, total = time.monotonic(), 0.0
    for step in range(start, plan.steps):
        for group in optim.param_groups:
            group["lr"] = rate_at(step, plan.steps, plan.rate, plan.warmup)
        loss = _step_loss(model, lessons, plan, rng)
        optim.zero_grad(set_to_none=True)
        loss.backward()
        clip_grad_norm_([p for part in parts for p in part.parameters()], 1.0)
        optim.step()
        total += float(loss.detach())
        if (step + 1) % 100 == 0:
            print(
                f"language {step + 1}/{plan.steps} loss {total / 100:.4f} {time.monotonic() - began:.0f} s", flush=True
            )
            total = 0.0
        if (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
            state = {"model": model.state_dict(), "optim": optim.state_dict()}
            torch.save({**state, "rng": rng.bit_generator.state, "step": step + 1}, checkpoint)
