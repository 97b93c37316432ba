"""Plain tables: CSV, TSV, Parquet and JSON Lines, one row an answer."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.data.readers.table import read_table
from fp2.engines.recorded.forms import Form

if TYPE_CHECKING:
    import pandas as pd


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON objects, without their missing values."""
    import pandas as pd

    plain = rows.astype(object).where(rows.notna(), None)
    assert isinstance(plain, pd.DataFrame)
    return [{str(name): value for name, value in row.items() if value is not None} for row in plain.to_dict("records")]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write objects as JSON Lines."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)


def _write_jsonl(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    write_lines(path, records(rows))


def _write_parquet(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    from fp2.artifacts import write_parquet

    write_parquet(path, rows)


def _write_csv(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    """Write every cell as it is: what is read again must be the same answer, so that no text is quoted as a formula."""
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    rows.to_csv(path, sep=separator, index=False, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")


FORMS = (
    Form("csv", (".csv", ".tsv"), {}, read_table, _write_csv),
    Form("parquet", (".parquet",), {}, read_table, _write_parquet),
    Form("jsonl", (".jsonl",), {}, read_table, _write_jsonl),
)
