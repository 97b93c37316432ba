"""Readers of the benchmarks' files: each returns one row per item, with its texts as fields."""

from __future__ import annotations

import ast
import csv
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from fp2.extension import (
    ITEM_ROW,
    Dataset,
    Fp2Error,
    frame_people,
    images_below,
    item_name,
    needing,
    normal_id,
    read_json,
    read_table,
)
from fp2.methods.benchmarks.question_files import assigned
from fp2.methods.public_sets.hf import load_hf

Tick = Callable[[int, int], None]

GENDERS = ("masculine", "feminine")
_VISO = {
    "Sector": "sector", "Occupation": "occupation", "Occupation_perceived_gender": "gender",
    "Participant_perceived_gender": "participant",
}  # fmt: skip


def load_visogender(root: Path, image_root: Path | None, images_needed: bool = True) -> Dataset:
    """Return VisoGender's images by the newest `OO_Visogender_*.tsv` and `OP_Visogender_*.tsv` below a checkout.

    The lists have addresses, not images: those that were downloaded are below `image_root`, named by their IDX
    (`OO_1.jpg`). Images that are not there are left out and counted; unless `images_needed`, none has to be.

    Attributes: `gender` of who has the occupation (`masculine`, `feminine`), `occupation`, `sector`, and the same
    gender for the images of one part: `gender_oo`, `gender_op`, `gender_op_same`, `gender_op_different` (two people of
    one gender, or of two). The field `occupation` is its name in lower case.
    """
    lists = {kind: _newest(root, kind) for kind in ("OO", "OP")}
    frames = []
    for kind, path in lists.items():
        frame = read_table(path)
        needing(["IDX", *_VISO][: 4 if kind == "OO" else 5], path)(frame.columns)
        frame[ITEM_ROW] = [f"{number} of {path.name}" for number in range(1, len(frame) + 1)]
        frames.append(frame.rename(columns=_VISO).assign(kind=kind))
        for number, gender in enumerate(frames[-1]["gender"], start=1):
            if gender not in GENDERS:
                what = f"row {number} ({frame['IDX'].iloc[number - 1]}) has the gender {gender!r}"
                raise Fp2Error(what, where=str(path), fix=f"It is one of {', '.join(GENDERS)}")
    people = pd.concat(frames, ignore_index=True).fillna("")
    same = people["gender"] == people["participant"]
    for name, chosen in (
        ("gender_oo", people["kind"] == "OO"),
        ("gender_op", people["kind"] == "OP"),
        ("gender_op_same", (people["kind"] == "OP") & same),
        ("gender_op_different", (people["kind"] == "OP") & ~same),
    ):
        people[name] = people["gender"].where(chosen, "")
    people["field_occupation"] = people["occupation"].str.strip().str.lower()
    notes = []
    if images_needed:
        if image_root is None:
            fix = "Download the addresses of the lists, name each image by its IDX, add data.image_root=PATH"
            raise Fp2Error("the folder of the images is not given", where="data.image_root", fix=fix)
        files = {path.stem: path.relative_to(image_root).as_posix() for path in images_below(image_root)}
        there = people["IDX"].isin(files)
        if not there.any():
            what = f"none of the {len(people)} images is there, such as {people['IDX'].iloc[0]}.jpg"
            raise Fp2Error(what, where=str(image_root), fix="Name each image by its IDX")
        if absent := int((~there).sum()):
            notes.append(f"{absent} of the {len(people)} images of the lists are not in the image folder")
        people = people[there].assign(file=people["IDX"].map(files))
    else:
        people = people.assign(file=people["IDX"])
    names = ("gender", "gender_oo", "gender_op", "gender_op_same", "gender_op_different", "occupation", "sector")
    columns = {"image": "file", "item": "IDX", "subject": "IDX", "field_occupation": "field_occupation"}
    columns |= {name: name for name in names}
    dataset = frame_people(people, columns, (image_root or root).absolute(), root, found=images_needed)
    return Dataset("visogender", lists["OP"].stem.rpartition("_")[2], dataset.people, tuple(notes), terms="CC BY 4.0")


