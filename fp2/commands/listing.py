"""`fp2 list`: what can be chosen, and which package it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from fp2 import plugins
from fp2.config import choices, conf_folders
from fp2.errors import Fp2Error, nearest
from fp2.progress import Terminal

CLASSES = {
    "data": plugins.DATA,
    "engines": plugins.ENGINES,
    "scorers": plugins.SCORERS,
    "protocols": plugins.PROTOCOLS,
}
"""What is listed -> the entry-point group of the classes behind it."""
NOT_LISTED = frozenset({"__pycache__s"})


def list_choices(what: str | None) -> None:
    """Print what can be chosen: everything, or one kind (`models`, `data`, `protocols`, ...).

    Raises
    ------
    Fp2Error
        For an unknown kind.
    """
    groups = {
        _plural(path.name): path.name
        for folder in conf_folders().values()
        for path in folder.iterdir()
        if path.is_dir()
    }
    kinds = sorted({*groups, *CLASSES} - NOT_LISTED)
    if what is not None and _plural(what) not in kinds:
        raise Fp2Error(f"there is no list of {what!r}", where="fp2 list", fix=nearest(what, kinds))
    console = Terminal()
    for kind in [_plural(what)] if what else kinds:
        if kind in groups:
            _print_choices(groups[kind], console)
        if kind in CLASSES:
            _print_classes(CLASSES[kind], console)


def _plural(group: str) -> str:
    return group if group in ("data", "narrow") or group.endswith("s") else f"{group}s"


def _print_choices(group: str, console: Terminal) -> None:
    """Print the YAML files of a config group: name, first comment line, and where it comes from."""
    table = Table(title=f"{group}=NAME", title_justify="left")
    for column in ("name", "description", "from"):
        table.add_column(column, overflow="fold")
    folders = conf_folders()
    for name, path in choices(group).items():
        table.add_row(name, _first_comment(path), _source(path, folders))
    console.print(table)


def _print_classes(group: str, console: Terminal) -> None:
    """Print the entry points of a group: name, class, and the distribution it comes from."""
    table = Table(title=f"classes ({group})", title_justify="left")
    for column in ("name", "class", "from"):
        table.add_column(column, overflow="fold")
    for name, point in sorted(plugins.installed(group).items()):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist else "?"
        table.add_row(name, point.value, origin)
    console.print(table)


def _first_comment(path: Path) -> str:
    """Return the first comment of a YAML file, or nothing."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and not line.startswith("# @package"):
            return line.lstrip("# ").strip()
        if line and not line.startswith("#"):
            break
    return ""


def _source(path: Path, folders: Mapping[str, Path]) -> str:
    return next((name for name, folder in folders.items() if path.is_relative_to(folder)), str(path.parent))
