"""Text normalisation before matching; only VADER reads the text as it was generated."""

from __future__ import annotations

import unicodedata

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("‘’‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " - "),
        **dict.fromkeys("*_", " "),  # Markdown emphasis
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"),  # invisible characters
    }
)


def fold(text: str) -> str:
    """Return `text` in Unicode form NFKC, case-folded, with plain quotes and dashes; line breaks are kept."""
    plain = unicodedata.normalize("NFKC", text.translate(_SIGNS)).casefold()
    return unicodedata.normalize("NFKC", plain).translate(_SIGNS)


def normalise(text: str) -> str:
    """Return `text` folded (see `fold`), with white space collapsed to single blanks and stripped."""
    return " ".join(fold(text).split())
