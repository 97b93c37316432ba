"""Every YAML of conf/ composes and validates, and every slip of the pen gets one line with the nearest valid name."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from itertools import zip_longest
from pathlib import Path
from typing import Any

import hydra
import pytest
import yaml
from bench import REPOSITORY
from hydra import initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from rooted import ROOTED

from fp2.compose import CONFIG_NAME, check_overrides, compose_config, hydra_overrides, load_config, validate
from fp2.compose.suggestions import usable
from fp2.config import choices, conf_dir, conf_folders
from fp2.cuts import resolve_cuts
from fp2.data.group_sizes import group_sizes
from fp2.errors import Fp2Error
from fp2.methods.peeps.data.source import planned_peeps
from fp2.methods.peeps.data.spec import PeepsSpec

NEEDS = {
    **{f"data={name}": ["data.root=/data"] for name in ROOTED},
    "data=table": ["data.path=people.csv", "data.columns={image: file}"],
    "data=counterfactual": ["data.path=sets.csv"],
    "data=hf": ["data.root=/data", "data.columns={image: image}"],
    **{
        f"experiment={name}": ["data.root=/data"]
        for name in ("page", "page_code", "fhibe_clip", "gras_fhibe", "gras_published")
    },
    **{
        f"experiment={name}": ["data.root=/data"]
        for name in ("genderbias_vl", "sb_bench", "social_counterfactuals", "visogender", "vlbiasbench")
    },
    **{f"{group}=vl_gender": ["data.root=/data", "data.checkout=/data"] for group in ("data", "experiment")},
    **{f"{group}=pairs": ["data.root=/data", "data.questions=/data.py"] for group in ("data", "experiment")},
    "model=recorded": ["engine.answers=/data/answers.csv"],
    "experiment=gras_paper": ["data.root=/data", "probe.traits_file=null"],
}
APART = ("sweep", "engine", "model", "narrow")
"""Groups with tests of their own (models: tests/engines/test_model_configs.py), and files that are no group."""
FILES = sorted(path for folder in conf_folders().values() for path in folder.glob("*/*.yaml"))
RELEASED = json.loads(max(REPOSITORY.glob("tests/releases/*/names.json")).read_text(encoding="utf-8"))["hashes"]
HASHED = {words.partition(" ")[0] for words, value in RELEASED.items() if not value.startswith("error")}
"""Choices of the latest release: tests/test_releases.py composes each, for its hash."""
CHOICES = [
    choice
    for path in FILES
    if path.parent.name not in APART and (choice := f"{path.parent.name}={path.stem}") not in HASHED
]
TOGETHER = ("data", "scorer", "analysis", "cut", "paths", "report", "tracking", "variant")
"""Groups that refer to no other: one of each is composed at once, since a composition takes long."""
COMPOSED = [
    *([choice] for choice in CHOICES if not choice.startswith(TOGETHER)),
    *map(list, zip_longest(*([c for c in CHOICES if c.startswith(f"{group}=")] for group in TOGETHER))),
]


@pytest.mark.parametrize("words", COMPOSED, ids=lambda words: ",".join(filter(None, words)))
def test_every_choice_that_no_release_has_composes_and_validates(words: list[str | None]) -> None:
    chosen = [word for word in words if word]
    assert load_config([*chosen, *NEEDS.get(chosen[0], [])]).data.kind


@pytest.mark.parametrize("name", choices("sweep"))
def test_every_sweep_composes_with_each_of_its_choices(name: str) -> None:
    params = yaml.safe_load(choices("sweep")[name].read_text(encoding="utf-8"))["hydra"]["sweeper"]["params"]
    assert all(len(choices.split(",")) >= 2 for choices in params.values())
    check_overrides(hydra_overrides([f"sweep={name}"]))  # validates each choice


def test_a_wrong_choice_in_a_sweeps_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"cut": "region,pronuon"}, True, None
    monkeypatch.setattr("fp2.compose.overrides._sweep_of", lambda overrides: found)
    with pytest.raises(Fp2Error, match="'pronoun'"):
        check_overrides(hydra_overrides(["model=planted"]))


def test_the_engine_follows_the_model() -> None:
    assert load_config(["model=planted"]).engine.name == "planted"
    assert load_config(["model=peeps_vlm"]).engine.name == "hf"


@pytest.mark.parametrize("name", ["location_country", "location_region", "user_date_captured"])
def test_nothing_is_cut_by_where_exactly_or_when_an_image_was_taken(name: str) -> None:
    for override in (f"cut.by=[{name}]", f"cut.each=[region,pronoun_x_{name}]"):
        with pytest.raises(Fp2Error, match=f"'{name}' must not leave the data folder") as caught:
            load_config([override])
        assert "\n" not in str(caught.value)
    assert load_config(["cut.each=[location_un_region,location_un_subregion,user_hour_captured]"]).cut.each


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("analysis.alpha=0", "analysis.alpha"),
        ("analysis.alpha=1", "analysis.alpha"),
        ("analysis.min_subjects=1", "analysis.min_subjects"),
        ("analysis.bootstrap=-1", "analysis.bootstrap"),
        ("analysis.severity.low=0.5", "analysis.severity"),
        ("answers.attempts=0", "answers.attempts"),
        ("answers.error_budget=-0.1", "answers.error_budget"),
        ("answers.error_budget=1.5", "answers.error_budget"),
        ("data.limit=0", "data.limit"),
        ("data.n_subjects=0", "data.n_subjects"),
        ("engine.batch_size=0", "engine.batch_size"),
        ("seed=-1", "seed"),
        ("tracking.sweep_id='a b'", "tracking.sweep_id"),
        ("variant=swaped", "Did you mean 'swapped'"),
        ("variant.kind=swaped", "Did you mean 'swapped'"),
        ("variant.kind=swapped", "needs a seed"),
        ("variant.radius=3", "'original' has no radius"),
        ("variant.region=box", "'original' has no region"),
        ("variant={name: x, kind: blurred, radius: 0}", "above 0"),
        ("variant={name: x, kind: face_crop, margin: -0.5}", "at least 0"),
        ("variant={name: x, kind: grey, size: 0}", "at least 1"),
        ("+analysis.alfa=1", "alfa"),
    ],
)
def test_types_ranges_and_what_must_fit_together(override: str, where: str) -> None:
    with pytest.raises(Fp2Error) as caught:
        check_overrides(hydra_overrides([override]))
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


def test_severity_bounds_may_come_in_any_order() -> None:
    given = {"high": 0.3, "low": 0.01, "moderate": 0.1}
    overrides = [f"analysis.severity.{name}={value}" for name, value in given.items()]
    assert load_config(overrides).analysis.severity == given


def test_an_intersection_by_name_in_one_run_and_in_a_sweep() -> None:
    assert load_config(["cut=region_x_age_x_pronoun"]).cut.by == ["region", "age", "pronoun"]
    check_overrides(hydra_overrides(["cut=region,age_x_pronoun"]), sweep=True)


def test_a_glob_sweeps_over_the_files_of_a_group() -> None:
    check_overrides(hydra_overrides(["report=glob(*)", "model=planted"]))
    with pytest.raises(Fp2Error, match="nothing matches"):
        check_overrides(hydra_overrides(["cut=glob(x*)"]))


def test_the_schema_has_every_key_of_every_yaml() -> None:
    """A key that a YAML file sets and the typed schema lacks would fail only when that file is chosen."""
    from fp2.config import Config

    top = yaml.safe_load((conf_dir() / "config.yaml").read_text(encoding="utf-8"))
    assert set(top) - {"defaults", "hydra"} <= set(Config.__dataclass_fields__)
    groups = {path.parent.name for path in FILES} - {"sweep", "experiment", "narrow"}
    assert groups <= set(Config.__dataclass_fields__)


def test_no_conf_file_names_a_path_of_a_machine() -> None:
    for path in FILES:
        assert "/home/" not in path.read_text(encoding="utf-8")


def written(value: object) -> str:
    """Return a value as Hydra's override grammar has it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


