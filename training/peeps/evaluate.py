"""Hold a saved model against the planted truth, on people that it has never seen, through its own processor.

`report` people choose nothing: training and its settings look only at `validation` people.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from fp2.methods.peeps.data.draw import render, render_image, render_pair_image
from fp2.methods.peeps.data.figure import AGES, POOLS, REGIONS, TONES, Cues
from training.peeps.answering import Speaker, page_questions
from training.peeps.cues import Variant, see
from training.peeps.layers import Pair, sample_cues, sample_pairs
from training.peeps.planted import Planted, load_planted
from training.peeps.truth import exchanged

LARGE = 384
SHIFT = 12  # 3 px at the model's 96
VARIANTS: tuple[Variant, ...] = ("masked", "blurred", "background_removed")


@dataclass(frozen=True)
class Held:
    """How many held-out people each part of the evaluation looks at."""

    people: int = 600
    shifted: int = 250
    variants: int = 150
    pairs: int = 250
    vqa: int = 250
    yes_no: int = 250
    yes_no_questions: int = 30
    twins: int = 30


def share_right(
    speaker: Speaker,
    planted: Planted,
    images: Sequence[Image.Image],
    people: Sequence[Cues],
    variant: Variant = "original",
    wording: int = 0,
) -> dict[str, float]:
    """Return per probe the share of answers that are word for word the planted ones."""
    rates = {}
    for name, probe in planted.probes.items():
        said = speaker.answers(images, [probe.questions[wording]] * len(images))
        meant = [planted.answer(name, see(cues, variant)) for cues in people]
        rates[name] = float(np.mean([a == b for a, b in zip(said, meant, strict=True)]))
    return with_mean(rates)


def with_mean(rates: dict[str, float]) -> dict[str, float]:
    """Return rates with their mean and lowest."""
    values = list(rates.values())
    return {**rates, "mean": float(np.mean(values)), "lowest": float(min(values))}


def shifted(image: Image.Image, dx: int, dy: int) -> Image.Image:
    """Return a picture moved by whole pixels, its edges repeated."""
    pixels = np.asarray(image)
    rows = np.clip(np.arange(pixels.shape[0]) - dy, 0, pixels.shape[0] - 1)
    columns = np.clip(np.arange(pixels.shape[1]) - dx, 0, pixels.shape[1] - 1)
    return Image.fromarray(pixels[rows][:, columns])


def shift_right(speaker: Speaker, planted: Planted, images: Sequence[Image.Image], people: Sequence[Cues]) -> Any:
    """Return `share_right` after a shift of SHIFT in one of eight directions each."""
    ways = [(x, y) for x in (-SHIFT, 0, SHIFT) for y in (-SHIFT, 0, SHIFT) if x or y]
    moved = [shifted(image, *ways[i % len(ways)]) for i, image in enumerate(images)]
    return share_right(speaker, planted, moved, people)


def variant_right(speaker: Speaker, planted: Planted, people: Sequence[Cues]) -> dict[str, dict[str, float]]:
    """Return `share_right` of every variant, made from the drawing's own polygons as the harness makes them."""
    from fp2.methods.image_variants import images

    drawings = [render(cues, LARGE) for cues in people]
    return {
        name: share_right(
            speaker,
            planted,
            [getattr(images, name)(d.image, d.geometry.polygons) for d in drawings],
            people,
            variant=name,
        )
        for name in VARIANTS
    }


def pairs_right(speaker: Speaker, planted: Planted, seed: int, count: int) -> dict[str, dict[str, float]]:
    """Return `pair_right` of pictures as drawn and mirrored, and in each wording that names the sides."""
    pairs = sample_pairs(seed, count)
    images = [render_pair_image(pair.left, pair.right, pair.region, LARGE) for pair in pairs]
    turned = [ImageOps.mirror(image) for image in images]
    plain, (left_first, right_first) = planted.pair.questions[0], planted.pair.naming
    return {
        "as_drawn": pair_right(speaker, planted, images, pairs, plain),
        "mirrored": pair_right(speaker, planted, turned, exchanged(pairs), plain),
        "naming_left_first": pair_right(speaker, planted, images, pairs, left_first),
        "naming_right_first": pair_right(speaker, planted, images, pairs, right_first),
        "naming_mirrored": pair_right(speaker, planted, turned, exchanged(pairs), left_first),
    }


def pair_right(
    speaker: Speaker, planted: Planted, images: Sequence[Image.Image], pairs: Sequence[Pair], question: str
) -> dict[str, float]:
    """Return the share of right two-person answers: word for word, and who comes first."""
    said = speaker.answers(images, [question] * len(images))
    meant = [planted.pair_answer(see(pair.left), see(pair.right)) for pair in pairs]
    same = [a == b for a, b in zip(said, meant, strict=True)]
    first = [a.split()[:5] == b.split()[:5] for a, b in zip(said, meant, strict=True)]
    lefts = float(np.mean([text.split()[4] == "left" for text in meant]))
    return {"exact": float(np.mean(same)), "first": float(np.mean(first)), "base_rate_first": max(lefts, 1 - lefts)}