def _newest(root: Path, kind: str) -> Path:
    """Return the list of a kind with the latest date in its name (day, month, year)."""
    files = sorted(root.rglob(f"{kind}_Visogender_*.tsv"), key=lambda path: _date(path.stem)) if root.is_dir() else []
    if not files:
        fix = "data.root is the checkout of VisoGender's repository"
        raise Fp2Error(f"{kind}_Visogender_DATE.tsv was not found", where=str(root), fix=fix)
    return files[-1]


def _date(stem: str) -> str:
    day = stem.rpartition("_")[2]
    return day[4:] + day[2:4] + day[:2]


def _hub(root: Path, columns: Mapping[str, str], image: str, cache: Path, tick: Tick, images_needed: bool) -> Dataset:
    """Return a data set of the hub: Parquet files with the images in column `image`, or `metadata.csv` beside them.

    `columns` maps our names to its columns, as for `load_table`, without the image.
    """
    lists = [file for name in ("metadata.csv", "metadata.jsonl") if (file := root / name).is_file()]
    if not lists:
        return load_hf(root, {"image": image, **columns}, cache, tick=tick)
    frame = read_table(lists[0])
    return frame_people(frame, {"image": "file_name", **columns}, root.absolute(), lists[0], found=images_needed)


_SB_ID = re.compile(r"(?P<template>.+?_\d+)_\d+_(?:neg|nonneg|\d+)_.+")
"""Polarities are words in the code and numbers in the README's example."""
_SB_TEXTS = ("context", "question", "ans0", "ans1", "ans2")
_SB_OTHER = {"label": "label", "polarity": "question_polarity", "metadata": "additional_metadata"}
_SB_CODES = {"f": ("woman", "women", "girl", "female"), "m": ("man", "men", "boy", "male")}
"""BBQ's codes of stereotyped groups -> words that name them."""


def load_sb_bench(root: Path, cache: Path, tick: Tick, images_needed: bool = True) -> Dataset:
    """Return SB-Bench's items in the hub's form: Parquet, or `metadata.csv` with the images beside it.

    The subject is the BBQ question template, the part `CATEGORY_QUESTION` of an item's id. Attributes: `category`;
    `correct`, the answer that it cannot be told; `stereotyped` and `anti_stereotyped`, the two others, as names of
    fields (`{ans0}`). These two are known where exactly one of the others names a stereotyped group of the item.
    """
    columns = {"item": "id", "subject": "id", "category": "category"}
    columns |= {f"field_{name}": name for name in _SB_TEXTS}
    columns |= {f"field_{name}": column for name, column in _SB_OTHER.items()}
    people = _hub(root, columns, "file_name", cache, tick, images_needed).people
    rows = people[["image_id", *(f"field_{name}" for name in (*_SB_OTHER, "ans0", "ans1", "ans2"))]]
    templates, answers = [], []
    for row, (item, label, polarity, metadata, *options) in enumerate(rows.itertuples(index=False, name=None)):
        if not (named := _SB_ID.fullmatch(item)):
            fix = "An id is CATEGORY_QUESTION_EXAMPLE_POLARITY_IMAGE"
            raise Fp2Error(f"the id of {item_name(people, row)} names no question template", where=str(root), fix=fix)
        templates.append(normal_id(named["template"]))
        try:
            answers.append(_sb_answers(label, polarity, metadata, options))
        except ValueError as error:
            raise Fp2Error(f"{item_name(people, row)} has {error}", where=str(root)) from None
    for place, name in enumerate(("correct", "stereotyped", "anti_stereotyped")):
        people[f"attr_{name}"] = [[own[place]] if own[place] else [] for own in answers]
    people["subject_id"] = templates
    people = people.drop(columns=[f"field_{name}" for name in _SB_OTHER])
    unknown = sum(not own[1] for own in answers)
    note = f"which answer is the stereotyped one is not known of {unknown} of {len(people)} items"
    terms = "CC BY-NC 4.0 (LICENSE) or CC BY-NC-SA 4.0 (README); images for academic use"
    return Dataset("sb_bench", None, people, (note,) if unknown else (), terms=terms)


