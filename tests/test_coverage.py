"""`docs/coverage.md`: every command of the page runs, and what a row names is there.

The commands run as they stand, in a folder with made-up data in the formats of the real ones, with the settings of
`MORE` added. Where a command names a model whose weights are not here, the simulator or supplied answers stand in.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from bench import REPOSITORY, execute, fp2, results_of
from data.fhibe_copy import SIDE, write_copy, write_fullres
from gras_checkout import write_inference_files, write_lists, write_scripts
from PIL import Image
from test_docs import problem_of

from fp2.app import main

PAGE = REPOSITORY / "docs" / "coverage.md"
STATUSES = ("works", "differs", "left out")
N_ROWS = 150
EVERY_RUN = ("analysis.permutations=99", "analysis.bootstrap=20", "analysis.min_subjects=3", "report.figures=false")
FHIBE = ("data=fhibe", "data.root=PATH")
GIVEN = ("model=recorded", "model.name=theirs")
MORE: Mapping[str, tuple[str, ...]] = {
    "experiment=page": (
        "model=planted", "cut=first_region", "scorer=valence", "seed=1,2", "data.limit=40", "report.figures=false",
    ),
    "variant=masked_box": ("scorer=valence", "tracking=none", "data.limit=20"),
    "published=SETS": (*FHIBE, "scorer=stereotype", "analysis.primary=stereotype", "tracking=none", "data.limit=20"),
    "experiment=attention": (*GIVEN, "engine.answers=two.csv", *FHIBE, "tracking=none"),
    "experiment=gras_published": ("tracking=none", "task.options.permutations=20", "task.options.bootstrap=20"),
    "experiment=gras": (
        "model=planted", *FHIBE, "tracking=none", "probe.options.permutations=20", "probe.options.bootstrap=20",
        "probe.traits={kind: 2.6, cruel: -2.9}",
    ),
    "task=diversity": ("tracking=none", "task.options.sample=20", "task.options.repeats=2", "data.limit=12"),
    "task=annotator_agreement": ("tracking=none", "cut=pronoun"),
    "task=fhibe_narrow": ("tracking=none", "cut=pronoun"),
    "task=fhibe_scores": (
        "tracking=none", "task.options.depth=1", "cut=pronoun", "task.options.pixels=false", "data.limit=20",
        "task.options.features=[visible_keypoints,bald,age]",
        "task.options.error_model={trees: 5, folds: 2, repeats: 1, resamples: 20}",
        "task.options.patterns={permutations: 20}",
    ),
    "experiment=fhibe_clip": (*GIVEN, "engine.answers=zero_shot.csv", "tracking=none", "data.limit=12"),
    "experiment=fhibe_vqa": (*GIVEN, "engine.answers=open.csv", "tracking=none", "cut=pronoun", "data.limit=12"),
    "cut=region,pronoun": ("model=planted", *FHIBE, "scorer=valence", "tracking=none", "report=none", "data.limit=20"),
    "probe=fingerprint": ("model=planted", *FHIBE, "data.limit=40"),
}  # fmt: skip
"""Settings by a word of the command: less data, fewer resamples, and answers in place of weights."""
ONLY_CHECKED = ("experiment=gras_paper", "task.options.models=", "fp2 ui")
"""Commands that need weights or do not end: their settings are composed, their options looked up."""


EXPECTED = {"fp2 pin experiment=page": 1}
"""Exit statuses other than 0: no model lies in the cache of a machine that runs the tests."""


@dataclass
class Project:
    """A folder in which the commands have run."""

    root: Path
    statuses: dict[str, int] = field(default_factory=dict)

    def folders(self) -> list[Path]:
        """Return the folders of all runs and reports, oldest first."""
        found = (self.root / "outputs").rglob("results.json")
        return [path.parent for path in sorted(found, key=lambda path: path.stat().st_mtime_ns)]

    def run(self, command: str) -> None:
        """Run a command of the page and keep its exit status."""
        program, *words = shlex.split(command)
        if program == "launch.py":
            words = [word for word in words if word not in ("model=NAME", "data=NAME")]
            words = ["model=planted"] * ("model=NAME" in command) + words
            more = next(more for word, more in MORE.items() if word in command)
            own = [word for word in words if word.partition("=")[0] not in {one.partition("=")[0] for one in more}]
            if "experiment=page" in command or "-m" in words:  # a sweep, with its report
                self.statuses[command] = main([*own, *more, *EVERY_RUN])
                return
            folder = self.root / "outputs" / str(len(self.statuses))
            outcome = execute([*own, *more, *EVERY_RUN, "report.dashboard=false"], folder)
            self.statuses[command] = int(not outcome.results["complete"])
            return
        self.statuses[command] = fp2(*(self.known(word) for word in words), *["--yes"] * (words[0] == "purge"))

    def known(self, word: str) -> str:
        """Return what stands for a placeholder of the page."""
        if word == "model=NAME":
            return "model=planted"
        if word not in ("SWEEP", "SWEEP_ID", "RUN", "OTHER_RUN", "CONFIG_HASH", "passport.json", "PUBLIC_KEY.pem"):
            return word
        if word == "PUBLIC_KEY.pem":
            (key,) = (self.root / ".fp2" / "keys").glob("*.pub.pem")
            return str(key)
        sweep = next(folder.parent for folder in self.folders() if folder.name == "report")
        if word == "SWEEP":
            return str(sweep)
        if word == "SWEEP_ID":
            return str(results_of(sweep / "report")["sweep_id"])
        if word == "CONFIG_HASH":
            return str(results_of(self.folders()[-1])["config_hash"])
        return str(sweep / {"RUN": "0", "OTHER_RUN": "1"}.get(word, f"0/{word}"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, empty_mlflow: Path) -> Project:
    """A project in which every command of the page has run, in the order of the page."""

    made = Project(tmp_path_factory.mktemp("coverage"))
    write_data(made.root)
    (made.root / "mlruns").mkdir()
    shutil.copyfile(empty_mlflow, made.root / "mlruns" / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.root)
        patch.setenv("FP2_ROOT", str(made.root))
        for command in page_commands():
            if not any(word in command for word in ONLY_CHECKED) or command.startswith("fp2 plan"):
                made.run(command)
    return made


def page_commands() -> list[str]:
    """Return the commands of the page's block, continued lines joined, without comments."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    lines = [re.split(r"\s+#|^#", line)[0].strip() for line in block.replace("\\\n", " ").splitlines()]
    return [re.sub(r"\s+", " ", line) for line in lines if line]


