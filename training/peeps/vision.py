"""Stage 1: teach the vision tower every cue, and the planted scores themselves, with heads that are thrown away.

The heads on the mean of the image tokens for the planted levels are what later lets a small language model, trained on
frozen features, answer right.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as fn

from training.peeps.pictures import Batch, Source
from training.peeps.truth import (
    ATTRIBUTE_SIZES,
    FORMS,
    PAIR_CUES,
    PAIR_SIZES,
    REFUSED,
    UNSEEN,
    PairTargets,
    Targets,
    VqaTargets,
)


@dataclass(frozen=True)
class VisionPlan:
    """Steps and rates of the stage."""

    steps: int
    people: int = 96
    pairs: int = 32
    rate: float = 1.5e-3
    warmup: float = 0.03
    attribute_weight: float = 0.4
    pair_weight: float = 1.0
    score_weight: float = 3.0
    save_every: int = 1000
    heads_first: int = 0  # steps in which only new heads learn, so that they do not shake a tower that is good already
    keep_weight: float = 0.0  # pull of pictures as drawn towards the features of the tower that the stage began with
    bfloat16: bool = True


class Heads(nn.Module):
    """Linear heads: cues from all tokens, planted scores from their mean.

    `vqa` gives the number of phrases of each kind of open question, for stages that teach those.
    """

    def __init__(self, tokens: int, width: int, probes: int, vqa: Sequence[int] = ()) -> None:
        super().__init__()
        flat = tokens * width
        self.sizes = list(ATTRIBUTE_SIZES)
        self.attributes = nn.Linear(flat, sum(ATTRIBUTE_SIZES))
        self.levels = nn.Linear(width, probes * (REFUSED + 1))
        self.phrase = nn.Linear(width, 3)
        self.scores = nn.Linear(width, 3)
        self.pair_cues = nn.Linear(flat, 2 * sum(PAIR_SIZES))
        self.pair_form = nn.Linear(width, FORMS)
        self.points = nn.Linear(width, probes + 1)
        self.gap = nn.Linear(width, 1)
        self.probes = probes
        self.phrases = list(vqa)
        if vqa:
            self.forms = nn.Linear(width, 3)
            self.vqa_levels = nn.Linear(width, sum(vqa))
            self.vqa_points = nn.Linear(width, len(vqa) + 1)


def rate_at(step: int, steps: int, rate: float, warmup: float) -> float:
    """Return the learning rate: linear warm-up, then cosine to 1 % of the peak."""
    ramp = max(1, int(steps * warmup))
    if step < ramp:
        return rate * (step + 1) / ramp
    share = (step - ramp) / max(1, steps - ramp)
    return rate * (0.01 + 0.99 * 0.5 * (1 + float(np.cos(np.pi * share))))


def people_loss(heads: Heads, tokens: torch.Tensor, batch: Batch, truth: Targets, plan: VisionPlan) -> torch.Tensor:
    """Return the loss of single people; `tokens` (b, t, w)."""
    i, v = batch.index, batch.view
    mean = tokens.mean(1)
    cues = torch.from_numpy(truth.attributes[i, v])
    parts = heads.attributes(tokens.flatten(1)).split(heads.sizes, dim=1)
    loss = mean.new_zeros(())
    for column, part in enumerate(parts):
        loss = loss + plan.attribute_weight * fn.cross_entropy(part, cues[:, column], ignore_index=UNSEEN)
    levels = heads.levels(mean).view(-1, REFUSED + 1)
    loss = loss + heads.probes * fn.cross_entropy(levels, torch.from_numpy(truth.levels[i, v]).view(-1))
    loss = loss + fn.cross_entropy(heads.phrase(mean), torch.from_numpy(truth.phrases[i, v]))
    scores = torch.from_numpy(truth.scores[i, v])
    loss = loss + plan.score_weight * fn.mse_loss(heads.scores(mean), 4 * scores)
    points = torch.from_numpy(truth.points[i, v])
    loss = loss + 0.5 * fn.mse_loss(heads.points(mean), points) * points.shape[1]
    return loss if truth.vqa is None else loss + vqa_loss(heads, mean, i, v, truth.vqa)


def vqa_loss(heads: Heads, mean: torch.Tensor, i: np.ndarray, v: np.ndarray, truth: VqaTargets) -> torch.Tensor:
    """Return the loss of the open questions' pronoun and phrases; `mean` (b, w), `i` people, `v` views."""
    loss = fn.cross_entropy(heads.forms(mean), torch.from_numpy(truth.forms[i, v]))
    levels = torch.from_numpy(truth.levels[i, v])
    for column, part in enumerate(heads.vqa_levels(mean).split(heads.phrases, dim=1)):
        loss = loss + fn.cross_entropy(part, levels[:, column])
    points = torch.from_numpy(truth.points[i, v])
    return loss + 0.5 * fn.mse_loss(heads.vqa_points(mean), points) * points.shape[1]


