"""What a run publishes names no place of the machine, and a rerun here finds it again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fp2.runs.local_paths import MARK, missing_places, overrides_without_places, with_places, without_places

PATHS = st.from_regex(r"(/|~/|file:///|C:\\)[a-z0-9 ]{1,8}([/\\][a-z0-9.]{1,8}){0,3}", fullmatch=True)


@settings(max_examples=60)
@given(PATHS, PATHS)
def test_paths_go_out_and_come_back(root: str, uri: str) -> None:
    config = {
        "paths": {"root": root},
        "data": {"root": root, "name": "x", "limit": 3},
        "probe": {"text": "/ or not?"},
        "tracking": {"uri": uri, "enabled": True, "sweep_id": "s"},
    }
    bare, places = without_places(config)
    assert "paths" not in bare
    assert bare["tracking"]["uri"] is None
    assert bare["data"]["root"].startswith(MARK)
    assert bare["probe"]["text"] == "/ or not?"
    assert missing_places(bare) == ["data.root"]
    back = with_places(bare, places)
    assert back["data"] == config["data"]
    assert missing_places(back) == []


def test_overrides_lose_their_paths() -> None:
    given = ["model=planted", "paths.root=/a", "data.path='/a b/people.csv'", "tracking.uri=http://u:p@h", "seed=3"]
    assert overrides_without_places(given) == ["model=planted", f"data.path='{MARK}people.csv'", "seed=3"]


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("model.truth={yes_no: {valences: /tmp/w.csv}}", "model.truth={yes_no: {valences: local:w.csv}}"),
        ("+model.truth={v: '~/a b/w.csv', base: 1}", "+model.truth={v: 'local:w.csv', base: 1}"),
        ("task.files={p: mine/x.csv, q: /tmp/y.csv}", "task.files={p: local:x.csv, q: local:y.csv}"),
        ("data.more=[/a/b, /a/b/c, d]", "data.more=[local:b, local:c, d]"),
        ("model.truth={valences: '/it\\'s/w.csv'}", "model.truth=local:..."),
        ("probe.templates={A: '/ {trait}?'}", "probe.templates={A: '/ {trait}?'}"),
        ("data.columns={image: file}", "data.columns={image: file}"),
    ],
)
def test_a_path_inside_an_inline_value_is_not_published(given: str, left: str) -> None:
    assert overrides_without_places([given]) == [left]


def test_paths_in_lists_and_in_tables_of_lists_come_back() -> None:
    config = {"data": {"more": ["/a/b", "c", {"x": "/d/e"}]}}
    bare, places = without_places(config)
    assert bare == {"data": {"more": [f"{MARK}b", "c", {"x": f"{MARK}e"}]}}
    assert missing_places(bare) == ["data.more.0", "data.more.2.x"]
    assert with_places(bare, places) == config