def write_data(root: Path) -> None:
    """Write what the commands read: two releases of FHIBE, GRAS's files, and predictions, labels and answers."""
    copy = write_copy(root / "PATH", n_subjects=20, n_pairs=6)
    for row, n in _with_counts(copy.rows):
        if n == 2:
            row["person_bbox"] = "[1, 3, 9, 20]" if row["is_primary"] == "True" else "[13, 3, 10, 18]"
    copy.save()
    write_copy(root / "NEW_PATH", n_subjects=4, n_pairs=1)
    write_fullres(root / "FULL_PATH", n_subjects=4, n_pairs=1)
    write_gras(root / "CHECKOUT")
    (root / "SETS").mkdir()
    (root / "SETS" / "pro_stereotyped_type1.txt.dev").write_text("1 [The beekeeper] slept.\n")
    singles = [row for row, n in _with_counts(copy.rows) if n == 1]
    write_answers(root, singles, [row for row, n in _with_counts(copy.rows) if n == 2])
    write_predictions(root, copy.root, singles, copy.faces)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({key: [row[key] for row in copy.rows] for key in ("image_id", "subject_id")})
    table.assign(recall=rng.random(len(table)).round(3)).to_csv(root / "scores.csv", index=False)
    labels = [table.assign(annotator=name, hairstyle=name) for name in ("Short", "Long")]
    pd.concat(labels).to_csv(root / "labels.csv", index=False)
    images = np.array(sorted({row["image_id"] for row in copy.rows}))
    for name in "abc":
        np.savez(root / f"{name}.npz", image_id=images, embedding=rng.normal(size=(len(images), 4)))


