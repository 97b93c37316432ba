"""Extension points: what a name stands for, and what is refused in one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import pytest
from annotated_types import Gt
from bench import fp2

from fp2 import config, plugins
from fp2.compose import load_config
from fp2.errors import Fp2Error


def test_a_name_is_an_entry_point_and_a_path_with_a_colon_an_import() -> None:
    from fp2.protocols.fingerprint.protocol import Fingerprint

    path = "fp2.protocols.fingerprint.protocol:Fingerprint"
    assert plugins.load(plugins.PROTOCOLS, "fingerprint", "probe.protocol") is Fingerprint
    assert plugins.load(plugins.PROTOCOLS, path, "probe.protocol") is Fingerprint


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "fingerprnt",
            r"unknown protocol 'fingerprnt' \(here\)\. Did you mean 'fingerprint'\? .*or write package",
        ),
        ("no.such.module:Thing", r"cannot import 'no\.such\.module'.*\(here\)"),
        ("fp2.errors:Fp2Eror", r"'fp2\.errors' has no 'Fp2Eror' \(here\)\. Did you mean 'Fp2Error'"),
        (":Thing", "is not an import path"),
        ("fp2.errors:", "is not an import path"),
    ],
)
def test_what_a_name_does_not_stand_for_is_refused(name: str, message: str) -> None:
    with pytest.raises(Fp2Error, match=message) as caught:
        plugins.load(plugins.PROTOCOLS, name, "here")
    assert "\n" not in str(caught.value)


def test_a_class_that_lacks_a_member_is_refused_by_its_name() -> None:
    with pytest.raises(Fp2Error, match=r"is not a protocol: it lacks analyse, asks \(here\)"):
        plugins.check_members(Fp2Error, ("analyse", "asks", "args"), "a protocol", "here")


BROKEN = {
    plugins.DATA: "no_such_package.data:Data",
    plugins.ENGINES: "no_such_package.engine:Engine",
    plugins.CONF: "no_such_package.conf",
}


@pytest.mark.package(name="maintenance")
def test_a_defect_in_one_package_does_not_affect_runs_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where options of another data set and engine are given, for which all classes are read."""
    real = plugins.installed

    def installed(group: str) -> dict[str, EntryPoint]:
        extra = {"broken": EntryPoint("broken", BROKEN[group], group)} if group in BROKEN else {}
        return {**real(group), **extra}

    for module in (plugins, config):
        monkeypatch.setattr(module, "installed", installed)
    config._plugin_folders.cache_clear()
    plugins._warn_once.cache_clear()
    loaded = load_config(["model=planted", "+data.root=null", "data.accept_terms=null", "engine.threads=null"])
    assert loaded.data.kind == "peeps"
    assert "planted" in config.choices("model")
    assert fp2("list", "models") == 0
    err = capsys.readouterr().err
    assert err.count("the plug-in 'broken' (fp2.data) was skipped: cannot import 'no_such_package.data'") == 1
    assert err.count("the plug-in 'broken' (fp2.conf) was skipped: No module named 'no_such_package'") == 1
    config._plugin_folders.cache_clear()
    with pytest.raises(Fp2Error, match=r"cannot import 'no_such_package\.data'"):
        load_config(["model=planted", "data.kind=broken"])


@dataclass(frozen=True)
class Options:
    size: Annotated[int, Gt(0)]
    names: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


def test_options_are_read_with_their_types() -> None:
    read = plugins.read_options(Options, {"size": 3, "names": ["a"], "more": {"any": 1}}, "task.options")
    assert read == Options(3, ("a",), {"any": 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 3, "name": ["a"]}, r"unknown key 'name' \(task\.options\)\. Did you mean 'names'"),
        ({}, r"size is missing \(task\.options\.size\)"),
        ({"size": 0}, r"0 is not more than 0 \(task\.options\.size\)"),
        ({"size": 3, "names": "a"}, r"'a' is not a list.*\(task\.options\.names\)"),
    ],
)
def test_the_first_wrong_option_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(Fp2Error, match=message) as caught:
        plugins.read_options(Options, given, "task.options")
    assert "\n" not in str(caught.value)
