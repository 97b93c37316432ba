"""What the estimates of `fp2 plan` rest on: tokens of the questions, operations, durations, disk."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from bench import REPOSITORY, load_config

from fp2.methods.dense.storage import SHARD_BYTES, STORE_BYTES, disk
from fp2.methods.planning.forecast import (
    STATED_SPEED,
    TEMPLATE_TOKENS,
    TOKENS_A_WORD,
    QuestionTexts,
    Size,
    computed_time,
    duration,
    generated_time,
    operations,
    sharing_of,
    sizes,
)

SIZE = Size("llava", language=2.0, vision=0.5, patches=100, picture=60)
TEXTS = QuestionTexts(("Is it a cat?", "Is it a dog?", "Is it big?"))


def test_a_tree_counts_each_common_beginning_once() -> None:
    assert TEXTS.tree_tokens == pytest.approx(TEMPLATE_TOKENS + TOKENS_A_WORD * 6)  # is it a cat? dog? big?
    assert TEXTS.tokens == pytest.approx(TEMPLATE_TOKENS + TOKENS_A_WORD * 11 / 3)


def test_operations_are_two_for_each_weight_and_token() -> None:
    image, token = 2 * 0.5e9 * 100, 2 * 2.0e9
    one_by_one = 7 * (3 * image + 3 * token * (60 + TEXTS.tokens))
    assert operations(SIZE, TEXTS, 7, "none") == pytest.approx(one_by_one)
    assert operations(SIZE, TEXTS, 7, "vision") == pytest.approx(one_by_one - 7 * 2 * image)
    assert operations(SIZE, TEXTS, 7, "tree") == pytest.approx(7 * (image + token * (60 + TEXTS.tree_tokens)))


def test_the_known_sizes_name_families_that_share_as_the_engine_does() -> None:
    config = load_config(["model=peeps_vlm"])
    shared = {name: sharing_of(size, config) for name, size in sizes().items()}
    assert shared["google/paligemma2-3b-mix-224"] == "vision"
    assert {shared[name] for name in shared if "paligemma" not in name and "Phi-4" not in name} == {"tree"}
    assert shared["microsoft/Phi-4-multimodal-instruct"] == "auto"  # decided by its configuration, once it is loaded
    for size in sizes().values():
        assert 0.001 < size.vision < size.language * 1.5
        assert size.picture <= size.patches


def test_the_sharing_of_another_engine_is_not_that_of_transformers() -> None:
    size = sizes()["google/paligemma2-3b-mix-224"]
    assert sharing_of(size, load_config(["model=planted"])) == "none"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.25, "0.25 seconds"), (80, "80 seconds"), (600, "10 minutes"), (30_000, "8.3 hours"), (4e7, "463 days")],
)
def test_durations_have_a_unit_that_fits(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_no_time_is_made_up_for_a_model_of_unknown_size() -> None:
    assert all("unknown" in text for text in computed_time(None, TEXTS, 5, "mine", "none"))
    ours = operations(SIZE, TEXTS, 10**6, "tree") / STATED_SPEED
    assert duration(ours) in computed_time(SIZE, TEXTS, 10**6, "mine", "tree")[1]


def test_generated_text_costs_every_prompt_and_a_step_for_each_token_of_the_longest() -> None:
    """By hand, of 2e9 weights: a prompt of 60 + the texts' tokens and 100 patches; reading 4 GB takes 4 ms a step."""
    prompt = (2 * 0.5e9 * 100 + 2 * 2e9 * (60 + TEXTS.tokens)) / 100e12
    for answers, batch, dtype, steps, step in (
        (640, None, 2, 10, 4e-3),  # ten batches of 64: reading the weights takes longer than 2.56 ms of operations
        (640, 640, 2, 1, 25.6e-3),  # one batch: 2 x 2e9 x 640 operations
        (640, 1, 4, 640, 8e-3),
        (3, None, 2, 1, 4e-3),
    ):
        words = generated_time(SIZE, TEXTS, answers, 50, batch, "mine", dtype)
        assert words.startswith(
            f"about {duration(answers * prompt + steps * 50 * step)}, if every answer has 50 tokens"
        )
    assert "unknown" in generated_time(None, TEXTS, 5, 50, None, "mine")
    measured = generated_time(replace(SIZE, seconds=0.5), TEXTS, 640, 50, None, "mine")
    assert measured == "about 5.3 minutes on one processor core (measured, 0.5 s an answer)"


def test_the_size_of_the_bundled_model_is_that_of_its_weights() -> None:
    from safetensors import safe_open

    config = load_config(["model=peeps_vlm"])
    size, counts = sizes()[str(config.model.id)], {"language": 0, "vision": 0}
    path = REPOSITORY / "fp2" / "models" / "peeps_vlm" / "model.safetensors"
    with safe_open(path, "np") as weights:
        for name in weights.keys():  # noqa: SIM118, it is no mapping
            if "embed_tokens" not in name and "position" not in name:
                part = "vision" if name.startswith("vision_tower") else "language"
                counts[part] += math.prod(weights.get_slice(name).get_shape()) * ("projector" not in name)
    assert (size.language, size.vision) == tuple(round(counts[part] / 1e9, 5) for part in ("language", "vision"))


def test_disk_counts_what_is_new_in_the_store_and_all_shards() -> None:
    store, shards = 2e6 * STORE_BYTES / 1e6, 3e6 * SHARD_BYTES / 1e6
    assert disk(3_000_000, 2_000_000) == f"about {store:,.0f} MB in the store, {shards:,.0f} MB of shards"