def _with_counts(rows: list[dict[str, str]]) -> list[tuple[dict[str, str], int]]:
    """Return each row with the number of people in its image."""
    counts = Counter(row["image_id"] for row in rows)
    return [(row, counts[row["image_id"]]) for row in rows]


def write_gras(root: Path) -> None:
    """Write a checkout of GRAS's repository, with the inference files of one model."""
    faces, skins = write_lists(root)
    write_scripts(root)
    rng = np.random.default_rng(0)
    tables = {
        f"{trait}_{name}": pd.DataFrame({"img": paths, **{f"T{k}": rng.random(len(paths)) for k in range(1, 6)}})
        for trait in ("kind", "calm", "cruel", "lazy")
        for name, paths in (("fairface", faces), ("aiface", skins))
    }
    write_inference_files(root, "MODEL", tables)


def write_answers(root: Path, singles: list[dict[str, str]], pairs: list[dict[str, str]]) -> None:
    """Write answers to open questions, zero-shot labels, and descriptions of two people."""
    probes = {name: yaml.safe_load((REPOSITORY / f"conf/probe/{name}.yaml").read_text("utf-8"))["probes"]
              for name in ("fhibe_vqa", "fhibe_clip")}  # fmt: skip
    rng = np.random.default_rng(0)
    images = sorted({row["image_id"] for row in singles})
    said = {
        "positive": ["She is likeable because she is a woman.", "He is likeable because he is kind."],
        "neutral": ["She is a teacher.", "He is a doctor."],
        "negative": ["He was convicted of theft.", "Nothing."],
    }
    open_answers = [
        {"image": image, "question": question["id"], "text": rng.choice(said[name])}
        for image, (name, probe) in product(images, probes["fhibe_vqa"].items())
        for question in probe["questions"]
    ]
    labels = [
        {"image": image, "question": name, "variant": kind, "numbers": json.dumps({"p": [*rng.dirichlet([1] * n)]})}
        for image, kind in product(images, ("original", "masked", "blurred", "background_removed"))
        for name, probe in probes["fhibe_clip"].items()
        for n in [sum(map(len, probe["questions"][0]["choices"].values()))]
    ]
    said_of_two = "The person on the left wears a red coat. The person on the right smiles and waves."
    two = [
        {"image": image, "question": "attention", "variant": kind, "text": said_of_two}
        for image, kind in product(sorted({row["image_id"] for row in pairs}), ("original", "mirrored"))
    ]
    for name, rows in (("open", open_answers), ("zero_shot", labels), ("two", two)):
        pd.DataFrame(rows).to_csv(root / f"{name}.csv", index=False)


def write_predictions(root: Path, release: Path, singles: list[dict[str, str]], faces: list[dict[str, str]]) -> None:
    """Write predictions of every narrow task, and a second annotation of the boxes."""
    rng = np.random.default_rng(0)
    box = [{"image_id": row["image_id"], "bbox": ast.literal_eval(row["person_bbox"])} for row in singles]
    shifted = [{**one, "bbox": [one["bbox"][0] + 1, *one["bbox"][1:]]} for one in box]
    whole = {"size": [SIDE, SIDE], "counts": [0, SIDE * SIDE]}
    Image.fromarray(np.ones((SIDE, SIDE), np.uint8)).save(root / "map.png")
    for face in faces:
        folder = release / "data/processed/fhibe_face_crop_align/masks/CelebAMask-HQ_format" / face["image_id"]
        folder.mkdir(parents=True)
        Image.fromarray(np.ones((SIDE, SIDE), np.uint8)).save(folder / "combined.png")
    crops = [{"image_id": face["image_id"]} for face in faces]
    files: dict[str, list[dict[str, Any]]] = {
        "a": box,
        "b": shifted,
        "boxes": [{**one, "annotator": "second"} for one in shifted],
        "faces": [{"image_id": row["image_id"], "bbox": ast.literal_eval(row["face_bbox"])} for row in singles],
        "masks": [{"image_id": row["image_id"], "segmentation": whole} for row in singles],
        "poses": [{"image_id": row["image_id"], "keypoints": rng.uniform(0, SIDE, 34).tolist()} for row in singles],
        "maps": [{**one, "parsing": "map.png"} for one in crops],
        "embeddings": [{**one, "embedding": rng.normal(size=4).tolist()} for one in crops],
        "rebuilt": [{**one, "lpips": 0.2, "identity": 0.7, "psnr": 20.0} for one in crops],
        "enlarged": [{**one, "lpips": 0.1, "psnr": 25.0} for one in crops],
    }
    for name, entries in files.items():
        (root / f"{name}.json").write_text(json.dumps(entries))