RELEASED_KEYS = json.loads((REPOSITORY / "tests/releases/0.3.0/config_keys.json").read_text(encoding="utf-8"))
"""Choice -> the keys of 0.3.0's config with it; of most groups only those that no choice before it has."""
MODELS = {"dual": "clip_vit_large_patch14", "openai_compat": "openai_compat", "planted": "planted"}


def is_installed(choice: str) -> bool:
    """Return whether a choice is there: those of a method package may be removed (test_releases.py names them all)."""
    group, _, name = choice.partition("=")
    return not name or name in choices(group)


@pytest.mark.parametrize("choice", [*filter(is_installed, RELEASED_KEYS)])
def test_every_key_of_version_0_3_is_accepted_as_an_override(choice: str) -> None:
    from omegaconf import OmegaConf

    group, _, name = choice.partition("=")
    chosen = [f"model={MODELS[name]}"] if group == "engine" and name in MODELS else list(filter(None, [choice]))
    needs = NEEDS.get(choice, [])
    composed = compose_config(hydra_overrides([*chosen, *needs]))
    values = OmegaConf.to_container(composed, resolve=True)
    given = [
        f"{key}={written(reduce(lambda part, word: part.get(word), key.split('.'), values))}"
        for key in RELEASED_KEYS[choice]
    ]
    assert load_config([*chosen, *given, *needs]) == validate(composed)


