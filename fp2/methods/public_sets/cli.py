"""`fp2 datasets`: data sets of people that fairness evaluations use, and which of them can be read.

The facts are those of Extended Data Table 1 of the FHIBE paper (Xiang et al., Nature 2025). What its text did not show
beyond doubt is empty. `read_by` is the command of a reader, or of a table of yours with the labels (`data=table`); data
sets that their authors revoked have none.
"""

from __future__ import annotations

import csv
from pathlib import Path

from rich.table import Table

from fp2.extension import READ_AND_COMPARE, CommandEntry, Json, Terminal, print_json

SHOWN = ("name", "images", "collection", "groups", "read_by")
"""The columns of the table that fit a terminal."""


def datasets(json: Json = False) -> None:
    """Print the 27 data sets that the FHIBE paper compares FHIBE with: size, origin, annotations, consent, groups."""
    with Path(__file__).with_name("surveyed.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if json:
        print_json(rows)
        return
    table = Table(title="after Xiang et al. 2025, Extended Data Table 1; all columns: --json", title_justify="left")
    for column in SHOWN:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(row[column] for column in SHOWN))
    Terminal().print(table)


DATASETS = CommandEntry(datasets, READ_AND_COMPARE, ("fp2 datasets", "fp2 datasets --json"))
