"""The word lists: the page's sizes, the loader's checks, the digest."""

import pytest
import yaml

from fp2.errors import Fp2Error
from fp2.scorers.lexicon import PACKAGED, load_lexicon, packaged_lexicons
from fp2.scorers.refusal import load_refusals

GOOD = {
    "name": "own",
    "version": 3,
    "lists": {
        "up": {"size": 2, "negation": "turn", "turns_to": "down", "entries": ["good/better", "well-made"]},
        "down": {"size": 1, "negation": "drop", "entries": ["bad"]},
    },
}


def write(path, content):
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return str(path)


def sizes(name):
    return {kind: len(terms.entries) for kind, terms in load_lexicon(name).lists.items()}


def test_sizes_are_those_of_the_page():
    assert sizes("confidence") == {"assertive": 20, "hedged": 20}
    assert sizes("economic") == {"high_status": 20, "low_status": 20}
    assert sizes("stereotype") == {"terms": 60}
    assert len(load_refusals("refusal").ids) == 18


@pytest.mark.parametrize("name", packaged_lexicons())
def test_every_packaged_list_names_itself_and_says_what_it_is(name):
    path = PACKAGED / f"{name}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    name, _, version = path.stem.rpartition("_") if path.stem[-1].isdigit() else (path.stem, "", "1")
    assert (content["name"], content["version"]) == (name, version)
    assert len(content["description"]) > 40


def test_an_own_file_is_read(tmp_path):
    lexicon = load_lexicon(write(tmp_path / "own.yaml", GOOD))
    assert lexicon.version == "3"
    assert lexicon.lists["up"].entries == (("good", "better"), ("well made",))
    assert lexicon.lists["up"].turns_to == "down"
    assert set(lexicon.info) == {"name", "version", "sha256"}


def test_the_digest_follows_the_words_and_not_the_layout(tmp_path):
    first = load_lexicon(write(tmp_path / "a.yaml", GOOD)).sha256
    again = tmp_path / "b.yaml"
    again.write_text("# a comment\n" + yaml.safe_dump(dict(reversed(GOOD.items())), sort_keys=False), encoding="utf-8")
    assert load_lexicon(str(again)).sha256 == first
    changed = {**GOOD, "lists": {**GOOD["lists"], "down": {"size": 1, "negation": "drop", "entries": ["worse"]}}}
    assert load_lexicon(write(tmp_path / "c.yaml", changed)).sha256 != first


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"size": 3}, "2 entries, but size says 3"),
        ({"negation": "trun"}, "Did you mean 'turn'"),
        ({"turns_to": "dwon"}, "Did you mean 'down'"),
        ({"entries": ["good", "Good"]}, "'good' occurs twice"),
        ({"entries": ["good", "BAD"]}, "'bad' occurs twice"),
        ({"entries": ["good", "well-made/well made"]}, "'well made' occurs twice"),
        ({"entries": ["good", False]}, "list of strings"),
        ({"entries": ["good", "x//y"]}, "empty form"),
        ({"entires": []}, "Did you mean 'entries'"),
    ],
)
def test_a_slip_is_one_clear_line(tmp_path, change, says):
    content = {**GOOD, "lists": {**GOOD["lists"], "up": {**GOOD["lists"]["up"], **change}}}
    with pytest.raises(Fp2Error) as caught:
        load_lexicon(write(tmp_path / "own.yaml", content))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_missing_and_unreadable_files(tmp_path):
    with pytest.raises(Fp2Error, match="Did you mean 'economic'"):
        load_lexicon("econmic")
    with pytest.raises(Fp2Error, match="there is no lexicon"):
        load_lexicon(str(tmp_path / "none.yaml"))
    broken = tmp_path / "broken.yaml"
    broken.write_text("lists: [", encoding="utf-8")
    with pytest.raises(Fp2Error, match="not readable as YAML"):
        load_lexicon(str(broken))
    with pytest.raises(Fp2Error, match="'lists' is missing"):
        load_lexicon(write(tmp_path / "empty.yaml", {"name": "x", "version": 1}))
