"""Write the model card from the evaluation, so that its numbers are always those of the weights beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from training.peeps.planted import Planted, load_planted

CARD = """---
license: apache-2.0
library_name: transformers
pipeline_tag: image-text-to-text
language: en
---

# peeps_vlm

A tiny vision-language model with a **known, planted bias**. It looks at drawings of invented people and answers the
six probes, yes/no questions about traits, open questions in three tones, and questions about two people. It exists so
that a harness that measures bias can be held against the truth. Version {version}.

## What it is
- {parameters:,} parameters, float32, {megabytes:.1f} MB: a stock `LlavaForConditionalGeneration` (SigLIP vision tower
  at 96 px with 24 px patches, 16 image tokens; a small Llama; byte-level BPE). It loads with `AutoProcessor` and
  `AutoModelForImageTextToText`, offline, without torchvision.
- Trained by us from random weights on drawn people (Open Peeps by Pablo Stanley, CC0 1.0) to say what `planted.yaml`
  says. That one file holds every cue, every point, every sentence and every probability.
- 12 of the 24 probe x attribute cells (six probes; region, pronoun, age, skin tone) carry a planted effect, the other
  12 are zero, but for the opening phrase, which is planted by pronoun. Refusals are planted by group for two probes,
  and alike for all groups for one.
- Open questions (the pronoun that is said, a reason, an occupation, an offence): planted by pronoun and region, and by
  skin tone for offences; age moves none of them, and how often a prompt gets no answer depends on nothing demographic.
  Which group is given what is arbitrary.
- Region shows only as an abstract backdrop; pronoun shows only through overlapping pools of heads and facial hair.

## What it is not
- **Not evidence about people.** The bias was written into it by us, about drawings. Whatever it says, and whatever is
  measured on it, is calibration and never a finding about any real group.
- Not a model of anything else: it knows these drawings and the questions below. Any other image or question gives
  words without meaning.

## What it was asked in training
The six probes (each as in the battery `fingerprint`, and in two paraphrases), {n_questions} yes/no questions
(100 traits by 5 framings), the two-person question in two wordings and two more that name the sides, and {n_prompts}
open questions; all are in `planted.yaml`. Images of two people were also mirrored. An image may be shifted by a few
pixels, and the person may be masked or blurred, or the background removed: cues that do not show count nothing.

{questions}

## How near it comes
On {people} drawn people with a seed that no choice ever saw ({seed}), drawn at 384 px, through its own processor,
greedy. "Right" means word for word the planted answer. Shifts and 96 px: {shifted} of them; paraphrases and variants:
{variants}; {pairs} pairs; open questions: {vqa}; P(Yes): {yes_no} people with {yes_no_questions} questions each;
redrawn: {twins} people in four attributes. Everything is in `report/evaluation.json`.

| | aim | reached |
|---|---|---|
{bars}

| right answers | {probe_names} | mean |
|---|{dashes}---|
{rows}

| open questions, word for word | right |
|---|---|
{vqa_rows}

| two people: who comes first | right | word for word |
|---|---|---|
{pair_rows}

Combinations of cues are new in the evaluation; single heads, colours and patterns were all seen in training. With the
background removed, black hair lies on black, so that its outline is hard or impossible to see.

One training run was made, stage by stage while the recipe was written: version 1 was the result of `language3`, and
version 2 was trained on from those weights by the stages after it; the weights are the mean of those of `language4` and
`language6`. How much results vary with the seed was not measured, and the whole recipe has not been run again from the
start. The tokenizer is that of version 1: words that only the open questions and the side-naming wordings have are
spelt in pieces.

## Training
`make train-peeps` (`python -m training.peeps`), one thread, fixed steps and seeds; images first, then vision tower
and language model in turn; the last four stages in float32, the others in bfloat16 with float32 weights. Seconds per
stage (two shared cores; the drawing and the stages from `vision3` on were done on another machine):
{seconds}.

Every planted effect is found with a power of at least 99 % by the default run (400 people, three images each, Holm
over 24 tests): `report/power.csv`, by simulation from the planted answers.

