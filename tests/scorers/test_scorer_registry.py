"""Scorers from YAML: Hydra composes them, anyone can add one, slips are named."""

import numpy as np
import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from fp2.compose import conf_dir, hydra_overrides
from fp2.errors import Fp2Error
from fp2.plugins import SCORERS, installed
from fp2.scorers.registry import build_scorer, build_scorers

DEFAULT = ("valence_context", "valence", "stereotype", "confidence", "refusal", "economic", "trust_rating")

OWN = """
import numpy as np
from fp2.scorers.base import Scored

class Length:
    version, yes_no, probes, lexicon = "1", False, None, None
    n_people, uses_subject_attributes, label_scale = 1, False, None
    bins = (0.0, 50.0, 100.0)

    def __init__(self, name, higher_is_better, value_range, smallest_effect, unit=1):
        self.name, self.higher_is_better, self.unit = name, higher_is_better, int(unit)
        self.value_range, self.smallest_effect = tuple(value_range), smallest_effect

    def score(self, texts, probes):
        return Scored(np.array([len(text) / self.unit for text in texts], dtype=float))

class Half:
    name = "half"
"""


def composed(*overrides):
    with initialize_config_dir(str(conf_dir()), version_base=None):
        cfg = compose(config_name=None, overrides=hydra_overrides(overrides))
    return OmegaConf.to_container(cfg, resolve=True)


def test_the_default_holds_all_seven_in_order():
    specs = composed("+scorer=default")["scorer"]
    assert tuple(specs) == DEFAULT
    scorers = build_scorers(specs)
    assert list(scorers) == [scorer.name for scorer in scorers.values()] == list(DEFAULT)


@pytest.mark.parametrize("name", sorted(installed(SCORERS)))
def test_each_yaml_composes_builds_and_says_what_the_class_says(name):
    specs = composed(f"+scorer={name}")["scorer"]
    assert list(specs) == [name]
    spec = specs[name]
    scorer = build_scorer(name, spec)
    assert scorer == type(scorer)() == build_scorer(name, {})
    assert list(scorer.value_range) == spec.get("value_range", list(scorer.value_range))  # some follow from options


def test_a_value_is_overridden_from_the_command_line():
    specs = composed("+scorer=default", "scorer.valence.smallest_effect=0.1")["scorer"]
    assert build_scorer("valence", specs["valence"]).smallest_effect == 0.1


def test_a_scorer_from_outside_the_tree(tmp_path, monkeypatch):
    (tmp_path / "own_length.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "scorer").mkdir()
    spec = {
        "target": "own_length:Length",
        "higher_is_better": True,
        "value_range": [0, 100],
        "smallest_effect": 1,
        "unit": 2,
    }
    (tmp_path / "scorer" / "length.yaml").write_text(yaml.safe_dump({"length": spec}), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    specs = composed(f"hydra.searchpath=[file://{tmp_path}]", "+scorer=[valence,length]")["scorer"]
    scorer = build_scorers(specs)["length"]
    assert scorer.name == "length"
    np.testing.assert_array_equal(scorer.score(["abcd"], ["p"]).values, [2.0])
    with pytest.raises(Fp2Error, match="own_length:Half is not a scorer"):
        build_scorer("half", {"target": "own_length:Half"})
    for change, says in (({"unti": 2}, "unknown key 'unti'.*'unit'"), ({"unit": "two"}, "the scorer cannot be built")):
        with pytest.raises(Fp2Error, match=says):
            build_scorer("length", spec | change)
    with pytest.raises(Fp2Error, match=r"^value_range is missing \(scorer\.length"):
        build_scorer("length", {"target": "own_length:Length", "higher_is_better": True})


@pytest.mark.parametrize(
    ("name", "spec", "says"),
    [
        ("valense", {}, "Did you mean 'valence'"),
        ("valence", {"target": "fp2.scorers.valence:Valense"}, "Did you mean 'Valence'"),
        ("valence", {"target": "fp2.scorers.valance:Valence"}, "cannot import 'fp2.scorers.valance'"),
        ("valence", {"target": "fp2.scorers.valence.Valence"}, "or write package.module:Name"),
        ("valence", {"target": "economics"}, "Did you mean 'economic'"),
        ("valence", "fp2.scorers.valence:Valence", "Write target: package.module:Class"),
        ("valence", {"target": "fp2.scorers.valence:Valence", "smalest_effect": 1}, "Did you mean 'smallest_effect'"),
        (
            "economic",
            {"target": "fp2.scorers.economic:Economic", "lexicon_file": "economics"},
            "Did you mean 'economic'",
        ),
    ],
)
def test_slips_are_one_line_with_the_nearest_name(name, spec, says):
    with pytest.raises(Fp2Error) as caught:
        build_scorer(name, spec)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_scorer_at_all():
    with pytest.raises(Fp2Error, match="no scorer is selected"):
        build_scorers({})