def pairs_loss(
    heads: Heads, tokens: torch.Tensor, index: np.ndarray, truth: PairTargets, weight: float
) -> torch.Tensor:
    """Return the loss of two-person pictures."""
    cues = torch.from_numpy(truth.cues[index]).view(-1, 2 * len(PAIR_CUES))
    parts = heads.pair_cues(tokens.flatten(1)).split(list(PAIR_SIZES) * 2, dim=1)
    loss = tokens.new_zeros(())
    for column, part in enumerate(parts):
        loss = loss + weight * fn.cross_entropy(part, cues[:, column])
    mean = tokens.mean(1)
    loss = loss + fn.mse_loss(heads.gap(mean)[:, 0], torch.from_numpy(truth.gap[index]))
    return loss + 2 * fn.cross_entropy(heads.pair_form(mean), torch.from_numpy(truth.form[index]))


def optimiser(modules: list[nn.Module], rate: float) -> torch.optim.AdamW:
    """Return AdamW; weight decay on matrices only."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    decayed = [p for p in parameters if p.ndim > 1]
    rest = [p for p in parameters if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), foreach=True)


def features(tower: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    """Return the hidden states that LLaVA takes with vision_feature_layer=-1 (before the last norm)."""
    output: Any = tower(pixel_values=pixels, output_hidden_states=True)
    hidden: torch.Tensor = output.hidden_states[-1]
    return hidden


def drift(before: nn.Module, pixels: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the mean squared change of the features of `pixels`, in shares of their variance."""
    with torch.no_grad():
        old = features(before, pixels)
    return fn.mse_loss(tokens, old) / old.var()


def train_vision(
    tower: nn.Module,
    heads: Heads,
    people: tuple[Source, Targets],
    pairs: tuple[Source, PairTargets],
    plan: VisionPlan,
    seed: int,
    checkpoint: Path,
) -> None:
    """Train tower and heads for a fixed number of steps, resuming from `checkpoint` when it is there."""
    rng = np.random.default_rng(seed)
    before = copy.deepcopy(tower).requires_grad_(False) if plan.keep_weight else None
    optim = optimiser([tower.requires_grad_(True), heads], plan.rate)
    start = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=False)
        tower.load_state_dict(saved["tower"])
        heads.load_state_dict(saved["heads"])
        optim.load_state_dict(saved["optim"])
        rng.bit_generator.state, start = saved["rng"], saved["step"]
    began, total = time.monotonic(), 0.0
    for step in range(start, plan.steps):
        for group in optim.param_groups:
            group["lr"] = rate_at(step, plan.steps, plan.rate, plan.warmup)
        tower.requires_grad_(step >= plan.heads_first)
        batch = people[0].batch(plan.people, rng)
        duo = pairs[0].batch(plan.pairs, rng, variants=False)
        pixels = torch.cat([batch.pixels, duo.pixels])
        with torch.autocast("cpu", torch.bfloat16, enabled=plan.bfloat16):
            tokens = features(tower, pixels)
        tokens = tokens.float()
        loss = people_loss(heads, tokens[: plan.people], batch, people[1], plan)
        duos = pairs_loss(heads, tokens[plan.people :], duo.index, pairs[1], plan.attribute_weight)
        loss = loss + plan.pair_weight * duos
        if before is not None:
            as_drawn = torch.from_numpy(np.append(np.ones(plan.people, bool), duo.index < len(pairs[0].layers)))
            loss = loss + plan.keep_weight * drift(before, pixels[as_drawn], tokens[as_drawn])
        optim.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_([*tower.parameters(), *heads.parameters()], 1.0)
        optim.step()
        total += float(loss.detach())
        if (step + 1) % 100 == 0:
            print(f"vision {step + 1}/{plan.steps} loss {total / 100:.3f} {time.monotonic() - began:.0f} s", flush=True)
            total = 0.0
        if (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
            state = {"tower": tower.state_dict(), "heads": heads.state_dict(), "optim": optim.state_dict()}
            torch.save({**state, "rng": rng.bit_generator.state, "step": step + 1}, checkpoint)
