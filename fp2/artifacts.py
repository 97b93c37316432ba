"""The files of a run, in one folder: tables with salted keys, results, figures, dashboard and the signed passport."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.places import overrides_without_places, without_places
from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

RESULTS = "results.json"
DASHBOARD = "dashboard.html"
CONFIG = "config.yaml"
OVERRIDES = "overrides.yaml"
TABLE = "disparities.json"
FIGURES = "figures"
PEOPLE, RESPONSES, SCORES, DISPARITIES = "people.parquet", "responses.parquet", "scores.parquet", "disparities.parquet"
LOCAL_FILES = ("status.json", "traceback.txt")


@contextmanager
def told_plainly(folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder that cannot be written into one line."""
    try:
        yield
    except OSError as error:
        raise Fp2Error(
            f"cannot write: {error.strerror or error}",
            where=str(error.filename or folder),
            fix="Free some space or choose another folder; every answer is kept, run the same command again",
        ) from error


def write_config(folder: Path, config: Config, overrides: Sequence[str]) -> dict[str, str]:
    """Write the resolved config and the overrides it came from, without this machine's paths; return those."""
    from omegaconf import OmegaConf

    plain, places = without_places(asdict(config))
    kept = overrides_without_places(overrides)
    (folder / CONFIG).write_text(OmegaConf.to_yaml(OmegaConf.create(plain)), encoding="utf-8")
    (folder / OVERRIDES).write_text(OmegaConf.to_yaml(OmegaConf.create(kept)), encoding="utf-8")
    return places


def write_tables(
    folder: Path,
    people: pd.DataFrame,
    answers: pd.DataFrame,
    scores: pd.DataFrame,
    rows: list[dict[str, Any]],
    salt: bytes,
    attributes: Collection[str],
) -> None:
    """Write the four tables as Parquet: ids become salted keys; of the people only `attributes` (the cuts') leave."""
    from fp2.store.salted_keys import shareable

    unused = [ATTRIBUTE_PREFIX + name for name in attribute_columns(people) if name not in attributes]
    write_parquet(folder / PEOPLE, shareable(people.drop(columns=unused), salt))
    write_parquet(folder / RESPONSES, _keyed(answers, salt))
    write_parquet(folder / SCORES, _keyed(scores, salt))
    write_disparities(folder, rows)


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """Write a table as it is."""
    table.to_parquet(path, compression="zstd", index=False)


def write_disparities(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write the disparities as Parquet, and as the table that MLflow shows."""
    import pandas as pd

    write_parquet(folder / DISPARITIES, pd.DataFrame([{**row, "groups": json.dumps(row["groups"])} for row in rows]))
    write_table(folder, rows)


def _keyed(table: pd.DataFrame, salt: bytes) -> pd.DataFrame:
    from fp2.store.salted_keys import salted

    # A response key is a plain digest of pixels and public settings: who has the pictures could compute it.
    return table.assign(
        response_key=salted(table["response_key"], salt, "response"),
        image_id=salted(table["image_id"], salt, "image"),
        subject_id=salted(table["subject_id"], salt),
    )


TABLE_COLUMNS = (
    "probe", "scorer", "cut", "raw", "null_mean", "null_p95", "excess", "shrunken", "ci_low", "ci_high", "p_value",
    "adjusted_p", "verdict", "worst_group", "best_group", "hedges_g", "epsilon_squared", "omega_squared",
    "js_divergence", "mde80", "n_subjects", "n_images",
)  # fmt: skip


def write_table(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Write the disparities as the JSON table that MLflow's UI compares side by side, and `mlflow.load_table` reads."""
    path = folder / TABLE
    table = {"columns": list(TABLE_COLUMNS), "data": [[row[name] for name in TABLE_COLUMNS] for row in rows]}
    path.write_text(json.dumps(table, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def write_results(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write `results.json` (finite numbers only)."""
    path = folder / RESULTS
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return path


def examples(answers: pd.DataFrame, per_probe: int) -> list[dict[str, Any]]:
    """Return the most frequent distinct answers of each probe."""
    answered = answers[answers["status"] == "answered"]
    out: list[dict[str, Any]] = []
    for probe, part in answered.groupby("probe", sort=False):
        counts = part["text"].value_counts().head(per_probe)
        out += [{"probe": str(probe), "text": str(text), "count": int(n)} for text, n in counts.items()]
    return out


def files_of(folder: Path) -> dict[str, Path]:
    """Return what the run publishes, by name relative to `folder`: every file but the passport and local notes."""
    from fp2.report.statement import PASSPORT_NAME

    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in (PASSPORT_NAME, *LOCAL_FILES)
        and not path.relative_to(folder).parts[0].startswith(".")
    }
