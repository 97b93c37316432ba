"""README and docs name what exists: paths, modules, links, commands and their overrides."""

from __future__ import annotations

import ast
import csv
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import griffe
import pytest
import typer
from bench import REPOSITORY, load_config

import fp2 as library
from fp2.cli import app
from fp2.compose import check_overrides, hydra_overrides
from fp2.config import choices
from fp2.data.base import DataSource
from fp2.engines.base import Engine
from fp2.errors import Fp2Error
from fp2.protocols.base import Analyses, Asks, Collects
from fp2.scorers.base import Scorer

pytestmark = pytest.mark.long

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "fp2/models/*/*.md")
    for path in REPOSITORY.glob(pattern)
)
FOLDERS = ("fp2", "conf", "docs", "tests", "benchmarks", "examples", "training")
INVENTED = {
    "conf/model/my_model.yaml",
    "conf/data/mine.yaml",
    "conf/data/tiles.yaml",
    "conf/probe/pronoun.yaml",
}
"""Files that a reader is shown how to write, or that the example plug-in has."""
PLACEHOLDERS = {
    "analysis.primary=NAME": "analysis.primary=valence",
    "model=NAME": "model=qwen2_5_vl_3b",
    "data=NAME": "data=peeps",
    "scorer=NAME": "scorer=valence",
}
OWN_FILES = (
    "model=my_model",
    "probe=leader",
    "probe=survey",
    "probe=pronoun",
    "experiment=consistency",
    "experiment=word_count",
)
"""Choices that a page or the example plug-in defines."""


PAGES_OF_DOCS = [page for page in PAGES if REPOSITORY / "docs" in page.parents]


def name_of(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@every_page
def test_links_lead_to_files_and_headings(page: Path) -> None:
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            place, _, heading = unquote(target).partition("#")
            file = (page.parent / place).resolve() if place else page
            if not file.exists() or (heading and heading not in headings(file)):
                missing.append(target)
    assert missing == []


@every_page
def test_paths_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(rf"(?<![\w./:-])((?:{'|'.join(FOLDERS)})/[\w./*-]*\w)", text)
    missing = [path for path in named if path not in INVENTED and not any(REPOSITORY.glob(path))]
    assert missing == []


def test_paths_in_data_files_exist() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "docs").rglob("*.csv"))
    named = re.findall(rf"(?<![\w./:-])((?:{'|'.join(FOLDERS)})/[\w./*-]*\w)", text)
    assert len(named) > 20
    assert [path for path in named if not any(REPOSITORY.glob(path))] == []


@every_page
def test_python_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w./@-])fp2(?:\.\w+)+", text)) - tags_and_groups()
    named |= {
        f"{module}.{name}"
        for module, names in re.findall(r"^from (fp2[\w.]*) import ([\w, ]+)$", text, re.M)
        for name in names.split(", ")
    }
    assert [name for name in sorted(named) if not is_python_name(name)] == []


def test_the_table_of_statistics_names_modules_and_what_they_define() -> None:
    with (REPOSITORY / "docs" / "statistics.csv").open(encoding="utf-8", newline="") as file:
        named = [function for row in csv.DictReader(file) for function in row["functions"].split("; ")]
    assert len(named) > 20
    assert [name for name in named if not is_python_name(name)] == []


@every_page
def test_commands_are_accepted(page: Path) -> None:
    """Every `fp2` command exists with its options, and the overrides of every run compose to a valid config."""
    wrong = []
    for command in commands(page):
        problem = problem_of(command)
        if problem:
            wrong.append(f"{command}: {problem}")
    assert wrong == []


