"""`fp2 list`: what can be chosen, and which package it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from fp2.extension import Fp2Error, Terminal, choices, conf_folders, hydra_overrides, nearest, plugins
from fp2.extension import groups as config_groups

CLASSES = {group.removeprefix("fp2."): group for group in plugins.GROUPS}
"""What is listed -> the entry-point group of the classes behind it."""


def list_choices(whats: Sequence[str], overrides: Sequence[str] = (), as_json: bool = False) -> None:
    """Print what can be chosen: everything, or some kinds (`models`, `data`, `protocols`, ...); as tables, or as JSON.

    `overrides` may name folders of config groups (`hydra.searchpath=[file://...]`).
    """
    hydra_overrides(overrides)
    groups = {_singular(name): name for name in config_groups()}
    classes = {_singular(kind): group for kind, group in CLASSES.items()}
    kinds = sorted({*groups, *classes})
    for what in whats:
        if _singular(what) not in kinds:
            names = sorted({*groups.values(), *CLASSES})
            raise Fp2Error(f"there is no list of {what!r}", where="fp2 list", fix=nearest(what, names))
    chosen = [_singular(what) for what in whats] or kinds
    if as_json:
        plain = {**groups, **{_singular(kind): kind for kind in CLASSES}}
        listed = {
            plain[kind]: [
                *(_choices(groups[kind]) if kind in groups else ()),
                *(_classes(classes[kind]) if kind in classes else ()),
            ]
            for kind in chosen
        }
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    console = Terminal()
    for kind in chosen:
        if kind in groups:
            _print(f"{groups[kind]}=NAME", _choices(groups[kind]), console)
        if kind in classes:
            _print(f"classes ({classes[kind]})", _classes(classes[kind]), console)


def _singular(kind: str) -> str:
    """Return the name of a kind without its plural s: a group is listed under either form."""
    return kind.rstrip("s")


def _print(title: str, rows: Sequence[Mapping[str, str]], console: Terminal) -> None:
    """Print rows with the same keys as a table; nothing without rows."""
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    console.print(table)


def _choices(group: str) -> list[dict[str, str]]:
    """Return the YAML files of a config group: name, first sentence of its comment, and where each comes from.

    Of data sets the whole comment is returned: it states licence, access and consent.
    """
    folders = conf_folders()
    return [
        {
            "name": name,
            "description": _description(path, whole=group == "data"),
            "from": next((package for package, at in folders.items() if path.is_relative_to(at)), str(path.parent)),
        }
        for name, path in choices(group).items()
    ]


def _classes(group: str) -> list[dict[str, str]]:
    """Return the entry points of a group: name, class, and the distribution each comes from."""
    return [
        {"name": name, "class": point.value, "from": f"{point.dist.name} {point.dist.version}" if point.dist else "?"}
        for name, point in sorted(plugins.installed(group).items())
    ]


def _description(path: Path, *, whole: bool) -> str:
    """Return the comment at the top of a YAML file, or its first sentence; indented lines are examples."""
    comments: list[str] = []
    for text in path.read_text(encoding="utf-8").splitlines():
        if text.startswith("# @package"):
            continue
        if not text.startswith("#") or text.startswith("#  "):
            break
        comments.append(text.lstrip("# ").strip())
    text = " ".join(comments)
    return text if whole else re.split(r"(?<=[.?]) (?=[A-Z])", text)[0]