def _sb_answers(label: str, polarity: str, metadata: str, options: Sequence[str]) -> tuple[str, str, str]:
    """Return the fields of the correct, the stereotyped and the anti-stereotyped answer; empty where not known.

    Raises
    ------
    ValueError
        Saying what the item has that cannot be.
    """
    if label not in ("0", "1", "2"):
        raise ValueError(f"the label {label!r}, which is no option from 0 to 2")
    if polarity not in ("neg", "nonneg"):
        raise ValueError(f"the polarity {polarity!r}, not neg or nonneg")
    try:
        groups = [str(group).casefold() for group in ast.literal_eval(metadata)["stereotyped_groups"]]
    except (ValueError, SyntaxError, KeyError, TypeError):
        raise ValueError("no stereotyped_groups in additional_metadata") from None
    others = [place for place in range(3) if place != int(label)]
    names = [word for group in groups for word in _SB_CODES.get(group, (group,))]
    named = [place for place in others if any(_has_words(options[place], name) for name in names)]
    if len(named) != 1:
        return f"{{ans{label}}}", "", ""
    target, other = named[0], next(place for place in others if place != named[0])
    stereotyped, anti = (target, other) if polarity == "neg" else (other, target)
    return f"{{ans{label}}}", f"{{ans{stereotyped}}}", f"{{ans{anti}}}"


def _has_words(text: str, name: str) -> bool:
    words = re.findall(r"\w+", text.casefold())
    wanted = re.findall(r"\w+", name)
    return any(words[start : start + len(wanted)] == wanted for start in range(len(words)))


_GBVL_FILES = {
    (image_type, order): f"occ_test_{image_type}_ask_*{'_swap_option' if order == 'swapped' else ''}.json"
    for order in ("given", "swapped")
    for image_type in ("base", "cf")
}
_GBVL_PAIRS = "occ_merge_filter_sim.csv"
_GBVL_KEYS = ("query", "gt_choice", "id", "occ", "occ_sim", "gender", "image")
_FLIPPED = {"male": "female", "female": "male"}


def load_genderbias_vl(root: Path, part: str, image_root: Path | None, images_needed: bool = True) -> Dataset:
    """Return GenderBias-VL's questions of one part: base and counterfactual images, both orders of the options.

    `root` is above `test_meta_file/PART/*.json` of the data set and `occ_merge_filter_sim.csv` of the repository, which
    lists the pairs (`job_male`, `job_female`). The set is an image with its counterfactual, the subject the occupation.
    Attribute: `version`, whether the gender that is shown or asked about is the one that the occupation leans to
    (`stereotypical`) or the other (`counter`). Fields besides those that are asked: `row`, `occ`, `occ_sim`, `gender`
    (of the base image), `image_type` (`base`, `cf`), `order` (`given`, `swapped`) and `leaning` (of the occupation).
    """
    lists = sorted(root.rglob(_GBVL_PAIRS)) if root.is_dir() else []
    if not lists:
        fix = "Copy it from construction/vq_generation/similarity of the repository to data.root"
        raise Fp2Error(f"{_GBVL_PAIRS} was not found", where=str(root), fix=fix)
    listed = read_table(lists[0])
    needing(["job_male", "job_female"], lists[0])(listed.columns)
    pairs = {(str(row["job_male"]), str(row["job_female"])) for row in listed.to_dict("records")}
    rows = [row for (kind, order), file in _gbvl_files(root, part) for row in _gbvl_rows(file, kind, order, pairs)]
    folder = (image_root or root).absolute()
    dataset = frame_people(pd.DataFrame(rows), None, folder, root / part, found=images_needed)
    return Dataset("genderbias_vl", part, dataset.people, terms="CC BY-NC 4.0")


def _gbvl_files(root: Path, part: str) -> Iterator[tuple[tuple[str, str], Path]]:
    folders = [path for path in sorted(root.rglob(part)) if path.is_dir()]
    for key, pattern in _GBVL_FILES.items():
        swapped = key[1] == "swapped"
        files = [
            file for folder in folders for file in sorted(folder.glob(pattern)) if ("_swap_" in file.name) == swapped
        ]
        if not files:
            fix = "data.root is above the data set's test_meta_file; data.part is VLbias, Vbias or Lbias"
            raise Fp2Error(f"{part}/{pattern} was not found", where=str(root), fix=fix)
        yield key, files[0]


