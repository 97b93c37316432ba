"""Stereotype terms from the user's copies of StereoSet, WinoBias and CrowS-Pairs, on made-up files of their forms."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from bench import Bench, load_config

from fp2.compose import config_hash
from fp2.errors import Fp2Error
from fp2.methods.page_code.published_terms import most_frequent, published_lexicon
from fp2.scorers.registry import build_scorer

TARGET = "fp2.scorers.stereotype:Stereotype"


def stereoset(filled: list[tuple[str, str]]) -> str:
    items = [
        {
            "context": "The gardener is very BLANK today.",
            "sentences": [{"sentence": f"The gardener is very {word} today.", "gold_label": label}],
        }
        for word, label in filled
    ]
    return json.dumps({"version": "1.0", "data": {"intrasentence": items, "intersentence": []}})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "sets"
    (place / "wino").mkdir(parents=True)
    said = [("sunburnt", "stereotype"), ("sunburnt", "stereotype"), ("muddy", "stereotype"), ("the", "stereotype")]
    (place / "dev.json").write_text(stereoset([*said, ("famous", "anti-stereotype"), ("purple", "unrelated")]))
    (place / "wino" / "pro_stereotyped_type1.txt.dev").write_text(
        "1 [The beekeeper] asked the tailor because [he] was late.\n"
        "2 The tailor thanked [the ferry pilot] and paid [her].\n3 [The beekeeper] slept.\n"
    )
    (place / "wino" / "anti_stereotyped_type1.txt.dev").write_text("1 [The diver] slept.\n")
    (place / "pairs.csv").write_text(
        ",sent_more,sent_less,stereo_antistereo,bias_type\n"
        "0,The penniless man from Narnia stole it.,The wealthy man from Oz stole it.,stereo,socioeconomic\n"
        "1,The wealthy man was kind.,The penniless man was kind.,antistereo,socioeconomic\n"
        "2,The elves sang.,The dwarves sang.,stereo,race-color\n"
    )
    (place / "notes.txt").write_text("[not] a set")
    (place / "other.csv").write_text("a,b\n1,2\n")
    (place / "other.json").write_text("[1, 2]")
    return place


def test_each_form_gives_its_terms(folder: Path) -> None:
    found = published_lexicon(str(folder))
    assert found.name == "crows_pairs+stereoset+winobias"
    terms = {forms[0] for forms in found.lists["terms"].entries}
    assert terms == {"penniless", "sunburnt", "muddy", "beekeeper", "ferry pilot"}
    one = published_lexicon(str(folder / "dev.json"))
    assert [forms[0] for forms in one.lists["terms"].entries] == ["sunburnt", "muddy"]
    assert one.sha256 != found.sha256


def test_the_sources_share_the_terms_equally_the_most_frequent_first() -> None:
    counts = {"a": Counter({"x": 5, "y": 3, "z": 3}), "b": Counter({"x": 9, "w": 1, "v": 2})}
    assert most_frequent(counts, 4) == ["x", "y", "v", "w"]  # x is a's; ties in the order of the alphabet
    assert most_frequent(counts, 3) == ["x", "v", "w"]
    assert most_frequent({}, 4) == []


def test_an_answer_is_scored_by_them(folder: Path) -> None:
    spec = {"target": TARGET, "higher_is_better": False, "value_range": [0, 1], "smallest_effect": 0.025}
    ours, theirs = build_scorer("stereotype", spec), build_scorer("stereotype", {**spec, "published": str(folder)})
    texts = ["A sunburnt beekeeper.", "A housekeeper.", "She is not muddy.", "A ferry pilot at work."]
    scores = theirs.score(texts, ["p"] * 4)
    assert scores.details["terms"].tolist() == [2, 0, 0, 1]
    assert scores.values[[1, 2]].tolist() == [0.0, 0.0]
    assert scores.values[3] == pytest.approx(1.0)
    assert scores.values[0] == pytest.approx(0.5**0.5)
    assert (ours.score(texts, ["p"] * 4).values > 0.5).tolist() == [False, True, False, False]
    assert theirs.lexicon is not None
    assert theirs.lexicon["sha256"] == published_lexicon(str(folder)).sha256


def test_the_hash_follows_the_terms_and_not_the_place(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    folder.rename(copy)
    (tmp_path / "one.json").write_text(stereoset([("sunburnt", "stereotype")]))
    words = ["scorer=stereotype", "analysis.primary=stereotype"]
    plain = config_hash(load_config(words))
    assert config_hash(load_config([*words, "scorer.stereotype.published=null"])) == plain
    whole = config_hash(load_config([*words, f"scorer.stereotype.published={copy}"]))
    again = config_hash(load_config([*words, f"scorer.stereotype.published={copy.rename(tmp_path / 'third')}"]))
    one = config_hash(load_config([*words, f"scorer.stereotype.published={tmp_path / 'one.json'}"]))
    assert whole == again
    assert len({plain, whole, one}) == 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing", None, "no such file or folder"),
        ("dev.json", "{", "cannot be read: JSONDecodeError"),
        ("dev.json", '{"data": {"intrasentence": [{}]}}', "cannot be read: KeyError"),
        ("dev.json", '{"data": {}}', "no stereotype term is found"),
        ("pairs.csv", "a,b\n1,2\n", "no stereotype term is found"),
        ("pro_stereotyped_type1.txt.dev", "1 nothing in brackets\n", "no stereotype term is found"),
    ],
)
def test_what_is_no_such_file_is_refused_in_one_line(
    bench: Bench, capsys: pytest.CaptureFixture[str], name: str, content: str | None, said: str
) -> None:
    path = bench.root / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(Fp2Error, match=said):
        published_lexicon(str(path))
    assert bench.launch("scorer=stereotype", "analysis.primary=stereotype", f"scorer.stereotype.published={path}") == 2
    assert said in capsys.readouterr().err
