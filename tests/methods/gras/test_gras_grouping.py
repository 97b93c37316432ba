"""Which groups are compared: label rows move as one, and subjects without answers or outside the groups stay out."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_answers import World

from fp2.cuts import Cut
from fp2.methods.gras.analysis import analyse
from fp2.methods.gras.grouping import LabelPermuter, group_answers, group_images
from fp2.methods.gras.options import GrasOptions


def test_label_rows_move_as_one_and_the_skin_tone_apart() -> None:
    world = World(70, tones=50, groups={"gender": 2, "race": 7}, traits=2, templates=2)
    people = world.people(np.random.default_rng(0))
    ids = (people["image_id"].to_numpy(dtype=object), people["subject_id"].to_numpy(dtype=object))
    grouping = group_images(*ids, people, world.cuts, 5)
    assert [part.attributes for part in grouping.sets] == [(0, 1), (2,)]
    assert [len(part.images) for part in grouping.sets] == [70, 50]
    for number, part in enumerate(grouping.sets):
        own = np.bincount(part.units.label_set)
        drawn = LabelPermuter(part, 4, number).draw(20)
        assert (drawn != part.units.label_set).any()
        for row in drawn:
            np.testing.assert_array_equal(np.bincount(row), own)  # whole rows, none split up
    assert (
        LabelPermuter(grouping.sets[0], 4, 0).draw(5)[2:] == LabelPermuter(grouping.sets[0], 4, 0).draw(5)[2:]
    ).all()


@pytest.mark.parametrize("images", [1, 2])
def test_subjects_without_an_answer_do_not_count_in_a_group(images: int) -> None:
    world = World(90, images=images, groups={"age": 3}, traits=3, templates=2)
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    y = answers.columns["p_yes_first_token"]
    of = np.array([cell[0] for cell in people["attr_age"]])
    y[np.flatnonzero(of == "age 0")[4 * images :]] = np.nan  # four of thirty answered at all
    y[np.flatnonzero(of == "age 1")[9 * images :], 2] = np.nan  # nine answered about the last trait
    block = analyse(answers, people, world.cuts, GrasOptions(permutations=20, bootstrap=20))
    first = block["attributes"][0]["groups"][0]
    assert first == {"group": "age 0", "n_images": 4 * images, "n_subjects": 4, "compared": False}
    for unit in block["units"].values():
        assert unit["group_means"]["age"]["groups"] == ["age 1", "age 2"]
        p = unit["tests"]["age"]["p_value"]
        assert None not in p[0] + p[1]
        assert p[2] == [None, None]  # one group with ten subjects is left
    assert any("age 0" in line and "not compared" in line for line in block["warnings"])


def test_the_overall_mean_is_of_all_subjects_with_the_attribute_in_a_compared_group_or_not() -> None:
    world = World(90, groups={"age": 3}, traits=3, templates=2, effects=(("age", 2, (0, 1, 2), 0.4),))
    people = world.people(np.random.default_rng(0))
    answers = world.answers(people, np.random.default_rng(1))
    some = [Cut("age", ("age",), (("age", ("age 0", "age 1")),))]
    options = GrasOptions(permutations=40, bootstrap=20)
    block = analyse(answers, people, some, options)["units"]["images"]
    mean = answers.columns["p_yes_first_token"].astype(float).mean(axis=0)
    np.testing.assert_allclose(block["group_means"]["age"]["overall"], mean, rtol=1e-5)
    assert all(row["share"] == 0 for row in block["attribution"])  # both are below the overall mean
    grouping = group_answers(answers, people, some, options)
    outside = np.array([cell == ["age 2"] for cell in people["attr_age"]])
    part = grouping.sets[0]
    for drawn in LabelPermuter(part, 0, 0).draw(20):  # subjects in no compared group keep their labels
        np.testing.assert_array_equal(drawn[part.record][outside], part.units.label_set[part.record][outside])
        assert (drawn != part.units.label_set).any()
