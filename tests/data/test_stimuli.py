"""Stimuli of the controls: a grey square for everybody, and another person's image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fp2.config import VariantConfig
from fp2.data.base import people_table
from fp2.data.pixels import digest_image, open_rgb
from fp2.data.stimuli import GREY_LEVEL, Stimulus, donor_rows, make_stimuli
from fp2.errors import Fp2Error


def test_a_grey_square_of_the_stated_size_for_everybody(tmp_path: Path) -> None:
    people = crowd([2, 1])

    def show(size: int, folder: Path = tmp_path) -> list[Stimulus]:
        return make_stimuli(people, VariantConfig("grey", "grey", size=size), {}, folder)

    shown = show(48)
    assert len({(one.image_id, one.path, one.pixel_sha256) for one in shown}) == 1
    pixels = np.asarray(open_rgb(shown[0].path))
    assert (pixels == GREY_LEVEL).all()
    assert pixels.shape == (48, 48, 3)
    assert shown[0].change is None
    assert shown[0].error is None
    assert shown[0].pixel_sha256 == digest_image(shown[0].path).sha256
    assert show(49)[0].pixel_sha256 != shown[0].pixel_sha256
    assert len(list(tmp_path.iterdir())) == 2
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Fp2Error, match="grey image cannot be written"):
        show(16, tmp_path / "file")


def crowd(counts: list[int]) -> pd.DataFrame:
    pairs = [(f"s{subject}", f"i{subject}-{k}") for subject, n in enumerate(counts) for k in range(n)]
    return people_table(
        {
            "image_id": [image for _, image in pairs],
            "subject_id": [subject for subject, _ in pairs],
            "image_path": [f"/pictures/{image}.png" for _, image in pairs],
            "is_primary": [True] * len(pairs),
            "n_people": [1] * len(pairs),
        }
    )


@given(st.lists(st.integers(1, 4), min_size=2, max_size=12), st.integers(0, 2**32), st.randoms())
def test_everybody_gets_one_other_person_and_everybody_is_given_once(counts: list[int], seed: int, random: Any) -> None:
    people = crowd(counts)
    donors = donor_rows(people, seed)
    given = {}
    for row, donor in enumerate(donors):
        own, other = people["subject_id"].iloc[[row, donor]]
        assert own != other
        assert given.setdefault(own, other) == other
    assert sorted(given.values()) == sorted(given)
    order = list(range(len(people)))
    random.shuffle(order)
    turned = people.iloc[order].reset_index(drop=True)
    names = dict(zip(people["image_id"], people["image_id"].iloc[donors], strict=True))
    again = turned["image_id"].iloc[donor_rows(turned, seed)]
    assert names == dict(zip(turned["image_id"], again, strict=True))


def test_the_seed_draws_whose_image_it_is_and_one_person_cannot_be_swapped() -> None:
    people = crowd([2] * 12)
    assert len({tuple(donor_rows(people, seed)) for seed in range(10)}) == 10
    donors = donor_rows(people, 0)
    assert sorted(donors) == list(range(24))  # equal numbers of pictures: each is shown once
    with pytest.raises(Fp2Error, match="two subjects"):
        donor_rows(crowd([3]), 0)
