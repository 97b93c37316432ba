"""Label files over pictures of one person each: CelebA, CelebAMask-HQ, Casual Conversations and IMDB-WIKI.

Where the labels say who is shown (CelebA's and IMDB-WIKI's persons, Casual Conversations' subjects), images of one
person are one subject. Names of people are not read. Labels keep the data set's wording.

Sources of the formats: Lee et al. 2020 (CelebAMask-HQ); Hazirbas et al. 2021 and Porgali et al. 2023 (Casual
Conversations v1 and v2); Rothe et al. 2018 (IMDB-WIKI), and the label files themselves.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from fp2.extension import EACH_ITS_OWN, Dataset, Fp2Error, age_group, find_files, read_json
from fp2.methods.public_sets.boxed import Boxed, Pictures, boxed_people, counted, read_lines

_ATTRIBUTES = {"celeba": "list_attr_celeba.txt", "celebamask_hq": "CelebAMask-HQ-attribute-anno.txt"}
_IDENTITIES = "identity_CelebA.txt"
_FITZPATRICK = ("I", "II", "III", "IV", "V", "VI")
_OLDEST = 100


def load_celeba(root: Path, name: str = "celeba") -> Dataset:
    """Return the images of CelebA (`celeba`) or CelebAMask-HQ (`celebamask_hq`) by its attribute file.

    With `identity_CelebA.txt`, which CelebA has, images of one person are one subject. Attributes: `gender` (from
    `Male`) and `young` as it labels them, and each of the others under its name in lower case with the values `yes` and
    `no`.
    """
    files, identities = find_files(root, _ATTRIBUTES[name]), find_files(root, _IDENTITIES)
    if not files:
        fix = "data.root is the folder of the data set"
        raise Fp2Error(f"{_ATTRIBUTES[name]} was not found", where=str(root), fix=fix)
    person_of = dict(line.split() for line in read_lines(identities[0])) if identities and name == "celeba" else {}
    lines = read_lines(files[0])
    names = lines[1].split() if len(lines) > 1 else []
    people = []
    for number, line in enumerate(lines[2:], start=3):
        image, *marks = line.split()
        if len(marks) != len(names) or not set(marks) <= {"1", "-1"}:
            raise Fp2Error(f"line {number} does not have {len(names)} values of 1 or -1", where=str(files[0]))
        values = {name.lower(): ["yes" if mark == "1" else "no"] for name, mark in zip(names, marks, strict=True)}
        male = values.pop("male", None)
        gender = {"gender": ["Male" if male == ["yes"] else "Female"]} if male else {}
        people.append(Boxed(image, person_of.get(image, image), attributes=gender | values))
    table, notes = boxed_people(people, Pictures(root), files[0])
    return Dataset(name, None, table, notes if person_of else (EACH_ITS_OWN, *notes))


load_celebamask_hq = partial(load_celeba, name="celebamask_hq")


def load_casual_conversations(root: Path) -> Dataset:
    """Return frames of Casual Conversations, version 1 or 2, by its annotation file.

    The data are videos: frames have to be extracted, into a folder per subject that is named by the subject's id, or
    under names that begin with the video's (`0010_00_...jpg`). Attributes: `gender`, `age`, `skin_tone` (Fitzpatrick I
    to VI), and of version 2 `monk_skin_tone` and `location_country`.
    """
    files = find_files(root, "CasualConversations*.json")
    files = [file for file in files if file.stem in ("CasualConversations", "CasualConversationsV2")]
    if not files:
        message = "CasualConversations.json or CasualConversationsV2.json was not found"
        raise Fp2Error(message, where=str(root), fix="data.root is the folder with the annotations and the frames")
    labels = read_json(files[0])
    if not isinstance(labels, dict | list):
        raise Fp2Error("the labels are malformed", where=str(files[0]))
    subjects = dict(_first_version(labels) if isinstance(labels, dict) else _second_version(labels))
    short = {_plain(name): name for name in subjects}
    pictures, people = Pictures(root), []
    left_out: Counter[str] = Counter()
    for path in pictures:
        places = [*reversed(Path(path).parts[:-1]), Path(path).name.split("_")[0]]
        subject = next((short[_plain(place)] for place in places if _plain(place) in short), None)
        if subject is None:
            left_out["[frame|frames] of nobody in the labels"] += 1
        else:
            people.append(Boxed(Path(path).name, subject, attributes=subjects[subject]))
    if not people:
        fix = "Put frames into a folder per subject, named by the subject's id"
        raise Fp2Error("none of the images is a frame of a labelled subject", where=str(files[0]), fix=fix)
    table, notes = boxed_people(people, pictures, files[0])
    release = "1" if isinstance(labels, dict) else "2"
    notes = (*notes, *counted(left_out))
    scales = {"skin_tone": "Fitzpatrick", "monk_skin_tone": "Monk"}
    return Dataset("casual_conversations", release, table, notes, scales=scales)


def _plain(name: str) -> str:
    return name.lstrip("0") or "0" if name.isdecimal() else name


def _first_version(labels: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    for name, entry in labels.items():
        label = entry.get("label", {}) if isinstance(entry, Mapping) else {}
        yield name, _labels(label.get("age"), label.get("gender"), label.get("skin-type"))


def _second_version(labels: list[Any]) -> Iterator[tuple[str, dict[str, list[str]]]]:
    for entry in labels:
        if not isinstance(entry, Mapping) or "subject_id" not in entry:
            continue
        fitzpatrick, monk, place = (
            entry.get(name) or {} for name in ("fitzpatrick_skin_tone", "monk_skin_tone", "geo_location")
        )
        own = _labels(entry.get("age"), entry.get("gender"), fitzpatrick.get("type"))
        digits = re.sub(r"\D", "", str(monk.get("scale", "")))
        own["monk_skin_tone"] = [f"MST {int(digits):02d}"] if digits and 1 <= int(digits) <= 10 else []
        country = str(place.get("country") or "").strip()
        own["location_country"] = [country] if country else []
        yield str(entry["subject_id"]), own


def _labels(age: Any, gender: Any, skin: Any) -> dict[str, list[str]]:
    years = str(age).strip().removesuffix(".0")
    text = str(gender or "").strip()
    tone = (str(skin or "").strip().split() or [""])[-1].upper()  # `3`, `iii` or `type iii`
    if tone.isdecimal() and 1 <= int(tone) <= len(_FITZPATRICK):
        tone = _FITZPATRICK[int(tone) - 1]
    return {
        "gender": [] if text.lower() in ("", "n/a", "prefer not to say") else [text],
        "age": [age_group(int(years))] if years.isdecimal() else [],
        "skin_tone": [tone] if tone in _FITZPATRICK else [],
    }


def load_imdb_wiki(root: Path) -> Dataset:
    """Return IMDB-WIKI's images by `imdb.mat` or `wiki.mat` (the one that is there; both: data of both).

    Attributes: `gender`, `age` (the age group on 1 July of the year of the photograph) and `source`. A person is the
    `celeb_id`, or the number that the file name begins with. Images in which no face was detected, with an age
    below 0 or above 100 years, and with two detections of a face (`n_people` = 2) are counted; the last ones are kept.
    """
    files = [file for name in ("imdb.mat", "wiki.mat") for file in find_files(root, name)]
    if not files:
        raise Fp2Error("imdb.mat or wiki.mat was not found", where=str(root), fix="data.root is its folder")
    people: list[Boxed] = []
    pairs: set[str] = set()
    left_out: Counter[str] = Counter()
    for file in files:
        for person, second in _matlab(file, left_out):
            people.append(person)
            if second:
                pairs.add(person.image)
    table, notes = boxed_people(people, Pictures(root), files[0])
    two = [Path(name).name in pairs for name in table["image_id"]]
    table["n_people"] = [2 if flag else n for flag, n in zip(two, table["n_people"], strict=True)]
    return Dataset("imdb_wiki", None, table, (*notes, *counted(left_out)))


def _matlab(file: Path, left_out: Counter[str]) -> Iterator[tuple[Boxed, bool]]:
    """Yield each usable image, and whether a second face was detected in it."""
    import numpy as np
    from scipy.io import loadmat

    source = file.stem
    try:
        labels = loadmat(str(file), squeeze_me=True, struct_as_record=False)[source]
        columns = {name: np.atleast_1d(getattr(labels, name)) for name in _COLUMNS}
        ids = np.atleast_1d(getattr(labels, "celeb_id", np.full(len(columns["dob"]), np.nan)))
    except Exception as error:  # SciPy raises many kinds
        raise Fp2Error(f"the labels cannot be read: {type(error).__name__}: {error}", where=str(file)) from None
    for index, path in enumerate(columns["full_path"]):
        born, taken, score, second, sex = (
            float(columns[name][index]) for name in ("dob", "photo_taken", "face_score", "second_face_score", "gender")
        )
        if math.isinf(score):
            left_out["[image|images] without a detected face"] += 1
            continue
        age = None
        if math.isfinite(born) and math.isfinite(taken) and born > 367:
            birth = date.fromordinal(int(born) - 366)  # MATLAB's day 1 is 1 January of the year 0
            age = int(taken) - birth.year - (birth.month >= 7)  # on 1 July
        if age is None or not 0 <= age <= _OLDEST:
            left_out["[image|images] with an age below 0, above 100 or unknown"] += 1
            continue
        name = Path(str(path).strip()).name
        identity = ids[index] if index < len(ids) else math.nan
        subject = name.split("_")[0] if identity != identity else str(int(identity))
        gender = [] if math.isnan(sex) else [("Female", "Male")[int(sex)]]
        attributes = {"gender": gender, "age": [age_group(age)], "source": [source]}
        yield Boxed(name, f"{source}/{subject}", attributes=attributes), not math.isnan(second)


_COLUMNS = ("dob", "photo_taken", "full_path", "gender", "face_score", "second_face_score")
