"""Ids of subjects, images and sets, in one form wherever they are read, stored or given on a command line."""

from __future__ import annotations

import re
import unicodedata

RUN_ID = re.compile(r"[0-9A-Za-z_\-]{1,100}")
"""Ids of runs: they name folders."""


def normal_id(value: object) -> str:
    """Return an id in Unicode normalisation form C (UAX #15), without white space at its ends.

    Two spellings of one name are one id: a subject is found again, and removed, however the id was typed.
    """
    return unicodedata.normalize("NFC", str(value)).strip()
