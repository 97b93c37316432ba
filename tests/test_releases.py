"""What released versions wrote is read, verified, run again, scored again and purged by this one, to equal numbers.

`tests/releases/VERSION/` holds small runs on drawn people, as that version left them (`tests/releases/write.py`).
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from bench import fp2
from releases.write import PURGED, RESCORED, RUNS, SMALL, drawn, hash_of, interface

from fp2.report.verify import verify_passport
from fp2.results import Method, changed_methods, differences, owned

pytestmark = pytest.mark.long
RELEASES = sorted(path for path in (Path(__file__).parent / "releases").iterdir() if (path / "names.json").is_file())
ITS_OWN = ("run_id", "created", "fp2_version", "rescored_from", "purged")
"""What each run has of its own."""
LEXICON_SCORERS = ("stereotype", "confidence", "refusal", "economic")
VERSION_1 = {
    "default": (
        "scorer=[valence,stereotype,confidence,refusal,economic,trust_rating]",
        *(f"scorer.{name}.lexicon_file={name}" for name in LEXICON_SCORERS),
    ),
    **{name: (f"scorer.{name}.lexicon_file={name}",) for name in LEXICON_SCORERS},
}
"""The scorers of 0.3.0, by the choice of scorers: later versions have other defaults, and so other hashes."""
LEXICONS = {("0.3.0", "default"): ("scorer.economic.lexicon_file=economic",)}
"""The lexicon that a version's scorer had, where the default is another one since."""
OF_030 = {
    "experiment=gras_paper data.root=/data": ("probe.traits_file=null", "probe.published=null"),
    "experiment=page data.root=/data": ("data.stratify=[region]",),
}
"""What choices of 0.3.0 were without: settings that name the user's files, and the six regions of the page."""
INPUTS = {
    "fhibe_narrow": ("task.files.person_detection=boxes.json",),
    "fhibe_clip": ("model.id=clip",),
    "diversity": ("task.files.embeddings=embeddings.npz",),
}


LATEST = RELEASES[-1]


def repeated_runs(release: Path) -> list[str]:
    """Return the runs of a version that are repeated: all of the latest, with which every number is compared.

    Of an earlier one the default run is, and those that asked something else; a purge analyses all of its runs.
    """

    def is_other(name: str) -> bool:
        sets = [read(folder / "runs" / name / "results.json")["response_set"] for folder in (release, LATEST)]
        return sets[0] != sets[1]

    return [name for name in RUNS if release == LATEST or name == "default" or is_other(name)]


@pytest.fixture(scope="module", params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest) -> Path:
    """The folder of one released version; not to be changed."""
    return Path(request.param)