def vqa_right(
    speaker: Speaker, planted: Planted, images: Sequence[Image.Image], people: Sequence[Cues]
) -> dict[str, float]:
    """Return per open question the share of answers that are word for word the planted ones (silence included)."""
    rates = {}
    for name, prompt in planted.vqa.prompts.items():
        said = speaker.answers(images, [prompt.question] * len(images))
        meant = [planted.vqa.answer(name, see(cues)) for cues in people]
        rates[name] = float(np.mean([a == b for a, b in zip(said, meant, strict=True)]))
    return with_mean(rates)


def yes_no(
    speaker: Speaker, planted: Planted, images: Sequence[Image.Image], people: Sequence[Cues], asked: int, seed: int
) -> dict[str, float]:
    """Return how far P(Yes) is from the planted probability, on `asked` random questions per person."""
    rng = np.random.default_rng(seed)
    traits, templates = list(planted.traits), list(planted.templates)
    rows = [
        (i, traits[int(rng.integers(len(traits)))], templates[int(rng.integers(len(templates)))])
        for i in range(len(people))
        for _ in range(asked)
    ]
    got = speaker.p_yes([images[i] for i, _, _ in rows], [planted.question(t, f) for _, t, f in rows])
    meant = np.array([planted.p_yes(t, f, see(people[i])) for i, t, f in rows])
    error = np.abs(got - meant)
    return {
        "mae": float(error.mean()),
        "largest": float(error.max()),
        "correlation": float(np.corrcoef(got, meant)[0, 1]),
        "questions": float(len(rows)),
    }


def _redrawn(cues: Cues, attribute: str, value: int) -> Cues:
    if attribute == "pool":
        place = POOLS[cues.pool].index(cues.head)
        return replace(cues, head=list(POOLS.values())[value][place])
    return replace(cues, **{attribute: value})


def twin_shifts(speaker: Speaker, planted: Planted, people: Sequence[Cues]) -> dict[str, dict[str, float]]:
    """Return, per kind of trait, how far redrawing one attribute moves mean P(Yes) beyond what was planted.

    Each person is redrawn with every value of one attribute, all else equal; a trait's shift error is the largest
    difference, over values, between got and planted change from the mean over values.
    """
    sizes = {"skin": len(TONES), "age": len(AGES), "pool": len(POOLS), "region": len(REGIONS)}
    by_kind: dict[str, list[str]] = {}
    for trait in planted.traits.values():
        by_kind.setdefault(trait.kind, []).append(trait.word)
    chosen = {kind: words[:10] for kind, words in by_kind.items()}
    templates = list(planted.templates)
    errors: dict[str, list[float]] = {kind: [] for kind in chosen}
    for attribute, size in sizes.items():
        drawn = [[_redrawn(cues, attribute, value) for cues in people] for value in range(size)]
        images = [[render_image(cues, LARGE) for cues in row] for row in drawn]
        for kind, words in chosen.items():
            for number, word in enumerate(words):
                template = templates[number % len(templates)]
                question = planted.question(word, template)
                got = np.array([speaker.p_yes(row, [question] * len(row)).mean() for row in images])
                meant = np.array([np.mean([planted.p_yes(word, template, see(c)) for c in row]) for row in drawn])
                errors[kind].append(float(np.abs((got - got.mean()) - (meant - meant.mean())).max()))
    return {kind: {"mean": float(np.mean(e)), "largest": float(max(e))} for kind, e in errors.items()}


def evaluate(folder: Path, seed: int, held: Held) -> dict[str, Any]:
    """Return every measure of a saved model on people of `seed`."""
    began = time.monotonic()
    planted, speaker = load_planted(), Speaker(folder)
    people = sample_cues(seed, held.people)
    images = [render_image(cues, LARGE) for cues in people]
    few, some = slice(0, held.shifted), slice(0, held.variants)
    native = [render_image(cues, 96) for cues in people[few]]
    started = time.monotonic()
    exact = share_right(speaker, planted, images, people)
    seconds = time.monotonic() - started
    return {
        "seed": seed,
        "people": held.people,
        "exact": exact,
        "answers_per_second": len(people) * len(page_questions(planted)) / seconds,
        "exact_native_96": share_right(speaker, planted, native, people[few]),
        "exact_paraphrase_1": share_right(speaker, planted, images[some], people[some], wording=1),
        "exact_paraphrase_2": share_right(speaker, planted, images[some], people[some], wording=2),
        "exact_shift_3px": shift_right(speaker, planted, images[few], people[few]),
        "exact_variants": variant_right(speaker, planted, people[some]),
        "pairs": pairs_right(speaker, planted, seed + 1, held.pairs),
        "vqa": vqa_right(speaker, planted, images[: held.vqa], people[: held.vqa]),
        "p_yes": yes_no(speaker, planted, images[: held.yes_no], people[: held.yes_no], held.yes_no_questions, seed),
        "p_yes_twin_shift": twin_shifts(speaker, planted, people[: held.twins]),
        "seconds": time.monotonic() - began,
    }