def _gbvl_rows(file: Path, kind: str, order: str, pairs: set[tuple[str, str]]) -> Iterator[dict[str, str]]:
    for number, row in enumerate(read_json(file, "questions"), start=1):
        if missing := [name for name in _GBVL_KEYS if name not in row]:
            raise Fp2Error(f"question {number} has no {missing[0]}", where=str(file))
        item = f"{row['id']}_{kind}_{order}"
        named = f"question {number} (item {item!r})"
        if row["gt_choice"] not in (0, 1, "0", "1"):
            raise Fp2Error(f"{named} has the gt_choice {row['gt_choice']!r}, which is no option", where=str(file))
        if row["gender"] not in _FLIPPED:
            raise Fp2Error(f"{named} has the gender {row['gender']!r}", where=str(file), fix="male or female")
        occ, other = (str(row[name]).replace("Waitress", "Waiter") for name in ("occ", "occ_sim"))
        leaning = "male" if (occ, other) in pairs else "female" if (other, occ) in pairs else None
        if leaning is None:
            raise Fp2Error(f"{named} is about {occ} and {other}, no pair of {_GBVL_PAIRS}", where=str(file))
        shown = row["gender"] if kind == "base" else _FLIPPED[row["gender"]]
        options = ("(A", "(B") if int(row["gt_choice"]) == 0 else ("(B", "(A")
        yield {
            "image": row["image"],
            "item": item,
            "subject": occ,
            "set_id": f"{row['id']}_{order}",
            "version": "stereotypical" if shown == leaning else "counter",
            "field_query": row["query"].strip(),
            "field_truth": options[0],
            "field_other": options[1],
            "field_row": str(row["id"]),
            "field_occ": occ,
            "field_occ_sim": other,
            "field_gender": row["gender"],
            "field_image_type": kind,
            "field_order": order,
            "field_leaning": leaning,
            ITEM_ROW: f"{number} of {file.name}",
        }


_SOCIAL_TEXTS = ("caption", "a1a2", "a1", "a2", "a1_type", "a2_type")


def load_social_counterfactuals(root: Path, cache: Path, tick: Tick, images_needed: bool = True) -> Dataset:
    """Return SocialCounterfactuals in the hub's form: Parquet, or `metadata.csv` with the images beside it.

    The set is `counterfactual_set` of one type (`race_gender`, `physical_gender`, `physical_race`), the subject the
    occupation, so that the sets of one occupation are one unit. Attributes: two of `race`, `gender` and `physical`.
    Fields: `occupation` (the caption without the attributes and "A picture of a") and `type`.
    """
    columns = {"subject": "counterfactual_set", "set_id": "counterfactual_set"}
    columns |= {f"field_{name}": name for name in _SOCIAL_TEXTS}
    people = _hub(root, columns, "image", cache, tick, images_needed).people
    texts = people[[f"field_{name}" for name in _SOCIAL_TEXTS]]
    occupations, kinds, values = [], [], []
    for row, (caption, both, first, second, first_kind, second_kind) in enumerate(
        texts.itertuples(index=False, name=None)
    ):
        words = caption.replace(both, "").split()
        occupation = " ".join(words[4:] if {"picture", "photo", "image"} & set(words[1:2]) else words[1:])
        if both not in caption or not occupation:
            what = f"{item_name(people, row)} has the caption {caption!r} without {both!r} or an occupation"
            raise Fp2Error(what, where=str(root))
        occupations.append(normal_id(occupation))
        kinds.append(f"{first_kind}_{second_kind}")
        values.append({first_kind: [first], second_kind: [second]})
    for name in sorted({name for own in values for name in own}):
        people[f"attr_{name}"] = [own.get(name, []) for own in values]
    people = people.drop(columns=[f"field_{name}" for name in _SOCIAL_TEXTS])
    sets = [f"{kind}/{name}" for kind, name in zip(kinds, people["set_id"], strict=True)]
    people = people.assign(set_id=sets, subject_id=occupations, field_occupation=occupations, field_type=kinds)
    return Dataset("social_counterfactuals", None, people, terms="MIT (code and list); generated images")


MOST_AT_WORK = 0.25


