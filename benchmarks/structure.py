"""What somebody has to read: sizes of core and method packages, interfaces, names, and what a default run executes.

    python benchmarks/structure.py               this checkout
    python benchmarks/structure.py --root PATH   another one, such as that of an earlier version
    python benchmarks/structure.py --trace       also run the default experiment: its files, lines and depth

Code lines are those that hold a token besides comments, docstrings and blanks. The core is everything but
`fp2/methods`. An import counts wherever it stands, inside functions and for the type checker included. The direction is
the layers contract of `pyproject.toml` of this checkout. Cycles are groups of modules that reach each other (strongly
connected components), among imports that are executed.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import sys
import tempfile
import threading
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

HERE = Path(__file__).resolve().parents[1]
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
           tokenize.ENCODING}  # fmt: skip
INTERFACES = (
    "EvaluationProtocol", "Asks", "Collects", "Analyses", "Supplement", "Section", "Engine", "Scorer", "Storage",
    "DataSource",
)  # fmt: skip
VAGUE = {
    "found", "known", "kept", "told", "said", "made", "one", "own", "what", "words", "left", "part", "parts", "given",
    "asked", "looked", "place", "places", "some", "least", "most", "others", "beside", "ends", "again", "why", "which",
    "here", "there", "every", "whole", "seen", "shown", "used", "taken", "things", "line", "lines",
}  # fmt: skip
"""Words that do not say what a name holds."""


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


def measure(root: Path) -> dict[str, Any]:
    """Return the numbers of a checkout."""
    files, rank = modules(root), layers()
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    core = [name for name in files if not name.startswith("fp2.methods")]
    edges = {
        (name, target, checked) for name, path in files.items() for target, checked, _ in imports(name, path, files)
    }
    order = {name: k for k, name in enumerate(files)}
    pairs = [(order[a], order[b]) for a, b, checked in edges if not checked]
    graph = coo_array(([1] * len(pairs), tuple(zip(*pairs, strict=True))), shape=(len(files), len(files)))
    _, labels = connected_components(graph, directed=True, connection="strong")
    cycles = [size for size in Counter(labels.tolist()).values() if size > 1]

    def layer(name: str) -> int:
        return rank.get(name.split(".")[1], -1) if "." in name else -1

    against = sum(0 <= layer(b) < layer(a) for a, b, _ in edges)
    templates = list((root / "fp2").rglob("*.j2"))
    tests = [path.read_text(encoding="utf-8").count("\n") for path in (root / "tests").rglob("*.py")]
    return {
        "files": len(files),
        "lines": sum(text.count("\n") for text in texts.values()),
        "code lines": sum(map(code_lines, texts.values())),
        "core: files": len(core),
        "core: lines": sum(texts[name].count("\n") for name in core),
        "import cycles": len(cycles),
        "imports against the direction": against,
        **helpers(trees.values()),
        "names that are vague, in per cent": vague(trees.values()),
        "public members": members(trees.values()),
        'files with "biased"': sum('"biased"' in text for text in texts.values()),
        "templates: lines": sum(path.read_text(encoding="utf-8").count("\n") for path in templates),
        "tests: lines": sum(tests),
        "docs: words": sum(len(path.read_text(encoding="utf-8").split()) for path in (root / "docs").rglob("*.md")),
    }


def helpers(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Return the private functions of modules that are used once in their module, and their lines."""
    count = lines = 0
    for tree in trees:
        nodes = list(ast.walk(tree))
        uses = Counter(node.id for node in nodes if isinstance(node, ast.Name))
        uses.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("_") and uses[node.name] == 1:
                count, lines = count + 1, lines + (node.end_lineno or node.lineno) - node.lineno + 1
    return {"private functions called once": count, "their lines": lines}


def vague(trees: Iterable[ast.Module]) -> float:
    """Return the share of names that are set or passed and are in `VAGUE`, in per cent."""
    names = [
        node.id if isinstance(node, ast.Name) else node.arg
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.arg) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    ]
    return round(100 * sum(name in VAGUE for name in names) / len(names), 1)


def members(trees: Iterable[ast.Module]) -> dict[str, int]:
    """Return the number of public methods and annotated attributes of the interfaces."""
    return {
        node.name: sum(
            isinstance(item, ast.AnnAssign | ast.FunctionDef) and not _name_of(item).startswith("_")
            for item in node.body
        )
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in INTERFACES
    }


def _name_of(item: ast.AnnAssign | ast.FunctionDef) -> str:
    return item.name if isinstance(item, ast.FunctionDef) else ast.unparse(item.target)


def executed(root: Path) -> dict[str, Any]:
    """Return what a default run with new answers executes (few people): files, lines of functions, stack depth."""
    sys.path.insert(0, str(root))
    prefix = str(root / "fp2") + "/"
    depths: dict[CodeType, int] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # CO_OPTIMIZED: functions, not the bodies of modules and classes
        if event != "call" or not code.co_flags & 1 or code in depths or not code.co_filename.startswith(prefix):
            return
        depth, caller = 0, frame
        while caller is not None:
            depth, caller = depth + caller.f_code.co_filename.startswith(prefix), caller.f_back
        depths[code] = depth

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
    lines: dict[str, set[int]] = {}
    for code in depths:
        numbers = [line for _, _, line in code.co_lines() if line]
        if numbers and not code.co_name.startswith("<"):
            lines.setdefault(code.co_filename, set()).update(range(min(numbers), max(numbers) + 1))
    return {
        "default run: files": len(lines),
        "default run: lines": sum(map(len, lines.values())),
        "default run: depth of the permutation": min(d for c, d in depths.items() if c.co_name == "permutation_p"),
    }


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
        found |= executed(root)
    print(json.dumps(found, indent=None if given.json else 2))


if __name__ == "__main__":
    main()