def test_the_messages_of_troubleshooting_are_those_of_the_code() -> None:
    page = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    strings = "\n".join(
        node.value
        for path in (REPOSITORY / "fp2").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    lines = re.findall(r"^- (`.*?)(?:: )", page, re.M)
    messages = [message for line in lines for message in re.findall(r"`(.*?)`", line)]
    parts = [part for message in messages for part in re.split(r" ?… ?", message) if part]
    assert len(messages) > 35
    assert [part for part in parts if part not in strings] == []


GENERATED = ("glossary.md", "validity.md", "coverage.md")
"""The glossary, a page that a benchmark writes, and the one that quotes documents; they link it at the top."""
EVERYDAY = frozenset({
    "answer", "attribute", "biased", "block", "cell", "claim", "coverage", "dimension", "equivalent", "excess",
    "family", "fingerprint", "gap", "group", "image", "judge", "label", "look", "magnitude", "origin", "ours",
    "outcome", "p-value", "pin", "profile", "question", "resolver", "row", "run", "sample", "section", "shard",
    "size unclear", "significant", "specification", "subject", "task", "template", "worker",
})  # fmt: skip
"""Terms of one word that pages also use in their everyday sense, and the halves of a verdict with a comma."""


CODE_AND_LINKS = (
    r"```.*?```", r"`[^`]*`", r"^    [^\n]*", r"^#[^\n]*",
    r"\[[^\]]*\]\((?!(?:\.\./)?glossary\.md)[^)]*\)", r"\]\([^)]*\)",
)  # fmt: skip
"""What is no prose; of links to the glossary, only their target."""


def terms_of(line: str) -> list[str]:
    """Return the terms of a row of the glossary; what stands in code or in brackets is left out."""
    first = re.sub(r"\(.*?\)|`[^`]*`", "", line.split("|")[1])
    return [term for part in first.split(",") if (term := part.strip()) and term not in ("term", "verdict")]


@cache
def glossary_terms() -> dict[str, re.Pattern[str]]:
    """Return a pattern for each term that has to be linked at its first use on a page."""
    lines = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    terms = {term for line in lines if line.startswith("| ") for term in terms_of(line)} - EVERYDAY
    return {
        term: re.compile(rf"(?<![\w-]){re.escape(term)}(?:s|es)?(?![\w-])".replace(r"\ ", r"\s+"), re.I)
        for term in sorted(terms)
    }


def unlinked(page: Path) -> list[tuple[str, int, int]]:
    """Return the terms whose first use, outside code, headings and other links, is no link to the glossary."""
    text = page.read_text(encoding="utf-8")
    for hidden in CODE_AND_LINKS:
        text = re.sub(hidden, lambda found: re.sub(r"[^\n]", "\0", found[0]), text, flags=re.S | re.M)
    linked = [found.span() for found in re.finditer(r"\[[^\]\0]*(?=\0)", text)]
    uses = ((term, pattern.search(text)) for term, pattern in glossary_terms().items())
    spans = [(term, *use.span()) for term, use in uses if use]
    return [(term, at, to) for term, at, to in spans if not any(low <= at and to <= high for low, high in linked)]


@pytest.mark.parametrize("page", [page for page in PAGES_OF_DOCS if page.name not in GENERATED], ids=name_of)
def test_terms_link_to_the_glossary_at_first_use(page: Path) -> None:
    assert [term for term, *_ in unlinked(page)] == []


@every_page
def test_a_term_is_linked_once_and_no_paragraph_is_long(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    terms = re.findall(r"\[([^\]]+)\]\([^)]*glossary\.md#", text.casefold())
    assert page.name == "README.md" or sorted(set(terms)) == sorted(terms)
    paragraphs = re.split(r"\n\s*\n|\n(?= *- |\d+\. |\|)", text)
    assert [paragraph for paragraph in paragraphs if len(paragraph.split()) > 120] == []


@pytest.mark.parametrize("page", PAGES_OF_DOCS, ids=name_of)
def test_every_page_is_linked_from_another_and_links_the_glossary(page: Path) -> None:
    others = "".join(path.read_text(encoding="utf-8") for path in PAGES if path != page)
    assert f"{page.name})" in others or f"{page.name}#" in others
    if page.name != "glossary.md":
        assert "glossary.md" in page.read_text(encoding="utf-8")


def test_the_check_of_commands_finds_mistakes() -> None:
    assert problem_of("fp2 plann")
    assert problem_of("fp2 compare A B --jason x.json")
    assert problem_of("launch.py model=peeps_vml")
    assert problem_of("fp2 rescore RUN_ID analysis.alfa=0.01")
    assert problem_of("fp2 plan model=peeps_vlm cut.by=[gender]") is None
    for wrong in (
        "make dox",
        "pip install 'fp2[rai]'",
        "pip install ./examples/plugins",
        "sbatch a.sbatch model=gone",
        "python benchmarks/structures.py",
        "python -m benchmarks.scorers --error refusal",
    ):
        assert problem_of(wrong)
    assert not is_python_name("fp2.runs.purje")
    assert is_python_name("fp2.stats.disparities.disparity_panel")


def commands(page: Path) -> Iterator[str]:
    """Yield the commands of a page, from code blocks and code spans."""
    yield from blocks(page)
    yield from spans(page)


def blocks(page: Path) -> Iterator[str]:
    """Yield the commands of a page's code blocks, continued lines joined, without comments."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.M | re.S) + re.findall(r"(?:^(?: {4}).*\n)+", text, re.M)
    return _commands("\n".join(found).replace("\\\n", " ").splitlines())


def spans(page: Path) -> Iterator[str]:
    """Yield the commands in a page's text."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return _commands(re.findall(r"`([^`\n]+)`", text))


PROGRAMS = (
    r"python -m (?:benchmarks|training)|python (?:benchmarks|docs|examples|tests)/|make [a-z]|pip install |sbatch |"
)
PROGRAMS += r"mlflow server|vllm serve "
"""The beginnings of commands of other programs than `fp2`."""


def _commands(lines: list[str]) -> Iterator[str]:
    for line in lines:
        found = re.match(rf"\s*(?:(?:python )?(launch\.py .+|fp2 [a-z].*)|((?:{PROGRAMS}).*))$", line)
        command = found and (found[1] or found[2])
        if command and "..." not in command.split(" #")[0].replace("outputs/2026-.../", "").replace("/.../", ""):
            yield re.split(r"\s+#", command)[0].strip()


def problem_of(command: str) -> str | None:
    """Return what is wrong with a command, or None."""
    program, *words = shlex.split(command)
    if program == "launch.py":
        return problem_of_overrides(words)
    if program != "fp2":
        return problem_of_program(program, words)
    known = typer.main.get_command(app)
    while words and words[0] in getattr(known, "commands", {}):
        known = known.commands[words.pop(0)]  # type: ignore[attr-defined]
    if getattr(known, "commands", None) and words:
        return f"unknown command {words[0]!r}"
    options = {option for parameter in known.params for option in (*parameter.opts, *parameter.secondary_opts)}
    unknown = [word for word in words if word.startswith("--") and word not in {*options, "--help", "--verify-inputs"}]
    if unknown:
        return f"unknown options {unknown}"
    problem = problem_of_overrides([word for word in words if re.match(r"[\w.]+=", word)])
    without = known.name in ("plan", "pin") and problem and problem.endswith("Add data.root=PATH")  # these need no data
    return None if without else problem


def problem_of_program(program: str, words: list[str]) -> str | None:
    """Return what is wrong with a command of make, pip, Python, SLURM or MLflow, or None; vLLM is not looked up."""
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.M)
        return None if words[0] in targets else f"no target {words[0]!r}"
    if program == "pip":
        extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        named = [extra for word in words for extra in re.findall(r"^fp2\[(.*)\]$", word)]
        folders = [word for word in words if word.startswith("./")]
        known = set(named) <= set(extras) and all((REPOSITORY / one / "pyproject.toml").exists() for one in folders)
        return None if known else "no such extra or package"
    if program == "sbatch":
        script = next(word for word in words if word.endswith(".sbatch"))
        overrides = [word for word in words if re.match(r"[\w.]+=", word)]
        return problem_of_overrides(overrides) if (REPOSITORY / script).exists() else f"no script {script}"
    if program == "python":
        place = REPOSITORY / (words[1].replace(".", "/") if words[0] == "-m" else words[0])
        files = [*place.glob("*.py"), *(one for one in (place, place.with_suffix(".py")) if one.is_file())]
        return _unknown_options(words, files) if files else f"no script {words}"
    if program == "mlflow":
        package = Path(str(next(iter(find_spec("mlflow").submodule_search_locations))))  # type: ignore[union-attr,arg-type]
        return _unknown_options(words, [package / "cli" / "__init__.py", package / "utils" / "cli_args.py"])
    return None


def _unknown_options(words: list[str], files: list[Path]) -> str | None:
    """Return the options that none of the files has as a string, or None."""
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    unknown = [word for word in words if word.startswith("--") and not re.search(rf'"{word}["/]', source)]
    return f"unknown options {unknown}" if unknown else None


GROUPS = ("model", "data", "scorer", "variant", "probe")
"""Groups whose choices are files; a cut may be an attribute."""


@cache
def _compose(words: tuple[str, ...]) -> str | None:
    try:
        with suppress(Fp2Error):
            load_config(words)
            return None
        check_overrides(hydra_overrides(words))  # of a sweep each choice
    except Fp2Error as error:
        return None if "pip install 'fp2[" in str(error) else str(error)  # of an extra that is not installed here
    return None


def problem_of_overrides(words: list[str]) -> str | None:
    """Return why the overrides do not compose, or None; of several choices the first stands for all."""
    kept = [PLACEHOLDERS.get(word, word) for word in words if not word.startswith(("-", "hydra.searchpath"))]
    for place, (group, _, names) in enumerate(word.partition("=") for word in kept):
        if group == "sweep" or (re.fullmatch(r"[a-z]\w*(,[a-z]\w*)+", names) and group in GROUPS):
            if unknown := set(names.split(",")) - set(choices(group)):  # each is composed in test_compose.py
                return f"unknown {group} {sorted(unknown)}"
            kept[place] = f"{group}={names.split(',')[0]}" if group != "sweep" else ""
    kept = [word for word in kept if word]
    return _compose(tuple(word for word in kept if not word.startswith(OWN_FILES)))


def tags_and_groups() -> set[str]:
    """Return the entry-point groups and the MLflow tags, which look like Python names."""
    toml = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    return {
        *re.findall(r'entry-points\."(fp2\.\w+)"', toml),
        "fp2.conf",
        "fp2.forms",
        "fp2.variant",
        "fp2.answers",
        "fp2.remote_code",
        "fp2.version",
        "fp2.git_commit",
        "fp2.dirty",
    }


def is_python_name(name: str) -> bool:
    """Return whether `fp2.a.b.C` is a module, or a name that a module defines or imports (no module is imported)."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = REPOSITORY.joinpath(*parts[:length])
        file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
        if file.exists():
            rest = parts[length:]
            stub = file.with_suffix(".pyi")
            return not rest or rest[0] in names_in(stub if stub.exists() else file)
    return False


def names_in(file: Path) -> set[str]:
    """Return the top-level names of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)  # names that a package offers lazily
    return found


