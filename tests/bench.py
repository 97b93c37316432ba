"""A small data set of coloured squares with people's attributes, and ways to run the program on it. No test in here."""

from __future__ import annotations

import base64
import csv
import itertools
import json
import os
import shutil
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from fp2.compose import load_config as load_config

if TYPE_CHECKING:
    import pandas as pd

REPOSITORY = Path(__file__).resolve().parents[1]
GROUPS = {"gender": ("f", "m"), "region": ("North", "South", "West")}
QUICK = (
    "model=planted",
    "data=table",
    "data.columns={image: file, subject: person, gender: gender, region: region}",
    "cut.by=[gender]",
    "scorer=valence",
    "analysis.permutations=199",
    "analysis.bootstrap=50",
    "report=none",
    "tracking=none",
)

QUICK_DATA = tuple(word for word in QUICK if word.startswith("data"))


PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def package_marks(command: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a test of `fp2 COMMAND`: the method package that adds it, if it is not of the core."""
    entries = PROJECT["entry-points"]["fp2.commands"]
    words = command.split()
    added = [entries[name] for name in (words[0], "_".join(words[:2])) if name in entries]
    return [pytest.mark.package(name=path.split(".")[2]) for path in added]


@dataclass(frozen=True)
class Bench:
    """A folder of its own for one test: state, outputs and MLflow store lie in `root`, the images in `pictures`."""

    root: Path
    pictures: Path

    @property
    def paths(self) -> list[str]:
        """Overrides that keep everything inside `root`."""
        return [f"paths.root={self.root}", f"paths.state={self.root / 'state'}"]

    @property
    def places(self) -> list[str]:
        """Overrides that keep everything inside `root`, and name the table of the images."""
        return [*self.paths, f"data.path={self.table}"]

    @property
    def outputs(self) -> Path:
        """The folder of the runs' folders."""
        return self.root / "outputs"

    @property
    def table(self) -> Path:
        """The table of the images."""
        return self.pictures / "people.csv"

    @property
    def store(self) -> Path:
        """The response store."""
        return self.root / "state" / "responses.sqlite"

    def with_people(self, people: pd.DataFrame) -> Bench:
        """Return the project on a copy of the images, with another table."""
        copy = shutil.copytree(self.pictures, self.root / "pictures", dirs_exist_ok=True)
        people.to_csv(copy / "people.csv", index=False)
        return replace(self, pictures=copy)

    def copied_to(self, root: Path) -> Bench:
        """Return a project in `root` with what this one has: to go on from it and leave it as it is."""
        from fp2.runs.folders import relocate_folders

        shutil.copytree(self.root, root, dirs_exist_ok=True)
        copy = replace(self, root=root)
        relocate_folders(root / "state", copy.outputs)  # a purge of the copy has to reach the copy
        return copy

    def words(self, *overrides: str) -> list[str]:
        """Return the overrides of a quick run; `overrides` come last and win. `data=peeps` needs no table."""
        if "data=peeps" in overrides:
            return [*(word for word in merge(QUICK, overrides) if word not in QUICK_DATA), *self.paths]
        return [*merge(QUICK, overrides), *self.places]

    def config(self, *overrides: str) -> Any:
        """Return the checked config of a quick run."""
        return load_config(self.words(*overrides))

    def run(self, *overrides: str, folder: str | None = None) -> Any:
        """Run in this process, past the command line; return the outcome."""
        return execute(self.words(*overrides), self.outputs / (folder or uuid.uuid4().hex))

    def launch(self, *overrides: str) -> int:
        """Run in this process as the command line does; return the exit status."""
        from fp2.app import main

        return main(self.words(*overrides))

    def run_folders(self) -> list[Path]:
        """Return the folders of the finished runs, oldest first."""
        found = sorted(self.outputs.rglob("results.json"), key=lambda path: path.stat().st_mtime_ns)
        return [path.parent for path in found]

    def process(self, *overrides: str, script: Path | None = None) -> subprocess.Popen[str]:
        """Start the command line (or `script` in its place) in a process of its own."""
        return subprocess.Popen(
            [sys.executable, str(script or REPOSITORY / "launch.py"), *self.words(*overrides)],
            env=environment(self.root),
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def execute(words: Sequence[str], folder: Path) -> Any:
    """Run `words` in this process, past the command line, into `folder`; return the outcome."""
    from fp2.progress import Progress
    from fp2.run import run

    return run(load_config(words), folder, list(words), Progress(quiet=True))


def results_of(folder: Path) -> dict[str, Any]:
    """Return the results of a run's folder."""
    return dict(json.loads((folder / "results.json").read_text(encoding="utf-8")))


def notes_of(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the parameters of a run's notes by their codes."""
    notes: dict[str, list[dict[str, Any]]] = {}
    for note in results["notes"]:
        notes.setdefault(note["code"], []).append(note["parameters"])
    return notes


def check_counts(results: dict[str, Any]) -> None:
    """Assert that the answers of a run add up, in all and by group."""
    for counts in (results["answers"], *results["answers_by_group"]):
        absent = counts.get("not_asked", 0) + counts.get("not_supplied", 0)
        assert counts["planned"] == counts["answered"] + counts["failed"] + absent
        assert counts["refused"] <= counts["answered"]
    assert results["answers"]["cached"] <= results["answers"]["answered"]


def question_texts() -> dict[str, str]:
    """Return the first question of each probe of the default battery, quoted for YAML."""

    probes = load_config(["model=planted"]).probe.probes
    return {name: body["questions"][0]["text"].replace("'", "''") for name, body in probes.items()}


@contextmanager
def interrupted(n_batches: int) -> Iterator[None]:
    """Let whoever asks the simulator be interrupted after some batches of answers."""
    from fp2.methods.peeps.planted.engine import PlantedEngine

    whole = PlantedEngine.answer

    def answer(self: Any, tasks: Any) -> Iterator[Any]:
        yield from itertools.islice(whole(self, tasks), n_batches)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlantedEngine, "answer", answer)
        yield


def files_in(folder: Path) -> set[str]:
    """Return the names of all files below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def every_byte(root: Path) -> bytes:
    """Return what all files below `root` hold; Parquet is compressed, so it is read as text too."""
    import pandas as pd

    parts = []
    for path in sorted(root.rglob("*")):
        if path.is_file():
            parts.append(path.read_bytes())
            if path.suffix == ".parquet":
                frame = pd.read_parquet(path)
                parts += [frame.to_csv().encode(), str(frame.attrs).encode()]
    return b"\n".join(parts)


def rest_of(root: Path) -> bytes:
    """Return every byte but the list of who was withdrawn, which has salted keys."""
    return every_byte(root).replace((root / "state" / "withdrawn.jsonl").read_bytes(), b"")


def predicate_of(folder: Path) -> dict[str, Any]:
    """Return the predicate of a run's passport."""
    envelope = json.loads((folder / "passport.json").read_text(encoding="utf-8"))
    return dict(json.loads(base64.b64decode(envelope["payload"]))["predicate"])


def fp2(*words: str) -> int:
    """Run the `fp2` command in this process; return its exit status."""
    from fp2.cli import main

    before, sys.argv = sys.argv, ["fp2", *words]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.argv = before
    return 0


def merge(defaults: tuple[str, ...], overrides: tuple[str, ...]) -> list[str]:
    """Return `defaults` without the keys that `overrides` set, then `overrides`."""
    keys = {word.partition("=")[0] for word in overrides}
    if keys & {"cut", "cut.each"}:
        keys.add("cut.by")
    return [*(word for word in defaults if word.partition("=")[0] not in keys), *overrides]


def environment(root: Path) -> dict[str, str]:
    """Return the environment of a child process: this repository importable, everything else in `root`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("FP2_", "MLFLOW_"))}
    return {**kept, "FP2_ROOT": str(root), "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def write_pictures(folder: Path, n_subjects: int = 36, per_subject: int = 2) -> Path:
    """Write squares of one colour each and `people.csv` beside them; every subject has a gender and a region."""
    rng = np.random.default_rng(5)
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for i in range(n_subjects):
        person = str(uuid.UUID(int=i + (1 << 120)))
        for k in range(per_subject):
            name = f"{uuid.UUID(int=1000 * i + k + (1 << 121))}.png"
            pixels = np.broadcast_to(rng.integers(0, 256, 3, dtype=np.uint8), (8, 8, 3))
            Image.fromarray(np.ascontiguousarray(pixels)).save(folder / name)
            rows.append((name, person, GROUPS["gender"][i % 2], GROUPS["region"][i % 3]))
    with (folder / "people.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([("file", "person", "gender", "region"), *rows])
    return folder


def run_child(root: str, pictures: str, overrides: list[str], results: Any) -> None:
    """Run in a child process and put its exit status into the queue `results`."""
    os.environ["FP2_ROOT"] = root
    try:
        results.put((Bench(Path(root), Path(pictures)).launch(*overrides), ""))
    except BaseException as error:
        results.put((99, f"{type(error).__name__}: {error}"))
