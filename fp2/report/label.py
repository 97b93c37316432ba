"""The page of `fp2 label`: one answer at a time, with its question and the definition of the label."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fp2.report.reading import plain
from fp2.scorers.labels import LabelScale

KEYS = "1234567890"
_TEMPLATES = Path(__file__).parent / "templates"


def stylesheet() -> str:
    """Return the styles of all pages, and those of this one."""
    return "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "label.css"))


def script() -> str:
    """Return the script, which presses the buttons by keyboard."""
    return (_TEMPLATES / "label.js").read_text(encoding="utf-8")


def render(
    scale: LabelScale, labeller: str, done: int, total: int, answer: tuple[int, str, str] | None
) -> str:  # fmt: skip
    """Return the page; `answer` is its place in the sample, the question and the text, None where all are labelled."""
    made = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined)
    place, question, text = answer or (None, "", "")
    buttons = [
        {"key": key, "value": f"{value:g}", "meaning": meaning}
        for key, (value, meaning) in zip(KEYS, scale.values.items(), strict=False)
    ]
    return made.get_template("label.html.j2").render(
        definition=scale.question, buttons=buttons, labeller=plain(labeller), done=done, total=total, place=place,
        question=plain(question), text=plain(text),
    )  # fmt: skip
