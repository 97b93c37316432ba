"""The pages of `fp2 view`: answers with their images, filtered and a page at a time, for this machine only."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from fp2.report.reading import plain, scorer_label
from fp2.report.templating import environment

if TYPE_CHECKING:
    import pandas as pd

PER_PAGE = 24
KINDS = {"": "answers and refusals", "answers": "answers", "refusals": "refusals"}
_SIDE = 512  # pixels of the long side at most
_ORDERS = {"": "as asked", "low": "lowest value first", "high": "highest value first"}
_TWO_RUNS = {"apart": "largest difference first"}


@dataclass(frozen=True)
class Query:
    """What a reader chose to see; every field as typed into the address."""

    probe: str = ""
    group: str = ""
    kind: str = ""
    order: str = ""
    text: str = ""
    page: int = 1


def read_query(query: str) -> Query:
    """Return the query of an address; what it does not know is ignored."""
    given = {key: values[0] for key, values in parse_qs(query).items()}
    page = given.pop("page", "1")
    known = {key: value for key, value in given.items() if key in asdict(Query())}
    return Query(**known, page=max(1, int(page[:9])) if page.isdecimal() else 1)


def thumbnail(path: Path) -> bytes:
    """Return an image as JPEG with a long side of at most 512 pixels.

    Raises
    ------
    OSError, ValueError
        If it cannot be read.
    """
    from fp2.data.pixels import open_rgb

    image = open_rgb(path)
    image.thumbnail((_SIDE, _SIDE))
    data = io.BytesIO()
    image.save(data, "JPEG", quality=88)
    return data.getvalue()


def render(
    rows: pd.DataFrame, groups: Mapping[str, pd.Series[str]], names: Sequence[str], scorer: str,
    labels: Mapping[str, str], images: Mapping[str, Path], query: Query,
) -> str:  # fmt: skip
    """Return one page (see `fp2.commands.view.Viewed`)."""
    chosen = _chosen(rows, groups, len(names), query)
    pages = max(1, -(-len(chosen) // PER_PAGE))
    query = replace(query, page=min(query.page, pages))
    shown = chosen.iloc[(query.page - 1) * PER_PAGE : query.page * PER_PAGE]
    cards = [
        {
            "image": row["image_id"] if row["image_id"] in images else None,
            "probe": plain(labels.get(row["probe"], row["probe"])),
            "groups": [plain(groups[cut][place]) for cut in groups if groups[cut][place]],
            "answers": [
                {"text": plain(row[f"text_{i}"]), "refused": bool(row[f"refused_{i}"]), "value": _value(row, i)}
                for i in range(len(names))
            ],
        }
        for place, row in zip(shown.index, shown.to_dict("records"), strict=True)
    ]
    return environment().get_template("view.html.j2").render(
        names=[plain(name) for name in names], scorer=scorer_label(scorer), cards=cards, total=len(chosen),
        page=query.page, pages=pages, query=query, kinds=KINDS,
        orders=_ORDERS | (_TWO_RUNS if len(names) > 1 else {}),
        probes={key: plain(labels.get(key, key)) for key in dict.fromkeys(rows["probe"])},
        groups={cut: sorted({one for cell in set(column) for one in cell.split(", ") if one})
                for cut, column in groups.items()},
        previous=_link(query, -1) if query.page > 1 else None, next=_link(query, 1) if query.page < pages else None,
    )  # fmt: skip


def _chosen(rows: pd.DataFrame, groups: Mapping[str, pd.Series[str]], n_runs: int, query: Query) -> pd.DataFrame:
    """Return the rows that the query asks for, in its order."""
    if query.probe:
        rows = rows[rows["probe"] == query.probe]
    cut, _, label = query.group.partition("=")
    if cut in groups:
        rows = rows[groups[cut][rows.index].map(lambda cell: label in cell.split(", "))]
    refused = rows[[f"refused_{i}" for i in range(n_runs)]].any(axis=1)
    if query.kind in ("answers", "refusals"):
        rows = rows[refused if query.kind == "refusals" else ~refused]
    if query.text:
        hits = [rows[f"text_{i}"].str.contains(query.text, case=False, regex=False) for i in range(n_runs)]
        rows = rows[sum(hits[1:], hits[0])]
    if query.order in ("low", "high"):
        return rows.sort_values("value_0", ascending=query.order == "low", kind="stable")
    if query.order == "apart" and n_runs > 1:
        return rows.assign(d=(rows["value_0"] - rows["value_1"]).abs()).sort_values("d", ascending=False, kind="stable")
    return rows


def _value(row: Mapping[Any, Any], number: int) -> float | None:
    value = row[f"value_{number}"]
    return None if value is None or value != value else float(value)


def _link(query: Query, step: int) -> str:
    return "?" + urlencode(
        {key: value for key, value in asdict(replace(query, page=query.page + step)).items() if value}
    )
