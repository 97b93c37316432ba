"""Write the fixture of the version that is checked out: small runs on drawn people, their store, and one of everything.

`python tests/releases/write.py` makes `tests/releases/VERSION/`. It is run once per released version, at its last
commit, and what it wrote is never changed: `tests/test_releases.py` holds later code to it.

| there | holds |
|---|---|
| `runs/NAME/` | the output folder of each run of `RUNS`, without its page and figures |
| `responses.sqlite.xz`, `salt`, `passport_key.pub.pem` | what they have in common |
| `inputs/` | files that runs were given |
| `rescored/NAME.json.xz`, `purged/NAME.json.xz` | results of `fp2 rescore` and of `fp2 purge` of two people |
| `names.json` | commands, config groups with their keys, and config hashes |
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "engines"), str(HERE.parents[1])]
ROOT = Path("/srv/fp2-example")  # paths are remembered in the store: a folder of nobody's
QUICK = ("analysis.permutations=499", "analysis.bootstrap=99")
SMALL = ("data.n_subjects=60", "data.images_per_subject=1", "data.n_pairs=0", *QUICK)
PLAIN = ("report=none",)
WORDS = "probe.traits={kind: 2.6, calm: 1.7, intelligent: 2.5, cruel: -2.9, lazy: -1.9, hostile: -2.3}"
RUNS: dict[str, tuple[str, ...]] = {
    "default": SMALL,
    "attention": ("experiment=attention", "data.n_subjects=60", "data.n_pairs=40", *QUICK, *PLAIN),
    "twins": ("data=peeps_twins", "data.n_sets=12", "cut=all", *QUICK, *PLAIN),
    "simulated": ("experiment=simulated", *SMALL, *PLAIN),
    "simulated_gras": ("experiment=gras", "model=planted", "data.n_subjects=60", WORDS, *QUICK, *PLAIN),
    "gras": ("experiment=gras", "data.n_subjects=60", WORDS, *QUICK, *PLAIN),
    "fhibe_scores": (
        "experiment=fhibe_scores_demo", "data.n_subjects=60", "data.n_pairs=0", "task.options.error_model.trees=10",
        "task.options.error_model.resamples=99", "task.options.patterns.permutations=99", *QUICK, *PLAIN,
    ),
    "fhibe_narrow": (
        "task=fhibe_narrow", "task.files.person_detection={inputs}/boxes.json", "cut=all", "data.n_subjects=60",
        "data.n_pairs=6", *QUICK, *PLAIN,
    ),
    "fhibe_clip": (
        "probe=fhibe_clip", "model=clip_vit_large_patch14", "model.id={inputs}/clip", "model.name=tiny_clip",
        "model.revision=null", *SMALL, *PLAIN,
    ),
    "fhibe_vqa": ("experiment=fhibe_vqa", *SMALL, *PLAIN),
    "diversity": (
        "task=diversity", "task.files.embeddings={inputs}/embeddings.npz", "data.n_subjects=60", "data.n_pairs=6",
        *QUICK, *PLAIN,
    ),
}  # fmt: skip
"""The smallest run of each kind that still compares groups of ten people."""
RESCORED = {
    "default": ("scorer=economic", "cut=pronoun_x_age", "analysis.primary=economic"),
    "twins": ("scorer=valence", "cut=skin_tone"),
}
PURGED = 2  # people, the first ones
EXPERIMENTS = ("fhibe_clip", "gras_fhibe", "gras_paper", "page")
"""Those that want a folder of the user's."""


def main() -> None:
    """Write the fixture."""
    from fp2 import __version__

    folder = HERE / __version__
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(ROOT, ignore_errors=True)
    os.environ["FP2_ROOT"] = str(ROOT)
    (ROOT / "inputs").mkdir(parents=True)
    write_inputs(ROOT / "inputs")
    for name, words in RUNS.items():
        print(name, flush=True)
        run(name, *words)
    keep(folder)
    for name, words in RESCORED.items():
        keep_json(folder / "rescored" / f"{name}.json.xz", rescore(name, words))
    for name, results in purge().items():
        keep_json(folder / "purged" / f"{name}.json.xz", results)
    keep_json(folder / "names.json", names())


def run(name: str, *words: str) -> None:
    """Run one evaluation into `ROOT/outputs/NAME`."""
    places = [f"paths.root={ROOT}", "tracking=none"]
    given = [word.replace("{inputs}", str(ROOT / "inputs")) for word in words]
    execute([*given, *places], ROOT / "outputs" / name)


def execute(words: list[str], folder: Path) -> Any:
    """Run in this process; return the outcome."""
    from fp2.compose import load_config
    from fp2.progress import Progress
    from fp2.run import run as run_pipeline

    return run_pipeline(load_config(words), folder, words, Progress(quiet=True))


def write_inputs(folder: Path) -> None:
    """Write predicted person boxes, embeddings of pictures and a tiny CLIP with random weights."""
    import numpy as np
    from family_checkpoints.duals import save_clip

    people = drawn("data.n_subjects=60", "data.n_pairs=6")
    rng = np.random.default_rng(11)
    said = []
    for row in people.to_dict("records"):
        if rng.random() < 0.9:
            moved = [row[f"box_{side}"] + rng.normal(0, 12) for side in "xywh"]
            said.append({"image_id": row["image_id"], "bbox": [round(v, 2) for v in moved], "score": 0.9})
    (folder / "boxes.json").write_text(json.dumps({"task": "person_detection", "predictions": said}))
    images = sorted(set(people["image_id"]))
    vectors = rng.normal(size=(len(images), 8)).astype("float32")
    np.savez(folder / "embeddings.npz", image_id=np.array(images), embedding=vectors)
    save_clip(folder / "clip")