@pytest.fixture(scope="module")
def root(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with that version's store and runs."""
    folder = project(release, tmp_path_factory.mktemp("project"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FP2_ROOT", str(folder))
        yield folder


def project(release: Path, folder: Path) -> Path:
    """Put that version's store and salt into `folder`."""
    (folder / ".fp2").mkdir(parents=True)
    (folder / ".fp2" / "responses.sqlite").write_bytes(lzma.decompress((release / "responses.sqlite.xz").read_bytes()))
    shutil.copyfile(release / "salt", folder / ".fp2" / "salt")
    return folder


def read(path: Path) -> Any:
    """Return a JSON file, perhaps a compressed one."""
    text = path.read_bytes()
    return json.loads(lzma.decompress(text) if path.suffix == ".xz" else text)


def made(root: Path, *words: str) -> dict[str, Any]:
    """Run an `fp2` command that makes a run; return its results, and where they lie under `folder`."""
    before = set(root.rglob("results.json"))
    assert fp2(*words, f"paths.root={root}", "tracking.enabled=false") == 0
    (path,) = set(root.rglob("results.json")) - before
    return {**read(path), "folder": path.parent}


ADDED = ("methods", "disparity_summary", "architecture", "scorer_agreement", "notes")
"""Keys of results that later versions have as well, without an option."""


def same(old: Mapping[str, Any], new: Mapping[str, Any], methods: Sequence[Method]) -> list[str]:
    """Return where results differ beyond what each run has of its own, sentences for the reader, and changed methods.

    `methods`: those of the run; results say which versions they have.
    """
    # a run that was not analysed again names no methods, and has every number of before
    changed = changed_methods(old, methods) if "methods" in new else {}
    if "methods" in new:
        assert new["methods"] == {name: version for name, version, _ in methods}
    new = {key: value for key, value in new.items() if key not in ADDED or key in old}
    for name in ("dataset", "analysis", "model"):  # later versions state more
        stated = old.get(name, {})
        new[name] = {key: value for key, value in new.get(name, {}).items() if key in stated}
    return [place for place in differences(without(old), without(new)) if not owned(place, changed)]


def methods_of(folder: Path) -> tuple[Method, ...]:
    """Return the methods of a run from its files."""
    from fp2.compose import load_config
    from fp2.runs.logged import logged_config, logged_protocol

    config = logged_config(folder, load_config(["tracking.enabled=false"]), "")
    return logged_protocol(config, pd.read_parquet(folder / "people.parquet"))[0].all_methods()


def without(value: Any) -> Any:
    """Return results without what each run has of its own."""
    if isinstance(value, Mapping):
        return {key: without(item) for key, item in value.items() if key not in (*ITS_OWN, "folder")}
    return [without(item) for item in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def repeated(release: Path, root: Path) -> Callable[[str], dict[str, Any]]:
    """Repeat a run of that version; each is repeated once."""

    @cache
    def repeat(name: str) -> dict[str, Any]:
        words = [word.partition("=") for word in INPUTS.get(name, ())]
        inputs = [f"{key}={release / 'inputs' / file}" for key, _, file in words]
        return made(root, "rerun", str(release / "runs" / name), "report.figures=false", *inputs)

    return repeat


@pytest.mark.parametrize(
    "names", [("default", "gras"), pytest.param(tuple(RUNS), marks=pytest.mark.thorough)], ids=["two", "all"]
)
def test_runs_are_repeated_from_their_store_to_equal_numbers(
    names: Sequence[str], release: Path, repeated: Callable[[str], dict[str, Any]]
) -> None:
    for name in set(names) & set(repeated_runs(release)):
        check_repeated(release / "runs" / name, dict(repeated(name)))


def check_repeated(source: Path, again: dict[str, Any]) -> None:
    """Check that a repeated run asked no model, and has the numbers and tables of the run in `source`."""
    asked = again["answers"]
    assert asked["model_calls"] == 0
    assert asked["cached"] == asked["answered"] == read(source / "results.json")["answers"]["answered"]
    again["answers"] = read(source / "results.json")["answers"]
    old, methods = read(source / "results.json"), methods_of(source)
    assert same(old, again, methods) == []
    changed = changed_methods(old, methods)
    tables = {path.relative_to(source) for path in source.rglob("*.parquet")}
    assert {path.relative_to(again["folder"]) for path in again["folder"].rglob("*.parquet")} == tables
    for table in tables:
        old, new = (pd.read_parquet(folder / table) for folder in (source, again["folder"]))
        added = ("image_digest", *(f"{name}_order" for name in ("image_id", "subject_id", "set_id", "subject_b")))
        for column in ("cached", "seconds", "attempts", *added):
            old, new = (frame.drop(columns=column, errors="ignore") for frame in (old, new))
        if table.name == "disparities.parquet":
            other = [name for name in {*old.columns, *new.columns} if owned(f"disparities.0.{name}", changed)]
            old, new = (frame.drop(columns=other, errors="ignore") for frame in (old, new))
        pd.testing.assert_frame_equal(old, new, rtol=1e-12, atol=1e-12)


def test_the_passport_is_valid_and_a_new_one_says_the_same(
    release: Path, repeated: Callable[[str], dict[str, Any]]
) -> None:
    for name in RUNS:
        passport = release / "runs" / name / "passport.json"
        outcome = verify_passport(passport, [release / "passport_key.pub.pem"], allow_missing=True)
        assert outcome.ok, outcome.failures
        absent = {note.partition(":")[0] for note in outcome.notes if note.endswith("is missing")}
        assert all(file == "dashboard.html" or file.startswith("figures/") for file in absent)
    folders = (release / "runs" / "default", repeated("default")["folder"])
    old, new = (statement(folder / "passport.json") for folder in folders)
    assert keys_of(old) - keys_of(new) == set()
    changed = changed_methods({}, methods_of(folders[0]))
    added = [key.removeprefix(".predicate.").replace("[]", ".0") for key in keys_of(new) - keys_of(old)]
    new_parts = ("answers_root", "preregistration")
    assert [key for key in added if not key.startswith(new_parts) and not owned(key, changed)] == []


@pytest.mark.thorough
def test_passports_state_the_tests_and_limitations_of_their_protocol(
    release: Path, repeated: Callable[[str], dict[str, Any]]
) -> None:
    names = repeated_runs(release)
    stated = {name: statement(repeated(name)["folder"] / "passport.json")["predicate"] for name in names}
    tests = {name: predicate["statistics"]["tests"] for name, predicate in stated.items()}
    before = statement(release / "runs" / "default" / "passport.json")["predicate"]
    assert set(tests["default"]) == set(before["statistics"]["tests"])
    now, then = (
        [line for line in passport["limitations"] if "no row can be significant" not in line]
        for passport in (stated["default"], before)
    )
    assert len(now) == len(then)
    words = {
        **dict.fromkeys(("default", "attention", "fhibe_vqa"), ("p_value", "across subjects")),
        "twins": ("p_value", "within every set"),
        "gras": ("adjusted_p", "max-F"),
        "fhibe_narrow": ("published", "Mann-Whitney"),
    }
    assert [name for name in words.keys() & tests if words[name][1] not in tests[name][words[name][0]]] == []
    assert tests.get("diversity", {}) == {}

    def saying(words: str) -> set[str]:
        return {name for name, predicate in stated.items() if any(words in line for line in predicate["limitations"])}

    assert saying("VADER") == {"default", "simulated", "twins"} & stated.keys()
    assert saying("max-min gap") == stated.keys() - {"gras", "simulated_gras", "diversity"}
    assert saying("bias score") == {"gras", "simulated_gras"} & stated.keys()
    assert saying("English") == {"default", "simulated", "twins", "attention", "fhibe_vqa"} & stated.keys()


def statement(passport: Path) -> Any:
    """Return the payload of a passport."""
    import base64

    return json.loads(base64.b64decode(read(passport)["payload"]))


def keys_of(value: Any, prefix: str = "") -> set[str]:
    """Return the dotted keys of nested mappings; lists count by their first entry."""
    if isinstance(value, dict):
        return {key for name, item in value.items() for key in keys_of(item, f"{prefix}.{name}")}
    if isinstance(value, list) and value:
        return keys_of(value[0], f"{prefix}[]")
    return {prefix}


@pytest.mark.parametrize("name", RESCORED)
def test_a_run_is_scored_again_to_equal_numbers(name: str, release: Path, root: Path) -> None:
    words = (*RESCORED[name], *LEXICONS.get((release.name, name), ()))
    again = made(root, "rescore", str(release / "runs" / name), *words, "report=none")
    assert same(read(release / "rescored" / f"{name}.json.xz"), again, methods_of(release / "runs" / name)) == []


def test_people_are_removed_from_every_run_to_equal_numbers(release: Path, root: Path) -> None:
    root = project(release, root / "purged")
    outputs = Path(shutil.copytree(release / "runs", root / "outputs"))
    gone = sorted(set(drawn(*SMALL, f"paths.root={root}")["subject_id"]))[:PURGED]
    assert fp2("purge", *(word for one in gone for word in ("--subject", one)), "--yes", f"paths.root={root}") == 0
    for name in RUNS:
        old, new = (read(path) for path in (release / "purged" / f"{name}.json.xz", outputs / name / "results.json"))
        assert same(old, new, methods_of(outputs / name)) == [], name


def test_the_store_has_the_same_tables(release: Path, root: Path, tmp_path: Path) -> None:
    def tables(path: Path) -> dict[str, list[str]]:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for (name,) in found}

    stores = (project(release, tmp_path / "unused") / ".fp2", root / ".fp2")
    old, new = (tables(folder / "responses.sqlite") for folder in stores)
    assert {name: new.get(name) for name in old} == old


interface_now = cache(interface)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["some", "all"])
def test_commands_groups_and_keys_are_still_there_and_configs_keep_their_hash(release: Path, every: bool) -> None:
    """What changes the hash of a choice of an earlier version changes that of one of the latest."""
    old, new = read(release / "names.json"), interface_now()
    assert missing(old["commands"], new["commands"]) == []
    assert {
        group: sorted(set(old["groups"][group]) - set(new["groups"].get(group, {}))) for group in old["groups"]
    } == {group: [] for group in old["groups"]}
    hashes = {
        words: value
        for words, value in old["hashes"].items()
        if not value.startswith("error")
        and ((every and release == LATEST) or not words or words.startswith("experiment="))
    }
    for words, value in hashes.items():
        without = OF_030.get(words, ())
        choices = (split(words), [*split(words), *without], [*with_scorers_of_030(words), *without])
        assert any(hash_of(choice) == value for choice in choices), words


def split(choice: str) -> list[str]:
    """Return the words of a choice: a blank within braces separates none."""
    return [word for word in re.split(r" (?![^{]*})", choice) if word]


def with_scorers_of_030(choice: str) -> list[str]:
    """Return the words of a choice of 0.3.0 with the scorers that it had."""
    words = [word for word in split(choice) if word != "scorer=default"]
    scorer = next((word.removeprefix("scorer=") for word in words if word.startswith("scorer=")), "default")
    return [*words, *VERSION_1.get(scorer, ())]


def missing(old: Any, new: Any, prefix: str = "") -> list[str]:
    """Return the commands and options that are no longer there."""
    if isinstance(old, dict):
        return [line for name in old for line in missing(old[name], new.get(name, {}), f"{prefix} {name}")]
    return [f"{prefix} {option}" for option in old if option not in new]
