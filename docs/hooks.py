"""What the site has beyond the pages of this folder: a home page, and the reference, generated from the code.

Links that leave the folder (`../fp2/run.py`) become the name of the file: the site stands alone.
"""

from __future__ import annotations

import csv
import html
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
_CELL = re.compile(r"<td[^>]*>.*?</td>", re.S)
_CODE = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
_UPWARDS = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+)([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {
        "index.md": _home,
        "reference/commands.md": _commands,
        "reference/config.md": _config,
        "reference/python.md": _python,
        "reference/keys.md": lambda: _table("keys.csv", "Keys of the blocks of results.json"),
        "reference/columns.md": lambda: _table("columns.csv", "Columns of a disparity row"),
        "reference/published.md": lambda: _table("published.csv", "Published numbers, compared"),
        "reference/coverage.md": lambda: _table("coverage.csv", "Coverage, row by row"),
        "reference/statistics.md": lambda: _table("statistics.csv", "Statistical functions by question"),
        "reference/families.md": lambda: _table("../fp2/engines/hf/families.csv", "Families of transformers"),
        "reference/harnesses.md": lambda: _table("harnesses.csv", "Other harnesses, compared"),
    }
    for name, make in pages.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with links out of the folder as file names."""
    depth = page.file.src_uri.count("/")
    return _UPWARDS.sub(lambda match: _named(match) if match[2].count("../") > depth else match[0], markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with places where names in the cells of tables may be broken: between their parts."""
    return _CELL.sub(lambda cell: _CODE.sub(_breakable, cell[0]), html)


def _breakable(match: re.Match[str]) -> str:
    return re.sub(r"(?<=\w)([./:=_]|,(?! ))(?=\w)", r"\1<wbr>", match[0])


def _named(match: re.Match[str]) -> str:
    text, path = match[1], match[3]
    return text if path in text else f"{text} (`{path}`)"


def _home() -> str:
    """Return the README, with its links as seen from this folder."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text.replace("](docs/", "](")
    return re.sub(r"\]\((?![a-z]+:|#)([A-Z]+(?:\.md)?|benchmarks/[^)]*)\)", r"](../\1)", text)


def _commands() -> str:
    """Return a section for each command: what it does, its arguments and options."""
    import typer

    from fp2.cli import app

    lines = ["# Commands", "", "`launch.py` and `fp2 run` start evaluations; `fp2` has everything else.", ""]
    lines += _command_lines(typer.main.get_command(app), "fp2")
    return "\n".join(lines)


def _command_lines(command: Any, name: str) -> list[str]:
    if hasattr(command, "commands"):
        return [line for key, inner in command.commands.items() for line in _command_lines(inner, f"{name} {key}")]
    lines = [f"## {name}", "", (command.help or "").replace("\n", " "), ""]
    rows = [_row(one) for one in command.params if one.name != "help"]
    if rows:
        lines += ["| argument or option | meaning |", "|---|---|", *rows, ""]
    lines += [command.epilog or "", ""]
    return lines


def _row(parameter: Any) -> str:
    option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if option else (parameter.metavar or parameter.name.upper())
    meaning = getattr(parameter, "help", "") or ""
    return f"| `{name}` | {meaning.replace('|', '/')} |".replace("\n", " ")


def _config() -> str:
    """Return the files of each config group, with their comments."""
    lines = ["# Configuration", "", "Every setting is a Hydra option: `GROUP=CHOICE`, `KEY=VALUE`.", ""]
    for path in [ROOT / "conf" / "config.yaml", *sorted((ROOT / "conf").glob("*/*.yaml"))]:
        name = path.relative_to(ROOT / "conf").with_suffix("").as_posix().replace("/", "=")
        lines += [f"## {name}", "", "```yaml", path.read_text(encoding="utf-8").rstrip(), "```", ""]
    return "\n".join(lines)


def _table(name: str, title: str) -> str:
    """Return a CSV file, named as seen from this folder, as a page."""
    with (ROOT / "docs" / name).open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    cells = [names, ["---"] * len(names), *([html.escape(cell).replace("|", "&#124;") for cell in row] for row in rows)]
    return "\n".join([f"# {title}", "", *(f"| {' | '.join(row)} |" for row in cells)])


def _python() -> str:
    """Return the directives that render the docstrings of the Python interface."""
    from fp2.api import __all__ as names

    return "\n".join(
        ["# Python", "", "`import fp2`; see [Python](../python.md).", "", *(f"::: fp2.api.{name}\n" for name in names)]
    )