def headings(file: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    lines = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


INTERFACES: dict[type, tuple[str, ...]] = {
    Scorer: ("score",),
    Engine: ("method", "task_identity", "lacking", "learn", "answer"),
    DataSource: ("load", "preview"),
    Analyses: ("analyse", "check", "recall"),
    Asks: ("check_battery", "stimuli", "assign_scores"),
    Collects: ("collect",),
}
"""What an extension writes that takes arguments."""


def documented() -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes of the Python interface and what extensions write, by name."""
    yield from ((f"fp2.{name}", getattr(library, name)) for name in library.__all__)
    for interface, methods in INTERFACES.items():
        yield from ((f"{interface.__name__}.{name}", getattr(interface, name)) for name in methods)


@pytest.mark.parametrize(("name", "found"), [pytest.param(*one, id=one[0]) for one in documented()])
def test_docstrings_have_the_sections_of_numpydoc(name: str, found: Any) -> None:
    """Every parameter and no other, what is returned or yielded, and what is raised."""
    sections: dict[str, list[str]] = {}
    parsed = griffe.Docstring(inspect.cleandoc(found.__doc__), parser="numpy").parse()
    for section in parsed:
        if isinstance(section.value, list) and section.kind.value != "examples":
            sections[section.kind.value] = [str(getattr(one, "name", None) or one.annotation) for one in section.value]
    if inspect.isclass(found):
        stated = sections.get("attributes", []) + sections.get("parameters", [])
        assert [part for one in stated for part in one.split(", ")] == list(inspect.signature(found).parameters)
        return
    signature = inspect.signature(found)
    stated = [part for one in sections.get("parameters", []) for part in one.split(", ")]
    assert stated == [one for one in signature.parameters if one != "self"]
    assert bool({"returns", "yields"} & sections.keys()) == (signature.return_annotation != "None")
    assert ("raise Fp2Error" not in inspect.getsource(found)) or "Fp2Error" in sections["raises"]


def test_terms_of_use_are_stated_for_every_data_set() -> None:
    with (REPOSITORY / "docs" / "data_terms.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row.values() for row in rows)
    named = [name for row in rows for name in row["data"].split("; ")]
    assert sorted(named) == sorted(choices("data"))