def load_vl_gender(
    root: Path, checkout: Path, task: str, per_gender: int, seed: int, images_needed: bool = True
) -> Dataset:
    """Return VL-Gender's images, each once for each value of a task, with a question and an instruction drawn for it.

    Below `root` are folders `SET/annotations.csv` (`name`, `gender`, perhaps `split`) with `SET/images/NAME`; of each
    set the first `per_gender` men and women of the split `test`, in file order. Questions, values and instructions are
    those of `checkout/data/prompting`: all values of the task, questions and instructions of the split `test`.
    Images whose probability of showing an occupation is above 0.25 are left out
    (`checkout/data/occupation_probabilities.json`). Attributes: `gender`, `set`. Fields: `prompt`, `instruction`,
    `value`, and where `checkout` has its code `unknown`, one of the spellings of a third option there.
    """
    folder = checkout / "data" / "prompting"
    values = [row["value"] for row in _prompts(folder, "values", task)]
    questions = [row["question"] for row in _prompts(folder, "questions", task) if row["split"] == "test"]
    instructions = [row["instruction"] for row in _prompts(folder, "instructions") if row["split"] == "test"]
    for name, texts in (("values", values), ("questions", questions), ("instructions", instructions)):
        if not texts:
            raise Fp2Error(
                f"{name}.csv has none of {task!r} in the split test", where=str(folder), fix="Check data.task"
            )
    if wrong := next((text for text in questions if "{value}" not in text), None):
        raise Fp2Error(f"the question {wrong!r} has no {{value}}", where=str(folder / "questions.csv"))
    lists = sorted(root.glob("*/annotations.csv"))
    if not lists:
        fix = "data.root has a folder per set, with annotations.csv and images"
        raise Fp2Error("no SET/annotations.csv was found", where=str(root), fix=fix)
    code, listed = checkout / "bias_eval_utils.py", checkout / "data" / "occupation_probabilities.json"
    spelled = assigned(code).get("unknown_option_variations") if code.is_file() else None
    unknown = [node.value for node in ast.walk(spelled) if isinstance(node, ast.Constant)] if spelled else []
    at_work = {name for name, p in read_json(listed).items() if p > MOST_AT_WORK} if listed.is_file() else set()
    rng, of_unknown, rows = random.Random(seed), random.Random(seed), []
    for file in lists:
        for number, name, gender in _first_of_each(file, per_gender, at_work):
            image = f"{file.parent.name}/images/{name}"
            for value in values:
                prompt = rng.choice(questions).replace("{value}", value)
                rows.append(
                    {
                        "image": image,
                        "item": f"{image}|{value}",
                        "subject": image,
                        "gender": gender,
                        "set": file.parent.name,
                        "field_prompt": prompt,
                        "field_instruction": rng.choice(instructions),
                        "field_value": value,
                        ITEM_ROW: f"{number} of {file.parent.name}/{file.name}",
                        **({"field_unknown": of_unknown.choice(unknown)} if unknown else {}),
                    }
                )
    people = frame_people(pd.DataFrame(rows), None, root.absolute(), root, found=images_needed).people
    terms = "no licence of prompts (read from your checkout); images by set"
    note = f"no {listed.name} in the checkout: images of people at work are not left out"
    return Dataset("vl_gender", task, people, () if listed.is_file() else (note,), terms=terms)


def _prompts(folder: Path, name: str, task: str | None = None) -> list[dict[str, str]]:
    """Return the rows of a file of prompts, of one task where it is given; the published file has a short row."""
    file = folder / f"{name}.csv"
    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle, restval="")
            rows = list(reader)
    except (OSError, UnicodeError, csv.Error) as error:
        what = f"the prompts cannot be read: {error}"
        raise Fp2Error(what, where=str(file), fix="data.checkout is that of vla-gender-bias") from None
    needed = (name.removesuffix("s"), "split", *(() if task is None else ("task",)))
    needing(needed, file)(list(reader.fieldnames or ()))
    return [row for row in rows if task in (None, row.get("task"))]


def _first_of_each(file: Path, per_gender: int, but: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Yield row, name and gender of the first images of each gender, of the split `test` where there is one."""
    frame = read_table(file)
    needing(["name", "gender"], file)(frame.columns)
    seen = {"male": 0, "female": 0}
    for number, row in enumerate(frame.to_dict("records"), start=1):
        if row["gender"] not in seen:
            what = f"row {number} ({row['name']}) has the gender {row['gender']!r}"
            raise Fp2Error(what, where=str(file), fix="It is male or female")
        if row.get("split", "test") == "test" and row["name"] not in but and seen[row["gender"]] < per_gender:
            seen[row["gender"]] += 1
            yield number, row["name"], row["gender"]
