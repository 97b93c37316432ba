"""`fp2 list`: what can be chosen, and which package it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fp2 import plugins
from fp2.config import choices, conf_folders
from fp2.errors import Fp2Error, nearest

CLASSES = {
    "data": plugins.DATA,
    "engines": plugins.ENGINES,
    "scorers": plugins.SCORERS,
    "protocols": plugins.PROTOCOLS,
}
"""What is listed -> the entry-point group of the classes behind it."""
NOT_LISTED = frozenset({"__pycache__s"})


def list_choices(what: str | None, as_json: bool = False) -> None:
    """Print what can be chosen: everything, or one kind (`models`, `data`, `protocols`, ...); as tables, or as JSON.

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
    chosen = [_plural(what)] if what else kinds
    if as_json:
        found = {
            kind: [
                *(_choices(groups[kind]) if kind in groups else ()),
                *(_classes(CLASSES[kind]) if kind in CLASSES else ()),
            ]
            for kind in chosen
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    console = Console()
    for kind in chosen:
        if kind in groups:
            _print_choices(groups[kind], console)
        if kind in CLASSES:
            _print_classes(CLASSES[kind], console)


def _plural(group: str) -> str:
    return group if group in ("data", "narrow") or group.endswith("s") else f"{group}s"


def _print_choices(group: str, console: Console) -> None:
    """Print the YAML files of a config group: name, first comment line, and where it comes from."""
    table = Table(title=f"{group}=NAME", title_justify="left")
    for column in ("name", "description", "from"):
        table.add_column(column, overflow="fold")
    for row in _choices(group):
        table.add_row(*row.values())
    console.print(table)


def _choices(group: str) -> list[dict[str, str]]:
    """Return the YAML files of a config group: name, first comment line, and where each comes from."""
    folders = conf_folders()
    return [
        {"name": name, "description": _first_comment(path), "from": _source(path, folders)}
        for name, path in choices(group).items()
    ]


def _print_classes(group: str, console: Console) -> None:
    """Print the entry points of a group: name, class, and the distribution it comes from."""
    table = Table(title=f"classes ({group})", title_justify="left")
    for column in ("name", "class", "from"):
        table.add_column(column, overflow="fold")
    for row in _classes(group):
        table.add_row(*row.values())
    console.print(table)


def _classes(group: str) -> list[dict[str, str]]:
    """Return the entry points of a group: name, class, and the distribution each comes from."""
    return [
        {"name": name, "class": point.value, "from": f"{point.dist.name} {point.dist.version}" if point.dist else "?"}
        for name, point in sorted(plugins.installed(group).items())
    ]


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
