"""The options of `engine=recorded`: where the answers are, and how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fp2.extension import YES_NO_NUMBERS, EngineOptions, Fp2Error, check_names, digest, file_digest, plural

KEYS = ("image", "question", "trait", "template", "variant")
"""What an answer is about."""
OF_CHOICES = ("probabilities", "logits")
"""Names of JSON objects with a number for each choice."""
NAMES = ("id", *KEYS, "text", "status", "numbers", *OF_CHOICES, "planted_effects", *YES_NO_NUMBERS)
"""Our names of the columns of answers."""
WHERE = "engine.answers"
_FIX = "Add engine.answers=FILE (CSV, Parquet, JSON Lines, JSON, or the log of another harness)"


@dataclass(frozen=True, kw_only=True)
class RecordedOptions(EngineOptions):
    """The options of `engine=recorded`.

    Attributes
    ----------
    answers : str or list of str
        The file of answers, or several.
    format : str, optional
        Their form (`fp2.methods.recorded.form.forms`); by default by suffix and content.
    columns : mapping
        Our names (`NAMES`) to the file's columns; `column.key.0` is what is inside a column.
    id_pattern : str, optional
        What an `id` is made of, such as `{image}|{question}`.
    index : str, optional
        A table with the columns `id`, `image` and perhaps others of `KEYS`, which says what each id stands for.
    duplicates : {"refuse", "first", "last"}
        Which of several different answers to one question counts.
    content : str, optional
        The digest of answers that the Python interface was given as a DataFrame.
    """

    answers: Any = None
    format: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    id_pattern: str | None = None
    index: str | None = None
    duplicates: Literal["refuse", "first", "last"] = "refuse"
    content: str | None = None

    def __post_init__(self) -> None:
        """Raise Fp2Error for a name that is not ours, and a pattern that cannot be read."""
        check_names(self.columns, NAMES, "answers have no", "engine.columns")
        if self.id_pattern is not None:
            id_regex(self.id_pattern)
        if not isinstance(self.answers, str | None) and not (
            isinstance(self.answers, list) and all(isinstance(path, str) for path in self.answers)
        ):
            raise Fp2Error("answers is neither a path nor a list of paths", where=WHERE, fix=_FIX)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of answers."""
        given = [self.answers] if isinstance(self.answers, str) else self.answers or []
        return tuple(Path(path).expanduser() for path in given)

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files, and how they are read.

        Raises
        ------
        Fp2Error
            If there is no file, or one cannot be read.
        """
        if not self.paths and self.content is None:
            raise Fp2Error("no answers are given", where=WHERE, fix=_FIX)
        how = {name: getattr(self, name) for name in ("format", "columns", "id_pattern", "duplicates")}
        return {
            **{name: value for name, value in how.items() if value and value != "refuse"},
            "answers": self.digest,
            **({"index": file_digest(self.index, "engine.index")} if self.index else {}),
        }

    def summary(self) -> dict[str, str]:
        """Return that the answers are supplied."""
        return {"answers": f"supplied in {plural(len(self.paths), 'file')}, not asked here"}

    @property
    def digest(self) -> str:
        """The digest of the file of answers; of several, that of their digests."""
        found = [file_digest(str(path), WHERE) for path in self.paths] or [str(self.content)]
        return found[0] if len(found) == 1 else f"sha256:{digest(found)}"


def id_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of an id: `{image}|{question}` has two groups.

    Raises
    ------
    Fp2Error
        If it names nothing, or something twice, or what is not in `KEYS`.
    """
    parts = re.split(r"\{(\w*)\}", pattern)
    names = parts[1::2]
    wrong = next((name for name in names if name not in KEYS or names.count(name) > 1), None)
    if not names or wrong is not None:
        what = f"{{{wrong}}} cannot be a part of an id" if wrong is not None else "the pattern names no part"
        fix = f"Such as {{image}}|{{question}}, each once, of: {', '.join(KEYS)}"
        raise Fp2Error(what, where="engine.id_pattern", fix=fix)
    body = "".join(f"(?P<{part}>.+?)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.compile(body, re.DOTALL)
