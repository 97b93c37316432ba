"""`fp2 new`: a package of one's own with a scorer, data set, engine or protocol that runs, and its test."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fp2.extension import Fp2Error, Output, __version__, artifacts, nearest

_TEMPLATES = Path(__file__).parent / "scaffold"
_COMMON = "common"
KINDS = {
    # folder of templates: (group of entry points, module, config group, command that uses it)
    "scorer": ("scorers", "scorer", "scorers", "fp2 run scorer={name}"),
    "dataset": ("data", "data", "data", "fp2 run data={name} data.root=FOLDER cut.by=[team]"),
    "engine": ("engines", "engine", "engines", "fp2 run model={name}"),
    "protocol": ("protocols", "protocol", "protocols", "fp2 run probe={name} scorer=none"),
}


def new(kind: str, name: str, folder: Path, as_json: bool = False) -> None:
    """Write the package `fp2_NAME` into `folder/fp2_NAME` and print its files."""
    from importlib.metadata import entry_points

    if kind not in KINDS:
        raise Fp2Error(f"{kind!r} cannot be created", where="fp2 new", fix=nearest(kind, KINDS))
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        fix = "Small letters, digits and _, such as my_scorer"
        raise Fp2Error(f"{name!r} is not a valid name", where="fp2 new", fix=fix)
    group, module, listed, command = KINDS[kind]
    if matching_points := [point for point in entry_points(group=f"fp2.{group}") if point.name == name]:
        raise Fp2Error(f"{name!r} is taken by {matching_points[0].value}", where="fp2 new", fix="Choose another name")
    package, target = f"fp2_{name}", folder / f"fp2_{name}"
    if target.exists():
        raise Fp2Error("the folder exists already", where=str(target), fix="Choose another name or folder")
    substitutions = {
        "kind": kind,
        "name": name,
        "package": package,
        "module": module,
        "group": group,
        "listed": listed,
        "class": "".join(template.capitalize() for template in name.split("_")),
        "title": name.replace("_", " ").capitalize(),
        "version": __version__,
        "command": command.format(name=name),
    }
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        variable_start_string="[[ ",
        variable_end_string=" ]]",
        block_start_string="[%",
        block_end_string="%]",
        comment_start_string="[##",
        comment_end_string="##]",
    )
    files = []
    with artifacts.as_user_error(target):
        for template in (_COMMON, kind):
            for source in sorted((_TEMPLATES / template).rglob("*.tmpl")):
                inner = source.relative_to(_TEMPLATES / template).as_posix().removesuffix(".tmpl")
                path = target / inner.replace("PACKAGE", package).replace("NAME", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                text = environment.get_template(source.relative_to(_TEMPLATES).as_posix()).render(substitutions)
                path.write_text(text, encoding="utf-8")
                files.append(str(path))
    with Output(as_json) as out:
        out.say("\n".join(files), files=files)
        out.say(
            f"\nnext: pip install -e {target} && python -m pytest {target / 'tests'}\nthen: {substitutions['command']}"
        )
