"""The structure of the code: files, lines, cycles, importers, and what one answer passes through.

    python benchmarks/structure.py               this checkout
    python benchmarks/structure.py --root PATH   another one, such as that of an earlier version
    python benchmarks/structure.py --trace       also run the default experiment and count the files that it executes

Code lines are those that hold a token besides comments, docstrings and blanks. An import counts wherever it stands,
inside functions and for the type checker included; a package and its `__init__` are one module. The direction is the
layers contract of `pyproject.toml` of this checkout: modules that it does not name are not counted. Cycles are groups
of modules that reach each other (strongly connected components), among imports that are executed.

A module with one importer or none is *resolved by a path* if a config file, an entry point or a text in the code names
it with something in it (`fp2.module:Name`), if its package imports its modules by name (`import_module`), if it is run
as a file (`module.py`), or if only the command line imports it, inside a function. That is the design; what is left are
modules that one other module imports, and those that nothing in the package does.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tempfile
import threading
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

HERE = Path(__file__).resolve().parents[1]
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
           tokenize.ENCODING}  # fmt: skip
_NAMED = re.compile(r"(?:\bfp2|^)(?:\.\w+)+(?=:[A-Za-z_])")


def modules(root: Path) -> dict[str, Path]:
    """Return the files of the package by module name."""
    paths = (root / "fp2").rglob("*.py")
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def code_lines(text: str) -> int:
    """Return the number of lines with code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                docstrings.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - docstrings)


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[str, bool, bool]]:
    """Yield the modules of the package that a module imports: for the type checker only? Outside of functions?"""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checked: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            checked.update(id(inner) for part in node.body for inner in ast.walk(part))
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [one if one in known else node.module for one in inner]
        where = id(node) in checked, node in tree.body
        yield from ((one, *where) for one in names if one in known and one != name)


def layers() -> dict[str, int]:
    """Return the layer of each part of the package, 0 at the top."""
    contracts = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    listed = next(one["layers"] for one in contracts if one["type"] == "layers")
    return {name.strip(): place for place, line in enumerate(listed) for name in line.split("|")}


def resolved(root: Path, known: dict[str, Path], importers: dict[str, dict[str, bool]]) -> set[str]:
    """Return the modules that are found by a path, run as a file, or imported by the command line's functions only.

    importers : module -> the modules that import it, each with whether outside of functions
    """
    commands = {name for name, by in importers.items() if by == {"fp2.cli": False}}
    texts = [path.read_text(encoding="utf-8") for path in (root / "conf").rglob("*.yaml")]
    texts.append((root / "pyproject.toml").read_text(encoding="utf-8"))
    named = {match for text in texts for match in _NAMED.findall(text)}
    for name, path in known.items():
        code = path.read_text(encoding="utf-8")
        nodes = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
        texts = [value for value in nodes if isinstance(value, str)]
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for match in (match for text in texts for match in _NAMED.findall(text)):
            named.add(package + match if match.startswith(".") else match)  # f"{PACKAGE}.module:Name"
        siblings = {one for one in known if one.rpartition(".")[0] == package}
        named |= {one for one in siblings if f"{one.rpartition('.')[2]}.py" in texts}
        if path.name == "__init__.py" and "import_module" in code:
            named |= {one for one in siblings if "iter_modules" in code or one.rpartition(".")[2] in texts}
    return commands | named


def measure(root: Path) -> dict[str, Any]:
    """Return the numbers of a checkout."""
    known, rank = modules(root), layers()
    texts = {name: path.read_text(encoding="utf-8") for name, path in known.items()}
    found = {(name, *one) for name, path in known.items() for one in imports(name, path, known)}
    edges = {edge[:3] for edge in found}
    importers: dict[str, dict[str, bool]] = {name: {} for name in known}
    for a, b, _, outside in found:
        importers[b][a] = outside or importers[b].get(a, False)
    few = {name for name, by in importers.items() if len(by) <= 1 and known[name].name != "__init__.py"}
    by_path = few & resolved(root, known, importers)
    place = {name: k for k, name in enumerate(known)}
    run = [(place[a], place[b]) for a, b, checking in edges if not checking]
    graph = coo_array(([1] * len(run), tuple(zip(*run, strict=True))), shape=(len(known), len(known)))
    _, labels = connected_components(graph, directed=True, connection="strong")
    sizes = [list(labels).count(label) for label in set(labels)]

    def layer(name: str) -> int | None:
        return rank.get(name.split(".")[1]) if "." in name else None

    against = sum(
        1 for a, b, _ in edges if (x := layer(a)) is not None and (y := layer(b)) is not None and x > y
    )  # fmt: skip
    top = root / "fp2"
    return {
        "files": len(known),
        "lines": sum(text.count("\n") for text in texts.values()),
        "code lines": sum(map(code_lines, texts.values())),
        "modules at the top level": len([path for path in top.glob("*.py") if path.name != "__init__.py"]),
        "import cycles": sum(size > 1 for size in sizes),
        "modules in cycles": sum(size for size in sizes if size > 1),
        "imports against the direction": against,
        "modules with at most one importer": len(few),
        "of these, resolved by a path": len(by_path),
        "of the others, with one importer": sum(bool(importers[name]) for name in few - by_path),
        "of the others, with none": sorted(name for name in few - by_path if not importers[name]),
    }


def executed(root: Path) -> int:
    """Return how many files of the package execute a function in a default run with new answers (few people)."""
    sys.path.insert(0, str(root))
    seen: set[str] = set()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    from fp2.cli import main

    with tempfile.TemporaryDirectory() as folder:
        sys.argv = [
            "fp2",
            "run",
            "model=planted",
            "data.n_subjects=60",
            "report=none",
            "tracking=none",
            f"paths.root={folder}",
        ]
        threading.setprofile(watch)
        sys.setprofile(watch)
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.setprofile(None)
    return len({name for name in seen if Path(name).is_relative_to(root / "fp2")})


def main() -> None:
    """Print the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=HERE)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--json", action="store_true", help="print one line")
    given = parser.parse_args()
    root = given.root.resolve()
    found = measure(root)
    if given.trace:
        found["files that a default run executes"] = executed(root)
    print(json.dumps(found, indent=None if given.json else 2))


if __name__ == "__main__":
    main()