def rows() -> list[list[str]]:
    """Return the cells of the page's rows: number, what the document says, how to get it, status, remark."""
    found = re.findall(r"^\| \d+ \|.*$", PAGE.read_text(encoding="utf-8"), re.M)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found]


def test_every_capability_has_a_row_and_the_totals_are_right() -> None:
    assert [int(row[0]) for row in rows()] == list(range(1, N_ROWS + 1))
    assert [row[0] for row in rows() if len(row) != 5 or row[3] not in STATUSES] == []
    assert [
        row[0] for row in rows() if row[3] != STATUSES[0] and not row[4]
    ] == []  # what differs, or why it is left out
    assert [row[0] for row in rows() if row[3] != STATUSES[2] and "`" not in row[2]] == []
    text = PAGE.read_text(encoding="utf-8")
    parts = [Counter(re.findall(r"^\| \d+ \|.*\| ([a-z ]+) \|[^|]*\|$", part, re.M)) for part in text.split("\n## ")]
    counts = [part for part in parts if part]
    counts.append(sum(counts, Counter()))
    stated = re.findall(r"^\| [\w² ]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.M)
    assert [[part.total(), *(part[name] for name in STATUSES)] for part in counts] == [
        [*map(int, row)] for row in stated
    ]


def test_every_command_runs(project: Project) -> None:
    wrong = {command: status for command, status in project.statuses.items() if status != EXPECTED.get(command, 0)}
    assert wrong == {}
    assert [command for command in page_commands() if command not in project.statuses and problem_of(command)] == []
    assert len(set(page_commands()) - set(project.statuses)) == len(ONLY_CHECKED)


def test_every_name_is_there(project: Project) -> None:
    results = [results_of(folder) for folder in project.folders()]
    files = {path.name for path in project.root.rglob("*") if path.is_file()}
    spans = {(row[0], span) for row in rows() for span in re.findall(r"`([^`]+)`", row[2])}
    missing = [(number, span) for number, span in sorted(spans) if not _is_there(span, results, files)]
    assert missing == []
    assert not _is_there("results.json:composites.nothing", results, files)
    assert not _is_there("task.options.nothing", results, files)


def _is_there(span: str, results: list[Any], files: set[str]) -> bool:
    """Return whether a key of results, a command, a choice, a setting or a file exists."""
    if span.startswith("results.json:"):
        keys = span.partition(":")[2].split(".")
        return any(_has(found, keys) for found in results)
    if span.startswith("fp2 "):
        return any(f"{command} ".startswith(f"{span} ") for command in page_commands())
    group, _, choice = span.partition("=")
    if choice:
        return (REPOSITORY / "conf" / group / f"{choice}.yaml").exists()
    if span in files or (REPOSITORY / span).is_file():
        return True
    group, *keys = span.split(".")
    texts = [path.read_text(encoding="utf-8") for path in (REPOSITORY / "conf" / group).glob("*.yaml")]
    return bool(keys) and any(_has(yaml.safe_load(text), keys) for text in texts)


def _has(value: Any, keys: list[str]) -> bool:
    """Return whether nested tables, or any entry of lists of them, have these keys; CUT is the name of any cut."""
    if not keys:
        return True
    if isinstance(value, list):
        return any(_has(entry, keys) for entry in value)
    if isinstance(value, dict) and keys[0] == "CUT":
        return any(_has(entry, keys[1:]) for entry in value.values())
    return isinstance(value, dict) and keys[0] in value and _has(value[keys[0]], keys[1:])
