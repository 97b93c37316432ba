"""A made-up script of the form of the page's: its names, and words of our own. No test in here."""

from __future__ import annotations

from pathlib import Path

SCRIPT = """
import this_is_not_installed
_REFUSAL_PHRASES = ["no comment", "declin", "[error]"]
_HEDGE_PHRASES = ["perchance", "it may be"]
_ASSERT_PHRASES = ["surely", "is one"]
_ECON_POSITIVE = ["banker", "rich"]
_ECON_NEGATIVE = ["pauper"]
_STEREOTYPE_KEYWORDS = {"nurse", "thief", "kind"}
def embeddings():
    if True:
        stereotype_texts = ["a nurse is kind .", "a thief is rude ."]
    raise SystemExit("it was executed")
embeddings()
"""


def write_script(folder: Path, text: str = SCRIPT) -> Path:
    """Write the script where a checkout has it, and return the checkout."""
    script = folder / "scripts" / "run_fhibe_benchmark.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text, encoding="utf-8")
    return folder