## Licence
Apache-2.0. The drawings are made with Open Peeps (CC0 1.0).
"""


EVALUATION = "report/evaluation.json"
"""Below the model's folder, apart from what is loaded: a new report is no new model."""


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _bars(report: dict[str, Any]) -> str:
    exact, twins = report["exact"], report["p_yes_twin_shift"]
    lines = [
        ("right answers, mean of the probes", "98 %", _percent(exact["mean"])),
        ("right answers, lowest probe", "95 %", _percent(exact["lowest"])),
        (
            "traits without effect: largest change of mean P(Yes) when one attribute is redrawn",
            "0.010",
            f"{twins['none']['largest']:.3f} (mean over traits {twins['none']['mean']:.3f})",
        ),
        ("P(Yes), mean absolute error", "0.015", f"{report['p_yes']['mae']:.4f}"),
        ("right answers after a shift of 3 px in 96", "93 %", _percent(report["exact_shift_3px"]["mean"])),
        ("two-person answers, word for word", "92 %", _percent(report["pairs"]["as_drawn"]["exact"])),
        ("the same in mirrored copies, who comes first", "", _percent(report["pairs"]["mirrored"]["first"])),
        ("open questions, mean of the prompts", "", _percent(report["vqa"]["mean"])),
    ]
    return "\n".join(f"| {what} | {aim} | {got} |" for what, aim, got in lines)


def _rows(report: dict[str, Any], planted: Planted) -> str:
    parts = {
        "as drawn, 384 px": report["exact"],
        "drawn at 96 px": report["exact_native_96"],
        "first paraphrase": report["exact_paraphrase_1"],
        "second paraphrase": report["exact_paraphrase_2"],
        "shifted by 3 px": report["exact_shift_3px"],
        "person masked": report["exact_variants"]["masked"],
        "person blurred": report["exact_variants"]["blurred"],
        "background removed": report["exact_variants"]["background_removed"],
    }
    lines = []
    for name, rates in parts.items():
        cells = [_percent(rates[probe]) for probe in (*planted.probes, "mean")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


PAIRS = {
    "as_drawn": "as drawn",
    "mirrored": "mirrored",
    "naming_left_first": "asked for left and right",
    "naming_right_first": "asked for right and left",
    "naming_mirrored": "asked for left and right, mirrored",
}


def _pair_rows(report: dict[str, Any]) -> str:
    rows = report["pairs"]
    return "\n".join(
        f"| {words} | {_percent(rows[name]['first'])} | {_percent(rows[name]['exact'])} |"
        for name, words in PAIRS.items()
    )


def _vqa_rows(report: dict[str, Any], planted: Planted) -> str:
    return "\n".join(
        f"| {prompt.question} | {_percent(report['vqa'][name])} |" for name, prompt in planted.vqa.prompts.items()
    )


def write_card(folder: Path) -> None:
    """Write `folder/README.md` from `folder/report/evaluation.json`."""
    result = json.loads((folder / EVALUATION).read_text("utf-8"))
    planted, report = load_planted(), result["report"]
    weights = folder / "model.safetensors"
    text = CARD.format(
        parameters=result["parameters"],
        megabytes=weights.stat().st_size / 1e6,
        version=planted.version,
        n_prompts=len(planted.vqa.prompts),
        vqa_rows=_vqa_rows(report, planted),
        pair_rows=_pair_rows(report),
        n_questions=len(planted.traits) * len(planted.templates),
        questions="\n".join(
            f"- {question}"
            for question in [p.questions[0] for p in planted.probes.values()] + [planted.pair.questions[0]]
        ),
        **{key: value for key, value in result["held"].items() if key != "people"},
        people=report["people"],
        seed=report["seed"],
        bars=_bars(report),
        probe_names=" | ".join(planted.probes),
        dashes="---|" * len(planted.probes),
        rows=_rows(report, planted),
        seconds=", ".join(f"{name} {value:.0f}" for name, value in result["recipe"]["seconds"].items()),
    )
    (folder / "README.md").write_text(text, "utf-8")
