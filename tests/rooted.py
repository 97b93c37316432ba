"""The data sets that need a folder of the user's. No test in here."""

from __future__ import annotations

import yaml

from fp2.config import choices
from fp2.data.base import folder_option, source_class

OWN_COLUMNS = ("hf", "table", "counterfactual", "vl_gender", "pairs")
"""Data sets that need more than a folder."""


def _rooted() -> tuple[str, ...]:
    found = []
    for path in choices("data").values():
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        if folder_option(source_class(given).Options) is not None and path.stem not in OWN_COLUMNS:
            found.append(path.stem)
    return tuple(found)


ROOTED = _rooted()
