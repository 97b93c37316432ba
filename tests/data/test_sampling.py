"""Samples: seeded, nested, subjects whole, groups in equal shares as far as the data allow."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from bench import load_config
from hypothesis import given, settings
from hypothesis import strategies as st

from fp2.data.base import people_table
from fp2.data.sampling import limit_images, limit_people, pick_images, read_ids, single_person
from fp2.errors import Fp2Error


def people_of(
    subjects: dict[str, tuple[int, dict[str, list[str]]]], pairs: tuple[tuple[str, str], ...] = ()
) -> pd.DataFrame:
    """Return a table of subject -> (images, attributes), then one image for each pair."""
    names = sorted({name for _, attributes in subjects.values() for name in attributes})
    rows = [(f"{subject}-{n}", subject, 1) for subject, (count, _) in subjects.items() for n in range(count)]
    rows += [(f"pair-{n}", subject, 2) for n, pair in enumerate(pairs) for subject in pair]
    return people_table(
        {
            "image_id": [row[0] for row in rows],
            "subject_id": [row[1] for row in rows],
            "image_path": [f"/data/{row[0]}.png" for row in rows],
            "is_primary": [True] * len(rows),
            "n_people": [row[2] for row in rows],
            **{f"attr_{name}": [subjects[row[1]][1].get(name, []) for row in rows] for name in names},
        }
    )


def skewed() -> pd.DataFrame:
    """90 subjects of group a, 30 of b, 6 of c, two images each."""
    groups = ["a"] * 90 + ["b"] * 30 + ["c"] * 6
    return people_of({f"s{n:03}": (2, {"kind": [group]}) for n, group in enumerate(groups)})


TABLES = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.tuples(st.integers(1, 4), st.fixed_dictionaries({"kind": st.lists(st.sampled_from("xyz"), unique=True)})),
    min_size=1,
    max_size=12,
).map(people_of)


@settings(max_examples=60)
@given(TABLES, st.integers(1, 50), st.integers(0, 5), st.sampled_from([None, ("kind",)]))
def test_counts_whole_subjects_and_nesting(people, n_images, seed, by):
    sample, _ = limit_people(people, n_images, seed=seed, by=by)
    able = people if by is None else people[people["attr_kind"].map(len) > 0]
    assert sample["image_id"].nunique() == min(n_images, able["image_id"].nunique())
    have, all_of = Counter(sample["subject_id"]), Counter(people["subject_id"])
    assert sum(have[subject] < all_of[subject] for subject in have) <= 1
    larger, _ = limit_people(people, n_images + 3, seed=seed, by=by)
    assert set(sample["image_id"]) <= set(larger["image_id"])
    shuffled, _ = limit_people(people.sample(frac=1, random_state=seed), n_images, seed=seed, by=by)
    assert set(shuffled["image_id"]) == set(sample["image_id"])
    assert sample["image_id"].tolist() == [image for image in people["image_id"] if image in set(sample["image_id"])]


def test_seeds_differ_and_repeat():
    people = skewed()
    first, again, other = (set(limit_people(people, 40, seed=seed)[0]["image_id"]) for seed in (1, 1, 2))
    assert first == again != other


def test_without_strata_groups_keep_their_share_roughly():
    sample, notes = limit_people(skewed(), 120, seed=3)
    shares = Counter(cell[0] for cell in sample["attr_kind"])
    assert 60 < shares["a"] < 105
    assert notes == ()


def test_strata_get_equal_shares_until_one_runs_out():
    sample, notes = limit_people(skewed(), 36, seed=3, by=("kind",))
    assert Counter(cell[0] for cell in sample["attr_kind"]) == {"a": 12, "b": 12, "c": 12}
    assert notes == ()
    sample, notes = limit_people(skewed(), 72, seed=3, by=("kind",))
    assert Counter(cell[0] for cell in sample["attr_kind"]) == {"a": 30, "b": 30, "c": 12}
    assert len(notes) == 1
    assert "c 12" in notes[0]


def test_strata_of_an_intersection_and_of_several_values():
    subjects = {
        f"s{n}": (1, {"kind": ["a", "b"] if n % 4 == 0 else ["a"], "age": ["old" if n % 2 else "young"]})
        for n in range(80)
    }
    sample, _ = limit_people(people_of(subjects), 30, seed=0, by=("kind", "age"))
    counts = Counter(
        (kind, age) for kinds, (age,) in zip(sample["attr_kind"], sample["attr_age"], strict=True) for kind in kinds
    )
    assert sample["image_id"].nunique() == 30
    assert set(counts) == {("a", "young"), ("b", "young"), ("a", "old")}
    assert max(counts.values()) - min(counts.values()) <= 1


def test_people_without_a_value_are_left_out_and_counted():
    people = people_of({"p": (2, {"kind": ["a"]}), "q": (3, {"kind": []})})
    sample, notes = limit_people(people, 5, seed=0, by=("kind",))
    assert set(sample["subject_id"]) == {"p"}
    assert notes[0] == "5 images were requested, 2 are available"
    assert notes[1].startswith("1 subject without a value for kind")


def test_both_people_of_a_chosen_image_stay():
    people = people_of({"p": (1, {}), "q": (1, {})}, pairs=(("p", "q"),))
    sample, _ = limit_people(people, 3, seed=0)
    assert len(sample) == 4
    sample, _ = limit_people(people, 1, seed=0)
    assert sample["image_id"].nunique() == 1


def test_offset_goes_on_where_the_last_sample_ended():
    people = skewed()
    parts = [set(limit_people(people, 100, seed=5, offset=offset)[0]["image_id"]) for offset in (0, 100, 200)]
    assert [len(part) for part in parts] == [100, 100, 52]
    assert set.union(*parts) == set(people["image_id"])
    assert len(limit_people(people, None, seed=5)[0]) == len(people)
    with pytest.raises(Fp2Error, match="skips all 252"):
        limit_people(people, 1, seed=5, offset=252)


@pytest.mark.parametrize(("n_images", "offset"), [(0, 0), (-1, 0), (1, -1)])
def test_impossible_samples(n_images, offset):
    with pytest.raises(Fp2Error, match="at least 1 image"):
        limit_people(skewed(), n_images, seed=0, offset=offset)


def test_an_unknown_stratum_is_named():
    with pytest.raises(Fp2Error, match="Did you mean 'kind'"):
        limit_people(skewed(), 5, seed=0, by=("kinds",))


def test_images_of_two_are_left_out_with_a_note():
    people = people_of({"p": (2, {}), "q": (1, {})}, pairs=(("p", "q"), ("q", "p")))
    alone, notes = single_person(people)
    assert len(alone) == 3
    assert notes == ("Images of two or more people were left out: 2. The questions are about one person.",)
    assert single_person(alone)[1] == ()


def test_chosen_ids_and_unknown_ones():
    people = skewed()
    assert pick_images(people, ["s001-1", "s000-0"])["image_id"].tolist() == ["s000-0", "s001-1"]
    with pytest.raises(Fp2Error, match=r"1 image id is .*'nobody'"):
        pick_images(people, ["s001-1", "nobody"])


def test_ids_from_a_list_and_from_a_file(tmp_path):
    file = tmp_path / "chosen.txt"
    file.write_text("# the first study\ns001-1\n\n s000-0 \ns001-1\n")
    assert read_ids(str(file)) == ["s001-1", "s000-0"]
    assert read_ids(["a", 7]) == ["a", "7"]
    with pytest.raises(Fp2Error, match="no image id"):
        read_ids([])
    with pytest.raises(Fp2Error, match="cannot be read"):
        read_ids(str(tmp_path / "none.txt"))


def test_image_ids_are_known_by_any_spelling(tmp_path):
    listed = tmp_path / "ids.txt"
    listed.write_text("e\u0301.png \n\u00e9.png\n# none\n\n", encoding="utf-8")
    assert read_ids(str(listed)) == read_ids(["e\u0301.png", " \u00e9.png"]) == ["\u00e9.png"]


def test_a_random_sample_of_images_is_that_of_numpy_over_sorted_paths():
    people = people_of({f"s{n}": (1 + n % 3, {}) for n in range(12)}, pairs=(("s0", "s1"),))
    paths = sorted(set(people["image_path"]))
    places = sorted(np.random.default_rng(42).choice(len(paths), size=7, replace=False))
    taken, notes = limit_images(people.sample(frac=1, random_state=0), 7, seed=42)
    assert sorted(set(taken["image_path"])) == [paths[place] for place in places]
    assert notes == ()
    everything, notes = limit_images(people, 100, seed=42)
    assert len(everything) == len(people)
    assert notes == (f"100 images were requested, {len(paths)} are available",)


@pytest.mark.parametrize("option", ["data.stratify=[region]", "data.offset=1"])
def test_a_random_sample_has_no_strata_and_no_offset(option):
    with pytest.raises(Fp2Error, match="no strata and no offset"):
        load_config(["data.sample=images", option])
    with pytest.raises(Fp2Error, match="data\\.sample"):
        load_config(["data.sample=persons"])
