"""The pages of `fp2 view`: answers with their images, filtered and a page at a time, for this machine only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from fp2.extension import (
    ComparedRow,
    Fp2Error,
    Results,
    blinded,
    cut_label,
    environment,
    first_of,
    number,
    plain,
    primary_scorer,
    probe_labels,
    row_name,
    row_words,
    scorer_label,
    striking_first,
)

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Template

HERE = Path(__file__).parent

PER_PAGE = 24
PER_GROUP = 6
"""Answers of a group, where two are compared."""
OF_SECOND = "-b"
"""What follows the key of an item in that of its second image."""
SHOWN = "shown"
"""The groups of a comparison are named."""
KINDS = {"": "answers and refusals", "answers": "answers", "refusals": "refusals"}
_ORDERS = {"": "as asked", "low": "lowest value first", "high": "highest value first"}
_TWO_RUNS = {"apart": "largest difference first"}


@dataclass(frozen=True)
class Viewed:
    """What the pages show.

    Attributes
    ----------
    names : sequence of str
        The runs.
    rows : DataFrame
        One row per image, subject and question: `image_id` (salted), `probe`, `question_id`, and of each run
        `text_0, refused_0, value_0, text_1, ...`; also the values of the other scorers, as `value_0.refusal`.
    groups : mapping
        Cut -> Series of group labels by row (empty text: no value).
    results : mapping
        The results of the first run, whose disparities are compared.
    scorer : str
        Whose values are shown.
    images : mapping
        Salted image key -> file on this machine; of a second image, the key with `OF_SECOND` behind it.
    labels : mapping
        Probe -> its label.
    """

    names: Sequence[str]
    rows: pd.DataFrame
    groups: Mapping[str, pd.Series[str]]
    results: Mapping[str, Any]
    scorer: str
    images: Mapping[str, Path]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Query:
    """What a reader chose to see; every field as typed into the address."""

    probe: str = ""
    group: str = ""
    kind: str = ""
    order: str = ""
    text: str = ""
    row: str = ""
    names: str = ""
    page: int = 1


def read_query(query: str) -> Query:
    """Return the query of an address; what it does not know is ignored."""
    parameters = {key: values[0] for key, values in parse_qs(query).items()}
    page = parameters.pop("page", "1")
    recognised = {key: value for key, value in parameters.items() if key in asdict(Query())}
    return Query(**recognised, page=max(1, int(page[:9])) if page.isdecimal() else 1)


def render(viewed: Viewed, query: Query) -> str:
    """Return one page: answers as the query filters them, or of the two groups of the disparity that it names."""
    row: ComparedRow | None = None
    if query.row:
        with suppress(Fp2Error):  # the run may not have it
            row = named_row(query.row, viewed.results)
    page: dict[str, Any] = {
        "names": [plain(name) for name in viewed.names],
        "query": query,
        "differences": [
            {"words": row_words(one, viewed.results), "link": _link(Query(row=row_name(one)))}
            for one in striking_first(viewed.results)
        ],
    }
    if row is not None:
        page |= _comparison(viewed, row, query)
    else:
        page |= _filtered(viewed, query)
    return _template().render(page)


@cache
def _template() -> Template:
    return environment().from_string((HERE / "view.html.j2").read_text(encoding="utf-8"))


def _filtered(viewed: Viewed, query: Query) -> dict[str, Any]:
    """Return what the page of filtered answers shows."""
    rows, groups = viewed.rows, viewed.groups
    chosen = _chosen(rows, groups, len(viewed.names), query)
    pages = max(1, -(-len(chosen) // PER_PAGE))
    query = replace(query, page=min(query.page, pages))
    page_rows = chosen.iloc[(query.page - 1) * PER_PAGE : query.page * PER_PAGE]
    return {
        "cards": [_card(viewed, row, viewed.scorer) for row in page_rows.reset_index(names="place").to_dict("records")],
        "total": len(chosen),
        "page": query.page,
        "pages": pages,
        "kinds": KINDS,
        "orders": _ORDERS | (_TWO_RUNS if len(viewed.names) > 1 else {}),
        "probes": {key: plain(viewed.labels.get(key, key)) for key in dict.fromkeys(rows["probe"])},
        "groups": {
            cut: sorted({value for cell in set(column) for value in cell.split(", ") if value})
            for cut, column in groups.items()
        },
        "previous": _link(query, -1) if query.page > 1 else None,
        "next": _link(query, 1) if query.page < pages else None,
    }


def _comparison(viewed: Viewed, row: ComparedRow, query: Query) -> dict[str, Any]:
    """Return what the page of a disparity shows: answers about its two groups, in the order of the salted keys."""
    of_probe = viewed.rows[viewed.rows["probe"] == row["probe"]].sort_values("image_id", kind="stable")
    in_groups, cells = [], viewed.groups[row["cut"]][of_probe.index]
    for letter, group in blinded(row):
        mine = of_probe[_is_in(cells, group)]
        in_groups.append((letter, group, mine))
    pages = max(1, *(-(-len(mine) // PER_GROUP) for _, _, mine in in_groups))
    page = min(query.page, pages)
    page_slice = slice((page - 1) * PER_GROUP, page * PER_GROUP)
    means = {entry["group"]: entry for entry in row["groups"]}
    query = replace(query, row=row_name(row), page=page)
    revealed = query.names == SHOWN
    return {
        "compared": row_words(row, viewed.results),
        "significant": row["significant"],
        "question": next(
            (plain(entry.get("text")) for entry in viewed.results["probes"] if entry["id"] == row["probe"]), ""
        ),
        "columns": [
            {
                "letter": letter,
                "group": plain(group) if revealed else None,
                "mean": number(means[group]["mean"]) if revealed and group in means else None,
                "cards": [
                    _card(viewed, each, row["scorer"], revealed, every=True)
                    for each in mine.iloc[page_slice].reset_index(names="place").to_dict("records")
                ],
            }
            for letter, group, mine in in_groups
        ],
        "cut": cut_label(row["cut"]),
        "scorer": scorer_label(row["scorer"]),
        "reveal": _link(replace(query, names="" if revealed else SHOWN)),
        "revealed": revealed,
        "previous": _link(query, -1) if page > 1 else None,
        "next": _link(query, 1) if page < pages else None,
    }


def _card(
    viewed: Viewed, row: Mapping[Any, Any], scorer: str, named: bool = True, every: bool = False
) -> dict[str, Any]:
    """Return an image with the answers of the runs to one question; `every`: with those to the other questions too."""
    groups = [plain(column[row["place"]]) for column in viewed.groups.values() if column[row["place"]]]
    other_cards: list[dict[str, Any]] = []
    if every:
        same = (viewed.rows["image_id"] == row["image_id"]) & (viewed.rows["subject_id"] == row["subject_id"])
        rest = viewed.rows[same & (viewed.rows["question_id"] != row["question_id"])]
        other_cards = [
            _card(viewed, each, scorer, named) for each in rest.reset_index(names="place").to_dict("records")
        ]
    return {
        "images": [key for key in (row["image_id"], row["image_id"] + OF_SECOND) if key in viewed.images],
        "probe": plain(viewed.labels.get(row["probe"], row["probe"])),
        "groups": groups if named else [],
        "scorer": scorer_label(scorer),
        "answers": [
            {
                "text": plain(row[f"text_{i}"]),
                "refused": bool(row[f"refused_{i}"]),
                "value": _value(row, f"value_{i}" if scorer == viewed.scorer else f"value_{i}.{scorer}"),
            }
            for i in range(len(viewed.names))
        ],
        "others": other_cards,
    }


def _chosen(rows: pd.DataFrame, groups: Mapping[str, pd.Series[str]], n_runs: int, query: Query) -> pd.DataFrame:
    """Return the rows that the query asks for, in its order."""
    if query.probe:
        rows = rows[rows["probe"] == query.probe]
    cut, _, label = query.group.partition("=")
    if cut in groups:
        rows = rows[_is_in(groups[cut][rows.index], label)]
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


def _is_in(cells: pd.Series[str], group: str) -> pd.Series[bool]:
    """Return which cells, each with the groups of a row, have a group."""
    return cells.map(lambda cell: group in cell.split(", ")).astype(bool)


def _value(row: Mapping[Any, Any], column: str) -> float | None:
    value = row.get(column)
    return None if value is None or value != value else float(value)


def _link(query: Query, step: int = 0) -> str:
    turned = asdict(replace(query, page=query.page + step))
    return "?" + urlencode({key: value for key, value in turned.items() if value and (key, value) != ("page", 1)})


def named_row(name: str, results: Results) -> ComparedRow:
    """Return the disparity that a user names: `region/lifestyle`, `region/P5 Lifestyle`, `region/lifestyle/valence`.

    Cut, probe and scorer are ids or labels, in letters of either case; without a scorer it is the primary one.

    Raises
    ------
    Fp2Error
        If there is none, or no two groups were compared; the message has the most striking ones.
    """
    labels, queried = probe_labels(results), [piece.strip().casefold() for piece in name.split("/")]
    wanted = queried if len(queried) == 3 else [*queried, primary_scorer(results).casefold()]
    rows: Sequence[ComparedRow] = results["disparities"] if len(wanted) == 3 else ()
    for row in rows:
        forms = (
            {row["cut"], cut_label(row["cut"])},
            {row["probe"], labels.get(row["probe"], "")},
            {row["scorer"], scorer_label(row["scorer"])},
        )
        same = (word in map(str.casefold, each) for word, each in zip(wanted, forms, strict=True))
        if row["worst_group"] and all(same):
            return row
    compared = striking_first(results) or [row for row in results["disparities"] if row["worst_group"]]
    choices = f"Choose from: {first_of([row_name(row) for row in compared])}" if compared else "No groups were compared"
    raise Fp2Error(f"no disparity is called {name!r}", where="--row", fix=choices)
