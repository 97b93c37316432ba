"""The table of families, and two of them for real: built, and asked as the table says."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench import REPOSITORY
from thorough import thorough_but

from fp2.data.pixels import digest_image
from fp2.engines.hf.engine import UNKNOWN_FAMILY, HfEngine, HfOptions
from fp2.engines.hf.families import _FAMILIES
from fp2.engines.hf.model import HfSpec
from fp2.engines.hf.prefix_policy import boundaries, candidates
from fp2.methods.prefix_sharing.copied_prefix import CopiedPrefix
from fp2.tables import Decoding, ImageTask, Question

TABLE = REPOSITORY / "fp2" / "engines" / "hf" / "families.csv"
ASKED = tuple(
    Question(trait, "trait", f"Is this person {trait}? Answer with Yes or No.", "yes_no") for trait in ("kind", "dull")
)
WORDS = (
    Question("job", "work", "What does this person do for work?"),
    Question("one", "work", "Describe this person."),
)


@pytest.fixture(scope="module")
def check() -> Any:
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    import families_parts.build
    import families_parts.check

    yield families_parts.check
    sys.path.remove(str(REPOSITORY / "benchmarks"))


@pytest.fixture(scope="module")
def saved(check: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folders: dict[str, Path] = {}

    def folder_of(kind: str) -> Path:
        if kind not in folders:
            folders[kind], backend = check.build.save(kind, tmp_path_factory.mktemp(kind))
            check._askable(folders[kind], backend)  # writes the chat template
        return folders[kind]

    return folder_of


@pytest.fixture(scope="module")
def task(check: Any, tmp_path_factory: pytest.TempPathFactory) -> ImageTask:
    path = tmp_path_factory.mktemp("picture") / "a.png"
    check.build.picture().save(path)
    return ImageTask("a", "a", path, digest_image(path).sha256, ASKED)


def rows() -> dict[str, dict[str, str]]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {row["type"]: row for row in csv.DictReader(file)}


def test_the_table_has_a_row_for_every_type(check: Any) -> None:
    served = check.build.auto("modeling_auto").MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    assert list(rows()) == list(served)
    for row in rows().values():
        assert row["asked"] == "yes" or row["asked"].startswith(("cannot be built: ", "cannot be asked: "))


def test_what_is_known_of_families_by_construction_agrees_with_the_table() -> None:
    """Families that the table could not ask have checkpoints of their own (tests/engines/hf/test_families.py)."""
    table = rows()
    asked = {kind: table[kind] for kind, facts in _FAMILIES.items() if kind in table and facts.sharing != "auto"}
    asked = {kind: row for kind, row in asked.items() if row["asked"] == "yes"}
    assert len(asked) >= 8
    for kind, row in asked.items():
        level = _FAMILIES[kind].sharing
        assert level == "none" or row[level] == "equal", kind


@pytest.mark.parametrize(
    ("kind", "shared"), thorough_but([("qwen3_5", "prefix"), ("llava", "tree"), ("mllama", "tree")], ("llava", "tree"))
)
def test_a_family_shares_what_the_table_says(
    kind: str, shared: str, saved: Callable[[str], Path], task: ImageTask
) -> None:
    """P(Yes) within 1e-5 of one full prompt at a time, and the same words."""
    spec = HfSpec(str(saved(kind)))
    engines = [
        HfEngine(spec, Decoding(max_new_tokens=6), HfOptions(threads=1, sharing=level)) for level in ("auto", "none")
    ]  # type: ignore[arg-type]
    asked = [replace(task, questions=(*ASKED, *WORDS))]
    ours, plain = ({a.question_id: a for batch in engine.answer(asked) for a in batch} for engine in engines)
    assert engines[0].runtime()["sharing"] == shared
    assert next(level for level in ("tree", "prefix", "vision") if rows()[kind][level] == "equal") == shared
    for name, answer in plain.items():
        assert ours[name].text == answer.text
        if answer.numbers:
            assert ours[name].numbers["p_yes"] == pytest.approx(answer.numbers["p_yes"], abs=1e-5)  # type: ignore[index]


def test_all_samples_of_all_questions_share_one_prefill(
    saved: Callable[[str], Path], task: ImageTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefills = []
    original = CopiedPrefix._prefill
    monkeypatch.setattr(CopiedPrefix, "_prefill", lambda self, encoded: prefills.append(1) or original(self, encoded))
    engine = HfEngine(HfSpec(str(saved("qwen3_5"))), Decoding(max_new_tokens=3, temperature=1.0), HfOptions(threads=1))
    traces = tuple(
        replace(question, question_id=f"{question.question_id}{n}", sample=n) for question in WORDS for n in range(3)
    )
    answers = [a for batch in engine.answer([replace(task, questions=traces)]) for a in batch]
    assert len(answers) == len(traces)
    assert len(prefills) == 2  # the check, and all texts


def test_sixteen_bits_share_what_was_proven() -> None:
    assert candidates("auto", "auto", False, "sdpa", "prefix") == ("prefix", "none")
    assert candidates("auto", "auto", False, "flash_attention_2", "tree") == ("none",)
    assert candidates("prefix", "auto", False, "sdpa", "prefix") == ("prefix",)
    assert HfEngine.family_sharing("of tomorrow") == "auto"
    assert HfEngine.family_sharing("qwen3_5") == "prefix"


def test_a_window_is_checked_before_it_is_crossed(saved: Callable[[str], Path], task: ImageTask) -> None:
    engine = HfEngine(HfSpec(str(saved("qwen3_5"))), Decoding(max_new_tokens=3), HfOptions(threads=1))
    session = engine._session
    session._boundaries = {4, 10_000}
    list(engine.answer([task]))
    assert session._checked == 4  # the other is not reached
    assert boundaries(session.loaded.model.config.get_text_config()) == set()


def test_an_unknown_family_is_named(saved: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(saved("qwen3_5"))
    assert not HfEngine(HfSpec(folder), Decoding()).notices
    monkeypatch.setattr("fp2.engines.hf.families._proven", dict)
    assert HfEngine(HfSpec(folder), Decoding()).notices == (f"{UNKNOWN_FAMILY}: qwen3_5",)