@pytest.mark.parametrize("entry", ["file:///no/such/folder", "/no/such/folder", "pkg://no_such_package.conf"])
def test_a_search_path_that_does_not_exist_is_one_line(entry: str) -> None:
    with pytest.raises(Fp2Error, match=r"(folder does not exist|no package).*hydra\.searchpath"):
        load_config([f"hydra.searchpath=[{entry}]"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cut=facs"], "unknown cut 'facs'. Choose from: age, all, .*pronoun, region, skin_tone. Any"),
        (["cut=subregio", "data=fhibe"], "Did you mean 'subregion'"),
        (
            ["cut=subregio", "data=table", "data.path=people.csv", "data.columns={image: a, region: b}"],
            "from: region. A",
        ),
        pytest.param(
            ["cut=facs", "data=fairface"],
            "Add data.root=PATH",  # it may be an attribute
            marks=pytest.mark.package(name="public_sets"),
        ),
        pytest.param(
            ["scorer=valenc", "probe=attention"],
            "Choose from: attention, competency_words, first_mention, word_share$",
            marks=[pytest.mark.package(name="attention"), pytest.mark.package(name="benchmarks")],
        ),
        (["scorer=valenc", "data=fhibe"], "Did you mean 'valence'"),
        (["scorer=valenc", "engine.batch=3"], "unknown key 'batch'|See what there is: fp2 list scorers"),
    ],
)
def test_cuts_and_scorers_that_would_be_refused_are_not_suggested(words: list[str], said: str) -> None:
    with pytest.raises(Fp2Error, match=said):
        load_config(words)


def test_every_suggested_cut_has_groups_and_scorers_fit_the_battery() -> None:
    people = planned_peeps(PeepsSpec(n_subjects=60, n_pairs=0)).people
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        words = hydra_overrides(["data=peeps"])
        cuts, scorers = usable("cut", words), usable("scorer", words)
    for name in cuts or []:
        spec = yaml.safe_load(choices("cut")[name].read_text(encoding="utf-8"))
        assert all(group_sizes(people, resolve_cuts(spec)).values())
    assert len(cuts or []) >= 6
    assert {"word_share", "first_mention", "attention", "none"}.isdisjoint(scorers or [])
    assert {"valence", "default", "refusal"} <= set(scorers or [])


@pytest.mark.parametrize(
    "words",
    [
        ["seed=2", "seed=3", "cut.by=[pronoun,region]", "++data.n_subjects=4", "report.theme='a, b'"],
        ["hydra.job.name=mine", "probe.decoding={max_new_tokens: 7}", "probe.decoding.max_new_tokens=8"],
        ["~probe.description", "+model.options.width=3", "++model.options.width=4", "model.id=${model.name}"],
        ["scorer=[valence,refusal]", "scorer.valence.scale=null", "model=planted", "model.truth={seed: 1}"],
        ["seed=two", "model.chat=yes"],
        ["cut.nothing=1"],
        ["seed=1,2"],
    ],
)
def test_settings_are_made_as_hydra_makes_them(words: list[str]) -> None:
    expected = outcome_of(hydras_own, hydra_overrides(words))
    for _ in range(2):  # the second time in the composition of the first
        assert outcome_of(compose_config, hydra_overrides(words)) == expected


def hydras_own(words: list[str]) -> Any:
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return hydra.compose(CONFIG_NAME, words)


def outcome_of(function: Callable[[list[str]], Any], words: list[str]) -> Any:
    try:
        return OmegaConf.to_container(function(words))
    except (Fp2Error, HydraException):
        return "refused"


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    words = [f"hydra.searchpath=[file://{tmp_path}]", "model=own"]
    for name in ("first", "second"):
        (tmp_path / "model" / "own.yaml").write_text(f"name: {name}\nengine: planted\n")
        assert [load_config([*words, f"seed={seed}"]).model.name for seed in (1, 2)] == [name, name]


def test_an_attribute_of_a_table_is_a_cut_by_its_name() -> None:
    table = ["data=table", "data.path=p.csv", "data.columns={image: file, geschlecht: Sex}", "model=planted"]
    assert load_config([*table, "cut=geschlecht"]).cut.by == ["geschlecht"]
    with pytest.raises(Fp2Error, match="Did you mean 'geschlecht'"):
        load_config([*table, "cut=geschlcht"])
