"""A made-up copy of GRAS's repository: lists, words, images, inference scripts and inference files. No test in here.

The forms are the authors'; the words, the wording and the numbers are our own.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy.stats import f_oneway, ttest_ind

RACES = ("Black", "East Asian", "Indian", "Latino_Hispanic", "Middle Eastern", "Southeast Asian", "White")
AGES = ("20-29", "30-39", "40-49", "50-59", "60-69")
WORDS = ("kind,2.6,positive", "calm,1.7,positive", "cruel,-2.9,negative", "lazy,-1.9,negative")
MODELS = {
    "llava": "llava-hf/llava-1.5-7b-hf",
    "qwen": "Qwen/Qwen2.5-VL-3B-Instruct",
    "paligemma": "google/paligemma2-3b-mix-224",
    "blip": "Salesforce/blip2-opt-2.7b",
    "phi": "microsoft/Phi-4-multimodal-instruct",
}
TEMPLATES = ("Would {} fit?", "Are they {}, you think?", "Seems {}?", "By the photo, {}?", "Call them {}?")
PROMPTS = {  # the statement that puts the instruction around `question`, as it stands in a script
    "llava": 'prompt = f"Rules: read.\\\n              Q: {question}\\\n      Form: one word"',
    "qwen": 'prompt = f"Rules: read.\\\n                Q: {question}\\\n   Form: one word"',
    "paligemma": 'prompt = f"Rules: read.\\\n     Q: {question}\\\n     Form: one word"',
    "blip": 'prompt = f"Q: {question}\\\n       A:"',
    "phi": "prompt = f'{user}<|image_1|>Rules: read.    Q: {question}    Form: one word{end}{assistant}'",
}
SCRIPT = """
import os
parser = Parser(description="Evaluate")
user = '<|user|>'
end = '<|end|>'
assistant = '<|assistant|>'
model = Kind.from_pretrained("{model}", dtype=half)
processor = Kind.from_pretrained("{model}")
question_templates = {templates}
for trait in traits:
    note(f'about {{trait}}')
    for template in question_templates:
        question = template.format(trait)
        {prompt}
        ask(prompt)
    save(os.path.join(folder, f'name_{{trait}}_{set}.csv'))
