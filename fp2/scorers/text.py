"""The one normalisation that every word list is matched under (VADER alone reads the text as it is)."""

from __future__ import annotations

import unicodedata

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("‘’‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–−", "-"),
        **dict.fromkeys("—―", " - "),
        **dict.fromkeys("*_", " "),  # Markdown emphasis
        **dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"),  # invisible signs
    }
)


def fold(text: str) -> str:
    """Return `text` in compatibility form, without case and with plain quotes and dashes; line breaks stay."""
    plain = unicodedata.normalize("NFKC", text.translate(_SIGNS)).casefold()
    return unicodedata.normalize("NFKC", plain).translate(_SIGNS)


def normalise(text: str) -> str:
    """Return `text` folded (see `fold`), with every run of white space as one blank and none at the ends."""
    return " ".join(fold(text).split())
