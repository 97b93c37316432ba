"""Plain tables: CSV, TSV, Parquet and JSON Lines, one row an answer; and JSON objects, one entry an image.

In CSV and TSV, text that a spreadsheet would evaluate as a formula is quoted with an apostrophe (`fp2.text.quoted`),
and the column `QUOTED` marks the rows in which it is. Files without that column are read as they are.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import Fp2Error, quoted, read_json, read_table, unquoted
from fp2.methods.recorded.form import Form

if TYPE_CHECKING:
    import pandas as pd

QUOTED = "formulas_quoted"


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
    from fp2.extension import write_parquet

    write_parquet(path, rows)


def _write_csv(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    """Write every cell so that no text is evaluated, and `_read_csv` returns the same text."""
    import pandas as pd

    out, marked, returns = rows.copy(), pd.Series(False, index=rows.index), False
    for name in rows.select_dtypes(exclude="number").columns:
        texts = [text for text in rows[name].unique() if isinstance(text, str)]
        changed = {text: safe for text in texts if (safe := quoted(text)) != text}
        returns = returns or any("\r" in text for text in texts)
        here = rows[name].isin(list(changed))
        out.loc[here, name] = rows.loc[here, name].map(changed)
        marked |= here
    if marked.any():
        out[QUOTED] = marked.map({True: "true", False: ""})
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    # csv ends a line at a carriage return that is in no quotes, and does not quote it by itself
    out.to_csv(
        path,
        sep=separator,
        index=False,
        quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    )


def _read_csv(path: Path) -> pd.DataFrame:
    """Return a table as `read_table` does, with the text that was quoted."""
    table = read_table(path)
    if QUOTED in table.columns:
        here = table[QUOTED] == "true"
        for name in table.columns:
            table.loc[here, name] = table.loc[here, name].map(unquoted)
    return table


def _is_by_image(content: Mapping[str, Any]) -> bool:
    """Whether a JSON object is one of objects or texts, and so no log of Inspect."""
    return bool(content) and "eval" not in content and all(isinstance(one, dict | str) for one in content.values())


def _read_by_image(path: Path) -> pd.DataFrame:
    import pandas as pd

    content = read_json(path, "answers")
    if not isinstance(content, dict) or not _is_by_image(content):
        raise Fp2Error("it is no JSON object with an object, or a text, for each image", where=str(path))
    rows = [{"image": image, **(one if isinstance(one, dict) else {"text": one})} for image, one in content.items()]
    return pd.DataFrame(rows, dtype="object")


def _write_by_image(path: Path, rows: pd.DataFrame, about: Mapping[str, Any]) -> None:
    entries = records(rows)
    if rows["image"].duplicated().any():
        fix = "Write JSON Lines: FILE.jsonl"
        raise Fp2Error("an image has several answers, and such a file holds one", where=str(path), fix=fix)
    content = {entry["image"]: {name: value for name, value in entry.items() if name != "image"} for entry in entries}
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False), encoding="utf-8")


CSV = Form("csv", (".csv", ".tsv"), {}, _read_csv, _write_csv)
PARQUET = Form("parquet", (".parquet",), {}, read_table, _write_parquet)
JSONL = Form("jsonl", (".jsonl",), {}, read_table, _write_jsonl)
JSON = Form("json", (".json",), {}, _read_by_image, _write_by_image, _is_by_image)
