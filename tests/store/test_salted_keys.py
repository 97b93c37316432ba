"""What leaves the data folder: salted keys in place of ids, no paths, times or places."""

import json
import os
import stat
import threading

import pandas as pd
import pytest

from fp2.data.base import people_table
from fp2.errors import Fp2Error
from fp2.store.salted_keys import local_salt, salted, shareable


def people(root="/one") -> pd.DataFrame:
    return people_table(
        {
            "image_id": ["i1", "i2", "i3"],
            "subject_id": ["s1", "s1", "s2"],
            "image_path": [f"{root}/{n}.png" for n in range(3)],
            "is_primary": [True] * 3,
            "n_people": [1] * 3,
            "set_id": ["set", None, None],
            "attr_region": [["Asia", "Europe"], ["Asia"], []],
            "attr_location_country": [["Kenya"], [], ["Peru"]],
            "attr_location_un_region": [["Africa"], [], ["Americas"]],
            "attr_user_date_captured": [["May-2023"], [], []],
            "private_ward": ["north", "south", "north"],
        }
    )


def test_keys_depend_on_salt_and_kind_and_repeat():
    keys = salted(["s1", "s1", "s2"], b"x" * 32)
    assert keys[0] == keys[1] != keys[2]
    assert salted(["s1"], b"y" * 32) != keys[:1]
    assert salted(["s1"], b"x" * 32, "image") != keys[:1]
    assert all(len(key) == 32 and "s1" not in key for key in keys)


def test_the_salt_is_made_once_for_its_owner_only(tmp_path):
    salt = local_salt(tmp_path / "state")
    assert len(salt) == 32
    assert local_salt(tmp_path / "state") == salt
    file = tmp_path / "state" / "salt"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path / "state") == ["salt"]
    file.chmod(0o644)
    assert local_salt(tmp_path / "state") == salt
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert local_salt(tmp_path / "other") != salt


def test_starters_at_the_same_moment_agree_on_one_salt(tmp_path):
    barrier, salts = threading.Barrier(8), []

    def start():
        barrier.wait()
        salts.append(local_salt(tmp_path / "state"))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(salts) == 8
    assert len(set(salts)) == 1


def test_a_damaged_or_impossible_salt_is_one_line(tmp_path):
    (tmp_path / "salt").write_bytes(b"short")
    with pytest.raises(Fp2Error, match="damaged"):
        local_salt(tmp_path)
    with pytest.raises(Fp2Error, match="cannot be used"):
        local_salt(tmp_path / "salt" / "below")


def test_what_is_shared_holds_no_id_path_place_or_time():
    frame = people()
    shared = shareable(frame, b"x" * 32)
    text = json.dumps(shared.to_dict("list"), default=str)
    for secret in ("i1", "s1", "/one", "Kenya", "Peru", "00:00", '"set"', "north", "ward"):
        assert secret not in text
    for name in ("attr_region", "attr_location_un_region"):
        assert shared[name].tolist() == frame[name].tolist()
    assert shared["subject_id"].nunique() == 2
    assert shared["set_id"].isna().tolist() == [False, True, True]
    pd.testing.assert_frame_equal(frame, people())
