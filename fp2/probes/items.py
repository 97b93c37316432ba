"""Items: questions that are filled in from the row of the people table that they are asked about.

A battery with `fields` has questions with `{field}` in their texts or choices. The values are the columns
`field_<name>` of the people table (`fp2.tables.FIELD_PREFIX`): each row is an item, that is, one image with its texts
and options. The ids and probes of the questions are those of the battery, so that answers are analysed like others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error, nearest
from fp2.tables import FIELD_PREFIX, Question, field_columns, item_name

if TYPE_CHECKING:
    import pandas as pd

WHERE = "data.columns"


class Items:
    """The questions of a battery, filled in for each row of a people table.

    Parameters
    ----------
    questions : sequence of Question
        With the names of fields in braces.
    fields : sequence of str
        The names that are filled in.
    people : DataFrame
        The people table, one row per item.

    Raises
    ------
    Fp2Error
        If the people lack a field, or an item has no value of one; the message names the item.
    """

    def __init__(self, questions: Sequence[Question], fields: Sequence[str], people: pd.DataFrame) -> None:
        present = field_columns(people)
        for name in fields:
            if name not in present:
                suggestion = f"{nearest(name, present)}. " if present else ""
                fix = f"{suggestion}Name its column: data.columns.{FIELD_PREFIX}{name}=COLUMN"
                raise Fp2Error(f"the data have no field {name!r}, which the battery reads", where=WHERE, fix=fix)
        self._questions = questions
        self._pattern = re.compile("|".join(re.escape(f"{{{name}}}") for name in fields))
        columns = [people[FIELD_PREFIX + name].tolist() for name in fields]
        self._values = [dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True)]
        self._people = people
        for row, values in enumerate(self._values):
            if empty := next((name for name, value in values.items() if not value), None):
                raise Fp2Error(f"{item_name(people, row)} has no value of the field {empty!r}", where=WHERE)

    def of(self, row: int) -> tuple[Question, ...]:
        """Return the questions of a row of the people table, by its number.

        Raises
        ------
        Fp2Error
            If two options are the same.
        """
        values = self._values[row]
        questions = tuple(self._filled(question, values) for question in self._questions)
        for question in questions:
            if len(set(question.choices)) < len(question.choices):
                repeated = next(option for option in question.choices if question.choices.count(option) > 1)
                where = f"question '{question.question_id}'"
                raise Fp2Error(f"{item_name(self._people, row)} has the option {repeated!r} twice", where=where)
        return questions

    def _filled(self, question: Question, values: Mapping[str, str]) -> Question:
        def fill(text: str) -> str:
            return self._pattern.sub(lambda match: values[match[0][1:-1]], text)

        return replace(question, text=fill(question.text), choices=tuple(map(fill, question.choices)))
