"""`fp2 plan` for runs in blocks, and the sums that its estimates stand on."""

from __future__ import annotations

import sys

import pytest
from bench import Bench

from fp2.ask.forecast import (
    SHARD_BYTES,
    STATED_SPEED,
    STORE_BYTES,
    TEMPLATE_TOKENS,
    TOKENS_A_WORD,
    Size,
    Wording,
    computed_time,
    disk_words,
    duration,
    operations,
    sharing_of,
    sizes,
)
from fp2.cli import main

SIZE = Size("llava", language=2.0, vision=0.5, patches=100, picture=60)
WORDING = Wording(("Is it a cat?", "Is it a dog?", "Is it big?"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    before, sys.argv = sys.argv, ["fp2", "plan", *words]
    code: object = None
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.argv = before
    assert not code
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_a_tree_counts_each_common_beginning_once() -> None:
    assert WORDING.tree_tokens == pytest.approx(TEMPLATE_TOKENS + TOKENS_A_WORD * 6)  # is it a cat? dog? big?
    assert WORDING.tokens == pytest.approx(TEMPLATE_TOKENS + TOKENS_A_WORD * 11 / 3)


def test_operations_are_two_for_each_weight_and_token() -> None:
    look, token = 2 * 0.5e9 * 100, 2 * 2.0e9
    one_by_one = 7 * (3 * look + 3 * token * (60 + WORDING.tokens))
    assert operations(SIZE, WORDING, 7, "none") == pytest.approx(one_by_one)
    assert operations(SIZE, WORDING, 7, "vision") == pytest.approx(one_by_one - 7 * 2 * look)
    assert operations(SIZE, WORDING, 7, "tree") == pytest.approx(7 * (look + token * (60 + WORDING.tree_tokens)))


def test_the_known_sizes_name_families_that_share_as_the_engine_does() -> None:
    shared = {name: sharing_of(size) for name, size in sizes().items()}
    assert shared["google/paligemma2-3b-mix-224"] == "vision"
    assert {shared[name] for name in shared if "paligemma" not in name} == {"tree"}
    for size in sizes().values():
        assert 0.01 < size.vision < size.language * 1.5
        assert size.picture <= size.patches


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.25, "0.25 seconds"), (80, "80 seconds"), (600, "10 minutes"), (30_000, "8.3 hours"), (4e7, "463 days")],
)
def test_durations_are_told_in_a_unit_that_fits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_no_time_is_made_up_for_a_model_of_unknown_size() -> None:
    assert "unknown" in computed_time(None, WORDING, 5, "mine")[0]
    assert "unknown" in computed_time(None, WORDING, 5, "mine")[1]
    ours = operations(SIZE, WORDING, 10**6, "tree") / STATED_SPEED
    assert duration(ours) in computed_time(SIZE, WORDING, 10**6, "mine")[1]


def test_disk_counts_what_is_new_in_the_store_and_all_shards() -> None:
    store, shards = 2e6 * STORE_BYTES / 1e6, 3e6 * SHARD_BYTES / 1e6
    assert disk_words(3_000_000, 2_000_000) == f"about {store:,.0f} MB in the store, {shards:,.0f} MB of shards"


def test_the_papers_size_is_told_without_the_data(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "experiment=gras_paper")
    assert "5,010 pictures x 500 questions = 2,505,000 prompts a model, 10,020,000 in all" in out
    for word in (
        "2,499,990 of 2,505,000",
        "of the vision side",
        "at 100 TFLOP/s",
        "MB in the store",
        "gender, race, age",
    ):
        assert word in out
    for model in ("paligemma2_3b_mix_224", "llava_1_5_7b", "qwen2_5_vl_3b", "blip2_opt_2_7b"):
        assert model in out


def test_a_plan_counts_what_the_store_has(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    from fp2.compose import load_config
    from fp2.jobs import run_job
    from fp2.progress import Progress

    def words(traits: str) -> list[str]:
        return [
            "model=planted", "probe=gras", f"probe.traits={traits}", "probe.templates={A: 'Is the person {trait}?'}",
            "probe.options.permutations=20", "probe.options.bootstrap=20", "data=table", "cut.each=[gender,region]",
            "data.columns={image: file, subject: person, gender: gender, region: region}", "report=none",
            "tracking=none", *bench.places,
        ]  # fmt: skip

    one = words("{kind: 2.6, cruel: -2.9}")
    run_job(load_config(one), bench.root / "outputs" / "one", one, Progress(quiet=True))
    capsys.readouterr()
    assert "nothing is left to ask" in told(capsys, *one)
    out = told(capsys, *words("{kind: 2.6, cruel: -2.9, clever: 2.2}"))
    assert "prompts 216 in the store 144" in out
    assert "answers to ask 72" in out
