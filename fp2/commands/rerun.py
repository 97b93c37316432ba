"""`fp2 rerun`: a logged evaluation run again from its config, and the numbers compared row by row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fp2 import artifacts
from fp2.compose import load_config, project_root
from fp2.config import Config, config_hash, from_plain
from fp2.errors import Fp2Error

NUMBERS = ("raw", "null_mean", "p_value", "adjusted_p", "ci_low", "ci_high", "shrunken")
# Numbers come from the same seeds; only the order of floating-point sums may differ between machines.
TOLERANCE = 1e-9
EXIT_DIFFERENT = 1


def rerun(run_id: str, overrides: Sequence[str]) -> int:
    """Run `run_id` (an MLflow run, or a folder with its files) again; return 0 if every number is the same.

    `overrides` may change where things are (`paths.*`, `engine.*`, `data.root=`), not what is asked.
    """
    here = load_config([o for o in overrides if o.startswith(("paths.", "tracking."))])
    source, tags = _source(run_id, here)
    before = json.loads((source / artifacts.RESULTS).read_text(encoding="utf-8"))
    config = _logged_config(source, here, overrides)
    console = Console()
    drift = _hash_lines(source, config, before, overrides)
    if config_hash(config) != before["config_hash"]:
        raise Fp2Error("the logged config gives another config hash than its results carry", where=str(source))
    for line in drift:
        console.print(line, style="yellow", highlight=False)
    outcome = _run(config, overrides)
    same = _compare(before, outcome.results, console)
    print(f"rerun      {outcome.run_id}\nresults    {outcome.folder / artifacts.RESULTS}")
    return 0 if same and outcome.exit_status == 0 else outcome.exit_status or EXIT_DIFFERENT


def _source(run_id: str, config: Config) -> tuple[Path, dict[str, str]]:
    """Return the folder of the run's files, downloaded if `run_id` is not a folder."""
    if (Path(run_id) / artifacts.RESULTS).is_file():
        return Path(run_id), {}
    from fp2.tracking import download

    return download(config, run_id, (artifacts.CONFIG, artifacts.OVERRIDES, artifacts.RESULTS))


def _logged_config(source: Path, here: Config, overrides: Sequence[str]) -> Config:
    """Return the logged config with this machine's folders, and the places that `overrides` name."""
    from omegaconf import OmegaConf

    logged = OmegaConf.load(source / artifacts.CONFIG)
    local = OmegaConf.create({"paths": asdict(here.paths), "tracking": {"uri": here.tracking.uri, "sweep_id": None}})
    merged = OmegaConf.merge(logged, local, OmegaConf.from_dotlist(list(overrides)))
    return from_plain(OmegaConf.to_container(merged, resolve=True))


def _hash_lines(source: Path, config: Config, before: Mapping[str, Any], overrides: Sequence[str]) -> list[str]:
    """Recompose the logged overrides with today's YAML files; say where that is another config than the logged one."""
    from omegaconf import OmegaConf

    logged = [str(item) for item in OmegaConf.to_container(OmegaConf.load(source / artifacts.OVERRIDES))]  # type: ignore[union-attr]
    try:
        composed = config_hash(load_config(logged))
    except Fp2Error as error:
        return [f"drift: the logged overrides no longer compose ({error}); running the logged config"]
    if composed == before["config_hash"]:
        return []
    return ["drift: the YAML files have changed since this run was logged; running the logged config"]


def _run(config: Config, overrides: Sequence[str]) -> Any:
    from datetime import datetime

    from fp2.progress import Progress
    from fp2.run import run

    folder = project_root() / "outputs" / "rerun" / datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
    return run(config, folder, list(overrides), Progress())


def _compare(before: Mapping[str, Any], after: Mapping[str, Any], console: Console) -> bool:
    """Print one line per disparity row, and the three digests; return whether all agree."""
    table = Table(title="rerun against the logged run")
    for name in ("probe", "scorer", "cut", "logged", "rerun", "same"):
        table.add_column(name)
    rows = {(r["probe"], r["scorer"], r["cut"]): r for r in after["disparities"]}
    all_same = True
    for old in before["disparities"]:
        new = rows.get((old["probe"], old["scorer"], old["cut"]), {})
        differs = [name for name in NUMBERS if not _equal(old.get(name), new.get(name))]
        all_same &= not differs
        table.add_row(
            old["probe"], old["scorer"], old["cut"], _show(old["raw"]), _show(new.get("raw")),
            "yes" if not differs else f"no: {', '.join(differs)}",
        )  # fmt: skip
    console.print(table)
    for name in ("config_hash", "response_set", "dataset_digest"):
        same = before[name] == after[name]
        all_same &= same
        console.print(f"{name:<15} {'same' if same else f'differs: {before[name][:12]} then, {after[name][:12]} now'}")
    same = _equal(before["composite"], after["composite"])
    console.print(f"{'composite':<15} {_show(before['composite'])} then, {_show(after['composite'])} now")
    console.print("every number is the same" if all_same and same else "the numbers are not the same")
    return all_same and same


def _equal(old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return old is new
    return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
