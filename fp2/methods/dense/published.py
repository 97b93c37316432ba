"""The exact wording of GRAS's questions, read from the user's checkout of its authors' repository.

An inference script of theirs has a list of five templates with `{}`, and one f-string that puts the instruction around
the question. Both are read from the script's syntax tree; nothing of it is executed. The wording is theirs, so none of
it is part of this project. It differs between models (BLIP-2 gets no instruction, and the runs of blanks have other
lengths), so the script is found by the model that it loads.

Blanks are kept as they are. Special tokens at both ends of a prompt (`<|user|>`) belong to the model's prompt format
(`model.prompt`) and are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fp2.extension import TRAIT, Fp2Error, digest

WHERE: Final = "probe.published"
_SPECIAL = r"(?:<\|[^<>|]+\|>)+"
_DEPTH: Final = 2
SCRIPTS: Final = "inference_scripts"  # of the repository; older scripts lay beside it


@dataclass(frozen=True)
class PublishedTemplates:
    """How one model is asked: the whole text of each template, with `{trait}`, and the script that it is from."""

    texts: tuple[str, ...]
    script: str

    @property
    def sha256(self) -> str:
        """The digest of the texts."""
        return digest(list(self.texts))


def read_wording(path: str, model_id: str | None) -> PublishedTemplates:
    """Return the wording for a model.

    Parameters
    ----------
    path : str
        The checkout (of which `inference_scripts` is read), another folder, or one script, which is then taken for any
        model.
    model_id : str, optional
        The hub id of the model, or a folder of that name.
    """
    folder = Path(path).expanduser()
    if folder.is_file():
        return _wording(folder)
    if not folder.is_dir():
        fix = "Give the folder of the authors' repository, or null for this project's wording"
        raise Fp2Error("there is no such file or folder", where=f"{WHERE}={path}", fix=fix)
    inside = folder / SCRIPTS
    files = _python_files(inside if inside.is_dir() else folder)
    scripts = {script: models for script in files if (models := _models(script))}
    wanted = _last(model_id or "")
    chosen = [script for script, models in scripts.items() if wanted in map(_last, models)]
    if not chosen:
        models_known = sorted({model for models in scripts.values() for model in models})
        message = f"no script in this folder asks {model_id}"
        fix = (
            f"They ask {', '.join(models_known)}; name the script to follow: {WHERE}=FILE"
            if models_known
            else _NO_SCRIPT
        )
        raise Fp2Error(message, where=f"{WHERE}={path}", fix=fix)
    wordings = [_wording(script) for script in chosen]
    for other in wordings[1:]:
        if other.texts != wordings[0].texts:
            message = f"{wordings[0].script} and {other.script} word the questions differently"
            raise Fp2Error(message, where=f"{WHERE}={path}", fix=f"Name the one to follow: {WHERE}=FILE")
    return wordings[0]


_NO_SCRIPT = "Give the folder of the authors' repository, which has inference_scripts, or null for our own wording"


def _python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files in a folder and at most two levels below, without hidden folders."""
    for depth in range(_DEPTH + 1):
        for path in sorted(folder.glob("*/" * depth + "*.py")):
            if not any(name.startswith(".") for name in path.relative_to(folder).parts):
                yield path


def _models(script: Path) -> list[str]:
    """Return the ids that a script with templates loads; none if it has no templates or cannot be parsed."""
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []
    if not _templates(tree):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
    names = [call.args[0] for call in calls if getattr(call.func, "attr", "") == "from_pretrained"]
    return list(dict.fromkeys(text for node in names if (text := _text(node)) is not None))


def _wording(script: Path) -> PublishedTemplates:
    """Return the wording of one script; raise Fp2Error if it is not of the known form."""
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "msg", None) or "it is not text"
        raise Fp2Error(f"the script cannot be read: {reason}", where=str(script)) from error
    templates, prompts = _templates(tree), _prompts(tree)
    if len(templates) != 1 or len(prompts) != 1:
        raise Fp2Error(
            f"the script has {len(templates)} lists of templates and {len(prompts)} prompts around a question, not one "
            "of each",
            where=str(script),
            fix="Is it an inference script of the authors' repository?",
        )
    before, after = prompts[0]
    before, after = re.sub(f"^{_SPECIAL}", "", before), re.sub(f"{_SPECIAL}$", "", after)
    return PublishedTemplates(tuple(before + text.replace("{}", TRAIT) + after for text in templates[0]), script.name)


def _templates(tree: ast.AST) -> list[tuple[str, ...]]:
    """Return the distinct lists of at least two texts with one `{}` each."""
    lists = [node.elts for node in ast.walk(tree) if isinstance(node, ast.List) and len(node.elts) > 1]
    text_lists = [tuple(text for item in items if (text := _text(item)) is not None) for items in lists]
    complete = [texts for texts, items in zip(text_lists, lists, strict=True) if len(texts) == len(items)]
    return list(dict.fromkeys(texts for texts in complete if all(text.count("{}") == 1 for text in texts)))


def _prompts(tree: ast.AST) -> list[tuple[str, str]]:
    """Return the distinct texts (before, after) of f-strings around a template that was filled in."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and len(node.targets) == 1]
    named = [(node.targets[0].id, node.value) for node in assigned if isinstance(node.targets[0], ast.Name)]
    constants = {name: text for name, value in named if (text := _text(value)) is not None}
    filled = {name for name, value in named if isinstance(value, ast.Call) and _attribute(value.func) == "format"}
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    prompts = [_around(node.values, filled, constants) for node in strings]
    return list(dict.fromkeys(pair for pair in prompts if pair is not None))


def _around(pieces: Sequence[ast.expr], filled: set[str], constants: dict[str, str]) -> tuple[str, str] | None:
    """Return the texts before and after the one filled template among the parts of an f-string; None otherwise."""
    sides: list[list[str]] = [[]]
    for piece in pieces:
        name = getattr(piece.value, "id", None) if isinstance(piece, ast.FormattedValue) else None
        if name in filled:
            sides.append([])
        elif name in constants:
            sides[-1].append(constants[name])
        elif (text := _text(piece)) is not None:
            sides[-1].append(text)
        else:
            return None
    return ("".join(sides[0]), "".join(sides[1])) if len(sides) == 2 else None


def _attribute(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _last(name: str) -> str:
    return re.split(r"[\\/]", name.rstrip("\\/"))[-1].casefold()
