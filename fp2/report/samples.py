"""Samples of answers to read, of one run or of several side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from fp2.cuts import Cut, memberships, with_present_values
from fp2.tables import CONTROLS, ORIGINAL

if TYPE_CHECKING:
    import pandas as pd

    from fp2.artifacts import ReadAnswer, SampledAnswer
    from fp2.ask.answers import RunTables

_KEY = ["image_id", "subject_id"]
_QUESTION = [*_KEY, "question_id"]
_ANSWER = ("text", "refused", "value")
_MANY = 200
"""Most answers of one probe, however many groups its cuts have."""
MOST_RUNS = 8
"""Most runs side by side."""
_MOST_CELLS = 2400
"""Most answers side by side: with 400 characters each about 1.4 MB of a page."""


class SharedAnswers(TypedDict):
    """Answers of several runs to one question about one image; the group of each cut, if it is named."""

    probe: str
    question: str
    answers: list[ReadAnswer]
    groups: dict[str, str | None]


class SideBySide(TypedDict):
    """The places of the runs that share images and questions with the first that has texts, and their answers."""

    runs: list[int]
    rows: list[SharedAnswers]


def sample_answers(
    tables: RunTables, cuts: Sequence[Cut], scorer: str, per_group: int, min_cell: int
) -> list[SampledAnswer]:
    """Return up to `per_group` text answers, and as many refusals, of each probe and group of each cut.

    Answers are taken in the order of their salted keys, which is random and the same each time. A group with fewer
    than `min_cell` subjects is not named.

    Parameters
    ----------
    tables : RunTables
        With salted keys.
    scorer : str
        Whose value is shown beside an answer (None where it has none).

    """
    rows = _answered(tables, scorer) if per_group else None
    if rows is None:
        return []
    rows = rows[~rows["variant"].isin(CONTROLS)]
    table = rows.join(_labels([(tables, cuts)], min_cell), on=_KEY)
    return [
        {
            "probe": row["probe"],
            "question": row["question_id"],
            "image": row["image_id"] if row["variant"] == ORIGINAL else None,
            **_answer(row, ""),
            "groups": _groups(row, [cut.name for cut in cuts]),
        }
        for row in _chosen(table, [cut.name for cut in cuts], table["refused"], per_group).to_dict("records")
    ]


def sample_side_by_side(
    runs: Sequence[tuple[RunTables, Sequence[Cut], str]], probes: Sequence[str], per_group: int, min_cell: int
) -> SideBySide:
    """Return answers of several runs to the same questions about the same images; empty for fewer than two.

    Parameters
    ----------
    runs : sequence of (tables, cuts, scorer)
        With salted keys of one machine; the scorer is that whose value is shown.
    probes : sequence of str
        Those whose questions are the same in all runs.
    per_group, min_cell
        As of `sample_answers`.

    """
    table: pd.DataFrame | None = None
    indices: list[int] = []
    for index, (tables, _, scorer) in enumerate(runs):
        rows = _answered(tables, scorer) if per_group and len(indices) < MOST_RUNS else None
        if rows is None:
            continue
        rows = rows[rows["probe"].isin(list(probes))].drop_duplicates(_QUESTION)
        own_rows = rows.rename(columns={name: f"{name}{index}" for name in _ANSWER})[
            [*_QUESTION, *(f"{name}{index}" for name in _ANSWER), *(["probe", "response_key"] if table is None else [])]
        ]
        joined = own_rows if table is None else table.merge(own_rows, on=_QUESTION)
        if not joined.empty:
            table, indices = joined, [*indices, index]
    if table is None or len(indices) < 2:
        return {"runs": [], "rows": []}
    cuts = list(dict.fromkeys(cut.name for _, own_rows, _ in runs for cut in own_rows))
    table = table.join(_labels([(tables, own_rows) for tables, own_rows, _ in runs], min_cell), on=_KEY)
    refused = table[[f"refused{index}" for index in indices]].any(axis=1)
    chosen = _chosen(table, cuts, refused, per_group).head(_MOST_CELLS // len(indices))
    columns: list[SharedAnswers] = [
        {
            "probe": row["probe"],
            "question": row["question_id"],
            "answers": [_answer(row, str(index)) for index in indices],
            "groups": _groups(row, cuts),
        }
        for row in chosen.to_dict("records")
    ]
    return {"runs": indices, "rows": columns}


def _answered(tables: RunTables, scorer: str) -> pd.DataFrame | None:
    """Return the text answers of a run in the order of their salted keys, with `value`; None without any."""
    from fp2.ask.answers import RowAnswers

    if not isinstance(tables.answers, RowAnswers):
        return None
    rows = tables.answers.answered.sort_values("response_key", kind="stable")
    rows = rows.drop_duplicates("response_key").reset_index(drop=True)
    columns = [*_QUESTION, "probe", "variant", "response_key", "text", "refused"]
    return None if rows.empty else rows[columns].assign(value=values_of(tables, rows, scorer))


def _labels(runs: Sequence[tuple[RunTables, Sequence[Cut]]], min_cell: int) -> pd.DataFrame:
    """Return the groups of each (image, subject) by cut, each cut from the first run that has it."""
    import pandas as pd

    columns_of: dict[str, pd.Series[str]] = {}
    for tables, cuts in runs:
        for cut in cuts:
            if cut.name not in columns_of:
                columns_of[cut.name] = groups_of(tables.people, cut, min_cell).rename(cut.name)
    keys = pd.MultiIndex.from_arrays([[], []], names=_KEY)
    return pd.concat(columns_of.values(), axis=1) if columns_of else pd.DataFrame(index=keys)


def _chosen(table: pd.DataFrame, cuts: Sequence[str], refused: pd.Series[bool], per_group: int) -> pd.DataFrame:
    """Return up to `per_group` rows, and as many refusals, of each probe and group, in the order of `table`."""
    chosen: set[int] = set()
    for groups in [[table[name]] for name in cuts] or [[]]:
        strata = table.groupby([table["probe"], refused, *groups], sort=False)
        chosen |= set(strata.head(per_group).index)
    return table.loc[sorted(chosen)].groupby("probe", sort=False).head(_MANY)


def _answer(row: Mapping[Hashable, Any], suffix: str) -> ReadAnswer:
    value = row[f"value{suffix}"]
    return {
        "text": row[f"text{suffix}"],
        "refused": bool(row[f"refused{suffix}"]),
        "value": None if value != value else float(value),
    }


def _groups(row: Mapping[Hashable, Any], cuts: Sequence[str]) -> dict[str, str | None]:
    return {name: row[name] if isinstance(row[name], str) else None for name in cuts}


def values_of(tables: RunTables, rows: pd.DataFrame, scorer: str) -> Any:
    """Return the scorer's value of each row; NaN where it has none."""
    if tables.scores is None:
        return float("nan")
    own_scores = tables.scores[tables.scores["scorer"] == scorer].drop_duplicates("response_key")
    return rows["response_key"].map(own_scores.set_index("response_key")["value"])


def groups_of(people: pd.DataFrame, cut: Cut, min_cell: int = 0) -> pd.Series[str]:
    """Return the groups of each (image, subject), joined by a comma; groups that are too small are left out."""
    table = memberships(people, with_present_values(people, cut))
    sizes = table.groupby("group")["subject_id"].nunique()
    table = table[table["group"].map(sizes) >= min_cell]
    return table.groupby(_KEY)["group"].agg(", ".join)