def drawn(*words: str) -> Any:
    """Return the people of a drawn data set."""
    from fp2.compose import load_config
    from fp2.data.base import load_configured
    from fp2.progress import Progress

    return load_configured(load_config([f"paths.root={ROOT}", *words]), Progress(quiet=True)).people


def keep(folder: Path) -> None:
    """Copy what the runs wrote; the store as one file."""
    for name in RUNS:
        drawn_files = shutil.ignore_patterns("status.json", "figures", "dashboard.html")
        shutil.copytree(ROOT / "outputs" / name, folder / "runs" / name, ignore=drawn_files)
    shutil.copytree(ROOT / "inputs", folder / "inputs")
    shutil.copyfile(ROOT / ".fp2" / "salt", folder / "salt")
    shutil.copyfile(ROOT / ".fp2" / "keys" / "passport_key.pub.pem", folder / "passport_key.pub.pem")
    with sqlite3.connect(ROOT / ".fp2" / "responses.sqlite") as connection:
        connection.execute("DELETE FROM file_digests")  # of this machine's own folders
        connection.commit()
        connection.execute("VACUUM INTO ?", (str(ROOT / "responses.sqlite"),))
    (folder / "responses.sqlite.xz").write_bytes(lzma.compress((ROOT / "responses.sqlite").read_bytes()))


def keep_json(path: Path, value: Any) -> None:
    """Write JSON with a line per entry, compressed where the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())


def rescore(name: str, words: tuple[str, ...]) -> Any:
    """Return the results of a rescoring."""
    from bench import fp2

    before = set((ROOT / "outputs").rglob("results.json"))
    source = str(ROOT / "outputs" / name)
    if fp2("rescore", source, *words, f"paths.root={ROOT}", "tracking=none", "report=none"):
        raise SystemExit(f"{name} could not be scored again")
    (made,) = set((ROOT / "outputs").rglob("results.json")) - before
    results = json.loads(made.read_text(encoding="utf-8"))
    shutil.rmtree(made.parent)
    return results


def purge() -> dict[str, Any]:
    """Return the results of every run after the first people were removed."""
    from bench import fp2

    subjects = sorted(set(drawn(*SMALL)["subject_id"]))[:PURGED]
    named = [word for subject in subjects for word in ("--subject", subject)]
    if fp2("purge", *named, "--yes", f"paths.root={ROOT}"):
        raise SystemExit("the people could not be removed")
    paths = {name: ROOT / "outputs" / name / "results.json" for name in RUNS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items()}


def names() -> dict[str, Any]:
    """Return what users type, and every config's hash."""
    typed = interface()
    return {**typed, "hashes": {" ".join(words): hash_of(list(words)) for words in every_choice(typed["groups"])}}


def interface() -> dict[str, Any]:
    """Return what users type: commands and their options, config groups, choices and keys."""
    import typer
    from omegaconf import OmegaConf

    from fp2.cli import app
    from fp2.compose import compose_config, hydra_overrides
    from fp2.config import choices, conf_folders

    command = typer.main.get_command(app)
    groups: dict[str, dict[str, list[str]]] = {}
    for group in sorted({path.parent.name for folder in conf_folders().values() for path in folder.glob("*/*.yaml")}):
        files = choices(group)
        groups[group] = {
            name: sorted(leaves(OmegaConf.to_container(OmegaConf.load(path)))) for name, path in files.items()
        }
    default = OmegaConf.to_container(compose_config(hydra_overrides([])))
    return {
        "commands": options_of(command),
        "groups": groups,
        "keys": sorted(leaves(default)),
    }


def options_of(command: Any) -> Any:
    """Return a command's parameters, or those of its sub-commands by name."""
    if hasattr(command, "commands"):
        return {name: options_of(sub) for name, sub in sorted(command.commands.items())}
    return sorted(word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts))


def leaves(node: Any, prefix: str = "") -> list[str]:
    """Return the dotted keys of a nested mapping."""
    if not isinstance(node, dict) or not node:
        return [prefix]
    return [leaf for key, value in node.items() for leaf in leaves(value, f"{prefix}.{key}" if prefix else str(key))]


def every_choice(groups: dict[str, dict[str, list[str]]]) -> list[tuple[str, ...]]:
    """Return one set of overrides for each choice of each group that decides a result."""
    rooted = ("data.root=/data",)
    needs = {
        "data": {
            "fhibe": rooted,
            "fhibe_faces": rooted,
            "gras": rooted,
            "fairface": rooted,
            "utkface": rooted,
            "folder": rooted,
            "hf": (*rooted, "data.columns={image: image}"),
            "table": ("data.path=/data/p.csv", "data.columns={image: file}"),
            "counterfactual": ("data.path=/data/p.csv", "data.columns={image: file, set_id: s}"),
        },
        "experiment": {name: rooted for name in EXPERIMENTS},
    }
    out: list[tuple[str, ...]] = [()]
    for group in ("analysis", "cut", "data", "experiment", "model", "probe", "scorer", "task", "variant"):
        for name in groups[group]:
            more = needs.get(group, {}).get(name, ())
            if group == "scorer" and name != "default":
                more = (f"analysis.primary={name}",)
            out.append((f"{group}={name}", *more))
    return out


def hash_of(words: list[str]) -> str:
    """Return the config hash, or the error that the choice ends in by itself."""
    from fp2.compose import config_hash, load_config
    from fp2.errors import Fp2Error

    try:
        return config_hash(load_config(words))
    except Fp2Error as error:
        return f"error: {error}"


if __name__ == "__main__":
    main()