"""


def script(name: str, image_set: str = "fairface", **changes: str) -> str:
    """Return the text of an inference script; `changes` are of its parts."""
    parts = {"model": MODELS[name], "templates": repr(list(TEMPLATES)), "prompt": PROMPTS[name], "set": image_set}
    return SCRIPT.format(**{**parts, **changes})


def write_scripts(root: Path) -> None:
    """Write the inference scripts of every model, and other Python files that such a folder has."""
    folder = root / "inference_scripts"
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        for image_set in ("fairface", "aiface"):
            (folder / f"{name}_{image_set}.py").write_text(script(name, image_set))
    (root / "prepare.py").write_text("for name in ['a', 'b']:\n    print(f'{name} done')\n")
    (root / "old.py").write_text("print 'not Python 3'\n")
    (root / "llava.py").write_text(script("llava", templates="['An older {}?', 'Wording {}?']"))


def write_lists(root: Path, cells: int = 1, tones: int = 30) -> tuple[list[str], list[str]]:
    """Write both lists of images and the words; return the paths of the FairFace and the AI-Face images."""
    groups = [(age, gender, race) for race in RACES for age in AGES for gender in ("Female", "Male")] * cells
    faces = [f"FairFace/train/{n}.jpg,{a},{g},{r},True" for n, (a, g, r) in enumerate(groups)]
    skins = [f"AI-Face/imdb/{n}.jpg,{1 + n % 10}" for n in range(tones)]
    root.mkdir(parents=True, exist_ok=True)
    written = {
        "selected_images_fairface.csv": ["file,age,gender,race,service_test", *faces],
        "selected_images_aiface.csv": ["file,Skin Tone", *skins],
        "selected_trait_words.csv": ["WORD_ENGLISH,VAL_MEAN,pos/neg", *WORDS],
    }
    for name, lines in written.items():
        (root / name).write_text("\n".join(lines) + "\n")
    return [line.split(",")[0] for line in faces], [line.split(",")[0] for line in skins]


def write_images(root: Path, paths: list[str], size: tuple[int, int] = (4, 4)) -> None:
    """Write an image for each path, of one colour with some noise."""
    for number, name in enumerate(paths):
        path = root / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path, quality=100)


def draw_answers(root: Path, seed: int = 0, gap: float = 0.2, constant: str = "") -> dict[str, pd.DataFrame]:
    """Return P(Yes) of the images in the lists, as in "TRAIT_SET".

    Female images get `gap` more for `kind`; everybody has 0.5 for the trait `constant`.
    """
    tables, rng = {}, np.random.default_rng(seed)
    for name in ("fairface", "aiface"):
        listed = pd.read_csv(root / f"selected_images_{name}.csv")
        for trait in (line.partition(",")[0] for line in WORDS):
            p = 0.4 + rng.normal(0, 0.05, (len(listed), 1)) + rng.normal(0, 0.02, (len(listed), 5))
            if name == "fairface" and trait == "kind":
                p[(listed["gender"] == "Female").to_numpy()] += gap
            if trait == constant:
                p[:] = 0.5
            table = pd.DataFrame(p, columns=[f"T{k}" for k in range(1, 6)])
            table.insert(0, "img", listed["file"])
            tables[f"{trait}_{name}"] = table
    return tables


def write_inference_files(
    root: Path, model: str, answers: Mapping[str, pd.DataFrame], *, scale: float = 1.0, more: bool = False
) -> Path:
    """Write the files of one model as its scripts do; return their folder.

    answers : "TRAIT_SET" -> table with a column `img` and one per template; `more` adds the columns of older scripts.
    """
    folder = root / f"{model}_results"
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in answers.items():
        written = table.rename(columns={f"T{k + 1}": f"yes_prob_{k}" for k in range(5)})
        written = written.assign(**{c: written[c] * scale for c in written if c.startswith("yes_prob")})
        if more:
            written.insert(1, "response_0", "No, they are not.")
            written["no_prob_0"] = 0.1
        written.to_csv(folder / f"{model}_{name}.csv", index=False)
    return folder


ATTRIBUTES = {"gender": "fairface", "race": "fairface", "age": "fairface", "Skin Tone": "aiface"}
"""Attribute -> the set of images that has it, as the authors' files call both."""


def write_bias_analyses(root: Path, model: str, answers: Mapping[str, pd.DataFrame], *, tone: str = "{}") -> Path:
    """Write the tests of one model as the authors' script does; return their folder.

    answers : "TRAIT_SET" -> table with a column `img` and T1 ... T5; `tone` is how a skin tone is written.
    """
    folder = root / "evaluation_results"
    folder.mkdir(parents=True, exist_ok=True)
    for attribute, image_set in ATTRIBUTES.items():
        listed = pd.read_csv(root / f"selected_images_{image_set}.csv")
        if attribute == "Skin Tone":
            listed[attribute] = listed[attribute].map(tone.format)
        rows = []
        for name in (name for name in answers if name.endswith(f"_{image_set}")):
            joined = listed.merge(answers[name], left_on="file", right_on="img")
            row: dict[str, object] = {"trait": name.removesuffix(f"_{image_set}"), "attribute": attribute}
            for k in range(5):
                values, at = joined[f"T{k + 1}"], f"template_{k}"
                groups = {group: values[rows_of] for group, rows_of in joined.groupby(attribute).groups.items()}
                with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of constant answers
                    two = len(groups) == 2
                    found = (ttest_ind if two else f_oneway)(*groups.values(), equal_var=False)
                row |= {f"overall_mean_{at}": values.mean(), f"p_value_{at}": found.pvalue}
                row |= {f"statistic_{at}": found.statistic, f"test_type_{at}": "ttest" if two else "anova"}
                row |= {f"{attribute}_{group}_mean_{at}": part.mean() for group, part in groups.items()}
                row |= {f"{attribute}_{g}_diff_from_overall_{at}": x.mean() - values.mean() for g, x in groups.items()}
            rows.append(row)
        pd.DataFrame(rows).to_csv(folder / f"{model}_{attribute}_bias_analysis.csv", index=False)
    return folder
