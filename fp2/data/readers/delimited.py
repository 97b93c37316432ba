"""Strict reading of delimited text: every cell is text, and a row of another length than the header is an error."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from fp2.errors import Fp2Error

# FHIBE's polygon cells are far over the standard limit of 131,072 characters.
_FIELD_LIMIT = 2**31 - 1


def read_rows(
    path: Path,
    check_header: Callable[[list[str]], None],
    *,
    delimiter: str = ",",
    skip: Collection[str] = (),
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield `(row number, cells by column)` of a UTF-8 file with a header; blank lines do not count.

    `check_header` is called once, before the first row, and raises if a column is lacking. Columns in `skip` are left
    out of the rows.

    Raises
    ------
    Fp2Error
        If the file is missing or not UTF-8 text, a column occurs twice, or a row has another length than the header.
    """
    if csv.field_size_limit() < _FIELD_LIMIT:
        csv.field_size_limit(_FIELD_LIMIT)
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            lines = csv.reader(handle, delimiter=delimiter)
            header = next(lines, [])
            repeated = {name for name in header if header.count(name) > 1}
            if repeated:
                raise Fp2Error(f"the header has {', '.join(sorted(repeated))} twice", where=str(path))
            check_header(header)
            kept = [(place, name) for place, name in enumerate(header) if name not in skip]
            number = 0
            for cells in lines:
                if not cells:
                    continue
                number += 1
                if len(cells) != len(header):
                    raise Fp2Error(
                        f"row {number} has {len(cells)} cells, the header has {len(header)}",
                        where=str(path),
                        fix="Was the file copied completely?",
                    )
                yield number, {name: cells[place] for place, name in kept}
    except FileNotFoundError:
        raise Fp2Error("the table does not exist", where=str(path)) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Fp2Error(f"the table cannot be read: {error}", where=str(path)) from None
