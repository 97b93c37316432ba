"""A run that somebody else wrote is data: what it names outside the project is used only where it is stated again."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from bench import Bench, every_byte, fp2, package_marks, results_of
from fake_server import FakeServer, serving

from fp2.cli import app
from fp2.errors import Fp2Error
from fp2.runs.logged import logged_config
from fp2.runs.origin import MAX_DEPTH, ForeignRunError, is_own, logged_overrides, named_outside, read_plain, state_again

pytestmark = pytest.mark.long
UNTRACKED = "tracking.enabled=false"
SECRET = "the-secret-of-this-machine"
Change = Callable[[Any], object]


def foreign(bench: Bench, change: Change = lambda plain: None, name: str = "foreign", **files: str) -> Path:
    """Return a copy of the finished run as somebody else may write it: a changed config without a signature."""
    folder = Path(shutil.copytree(bench.outputs / "one", bench.root / "shared" / name))
    plain = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    change(plain)
    (folder / "config.yaml").write_text(yaml.safe_dump(plain, sort_keys=False), encoding="utf-8")
    for file, text in files.items():
        (folder / f"{file}.yaml").write_text(text, encoding="utf-8")
    return folder


def config_hash_of(folder: Path, bench: Bench, *words: str) -> None:
    """Write the hash of the config into the results, as somebody who wants the run to be repeated does."""
    from fp2.compose import config_hash

    results = results_of(folder)
    config = logged_config(folder, bench.config(), results["run_id"], words, ("scorer", "model", "engine", "data"))
    results["config_hash"] = config_hash(config)
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that exists as soon as the module `fp2_trap` has been imported."""
    marker = tmp_path / "imported"
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "fp2_trap.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("SECRET", SECRET)
    sys.modules.pop("fp2_trap", None)
    return marker


def test_the_runs_of_a_project_are_its_own_wherever_their_folder_lies_and_no_changed_one_is(
    finished: Bench, tmp_path: Path
) -> None:
    folder, here = finished.outputs / "one", finished.config()
    assert is_own(folder, here)
    assert is_own(folder, here, "overrides.yaml")
    moved = Path(shutil.copytree(folder, tmp_path / "moved"))
    assert is_own(moved, here)
    assert not is_own(folder, Bench(tmp_path / "other", finished.pictures).config())
    text = (moved / "config.yaml").read_text(encoding="utf-8")
    signature = text.splitlines()[-1]
    changed = (
        text.replace("seed: 20260101", "seed: 20260102"),
        text.replace(signature, ""),
        text + "\nseed: 7\n",
        text.replace(signature, f"{signature[:-1]}0" if signature[-1] != "0" else f"{signature[:-1]}1"),
        f"{text}{signature}\n",
        text.replace(signature, "# signed by the project that wrote it: é"),
        "",
    )
    for other in changed:
        (moved / "config.yaml").write_text(other, encoding="utf-8")
        assert not is_own(moved, here), other[-200:]
    (finished.root / "state" / "salt").write_bytes(b"")  # of a damaged salt nobody's signature follows
    assert not is_own(folder, here)


@pytest.mark.package(name="withdrawal")
def test_a_purged_run_is_still_the_projects_own(finished: Bench) -> None:
    subject = finished.table.read_text(encoding="utf-8").splitlines()[1].split(",")[1]
    assert fp2("purge", "--subject", subject, "--yes", *finished.paths) == 0
    assert is_own(finished.outputs / "one", finished.config())


@pytest.mark.package(name="reruns")
def test_an_honest_run_of_another_project_is_repeated_and_scored_again(
    finished: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = foreign(finished)
    assert fp2("rerun", str(folder), UNTRACKED, *finished.paths) == 0
    out = capsys.readouterr().out
    assert "all numbers are equal" in out
    assert "drift" not in out
    again = finished.run_folders()[-1]
    assert is_own(again, finished.config())  # all that it names is harmless, or was typed here
    assert fp2("rescore", str(folder), "analysis.alpha=0.01", "report=none", "tracking=none", *finished.paths) == 0
    assert not is_own(finished.run_folders()[-1], finished.config())


@pytest.mark.parametrize(
    "command", [pytest.param(name, marks=package_marks(name)) for name in ("rerun", "rescore", "label", "multiverse")]
)
def test_code_that_a_foreign_run_names_is_not_imported_until_it_is_stated_again(
    command: str, finished: Bench, trap: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(plain: Any) -> None:
        plain["scorer"]["valence"]["target"] = "fp2_trap:Scorer"

    folder = foreign(finished, change)
    words = (command, str(folder), *finished.paths)
    assert fp2(*words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "was not written by this project, and names scorer.valence.target" in err
    assert "If you trust it, add: scorer.valence.target=fp2_trap:Scorer" in err
    assert not trap.exists()
    assert fp2(*words, "scorer.valence.target=fp2_trap:Scorer") == 2
    if command != "rerun":  # which finds the other config hash first
        assert "cannot import 'fp2_trap': RuntimeError: imported" in capsys.readouterr().err
    assert trap.exists()


@pytest.mark.parametrize(
    ("command", "target"),
    [
        pytest.param(command, target, marks=package_marks(command))
        for command, target in (
            ("rerun", "os:system"),
            ("rescore", "subprocess:Popen"),
            ("label", "os:path"),
            ("multiverse", "fp2.cli:main"),
        )
    ],
)
def test_what_is_no_scorer_is_refused_before_it_is_called(
    command: str, target: str, finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = tmp_path / "touched"

    def change(plain: Any) -> None:
        plain["scorer"]["valence"] = {"target": target, "command": f"touch {touched}", "args": ["touch", str(touched)]}

    folder = foreign(finished, change)
    stated = (f"scorer.valence.target={target}", f"scorer.valence.args=[touch,{touched}]")
    config_hash_of(folder, finished, *stated)
    assert fp2(command, str(folder), *stated, *finished.paths) == 2
    assert f"{target} is not a scorer" in capsys.readouterr().err
    assert not touched.exists()


IMPORTED: dict[str, Change] = {
    "data.target": lambda plain: plain["data"].update(target="fp2_trap:X"),
    "data.kind": lambda plain: plain["data"].update(kind="fp2_trap:X"),
    "engine.target": lambda plain: plain["engine"].update(target="fp2_trap:X"),
    "engine.name": lambda plain: plain["engine"].update(name="fp2_trap:X"),
    "model.engine": lambda plain: (plain["engine"].update(name=None), plain["model"].update(engine="fp2_trap:X")),
    "scorer.valence.target": lambda plain: plain["scorer"]["valence"].update(target="fp2_trap:X"),
    "scorer.fp2_trap:X.target": lambda plain: plain["scorer"].update({"fp2_trap:X": {}}),
    "scorer.a.b.target": lambda plain: plain["scorer"].update({"a.b": {"target": "fp2_trap:X"}}),
    "probe.protocol": lambda plain: plain["probe"].update(protocol="fp2_trap:X"),
    "probe.options.supplements": lambda plain: plain["probe"].update(options={"supplements": ["fp2_trap:X"]}),
    "task.name": lambda plain: plain["task"].update(name="fp2_trap:X"),
}
"""Every setting that names code -> a run that names some there."""


TARGETS = ("data.target", "engine.target", "scorer.valence.target", "probe.options.supplements")
HOSTILE: tuple[Change, ...] = (
    lambda plain: [IMPORTED[key](plain) for key in TARGETS],
    IMPORTED["probe.protocol"],
)


def commands(command: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the words and the object of every command."""
    if hasattr(command, "commands"):
        for name, inner in sorted(command.commands.items()):
            yield from commands(inner, (*names, name))
    else:
        yield names, command


SETTINGS = {
    "compare": ["RUN", "OWN"], "diff": ["RUN", "OWN"], "export": ["RUN", "--csv", "OUT"], "keygen": ["OUT"],
    "passport": ["RUN/passport.json", "--html", "OUT"], "purge": ["--subject", "SUBJECT", "--drop-reports", "--yes"],
    "sign": ["RUN/passport.json", "--key", "PRIVATE"], "verify": ["RUN/passport.json", "--key", "PUBLIC"],
    "store merge": ["STORE", "STORE", "--into", "OUT"],
    "list": ["scorers"], "leaderboard": ["--csv", "OUT"], "label": ["RUN", "--status"],
    "view": ["RUN", "--port", "99999999"],
}  # fmt: skip
"""Arguments of the commands that take more, or other, than a run."""
NO_SETTINGS = ("keygen", "sign", "verify", "new", "store merge", "list")
NO_RUN = ("data verify", "new", "pin", "plan", "run", "ui", "watch")
"""Commands that read no finished run."""
READS = [" ".join(names) for names, _ in commands(typer.main.get_command(app)) if " ".join(names) not in NO_RUN]


@pytest.mark.parametrize("names", READS)
def test_no_command_imports_what_a_foreign_run_names(
    names: str, finished: Bench, trap: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command of the table: of one that is new and takes a run, the run is given."""
    keys = finished.root / "state" / "keys"
    subject = finished.table.read_text(encoding="utf-8").splitlines()[1].split(",")[1]
    for place, change in enumerate(HOSTILE):
        folder = foreign(finished, change, f"{place}", overrides="- probe.protocol=fp2_trap:X\n- model=planted\n")
        results = json.dumps({**results_of(folder), "run_id": f"{place}" * 32})
        (folder / "results.json").write_text(results, encoding="utf-8")
        shutil.copytree(folder, finished.outputs / f"from-elsewhere-{place}")
        stands_for = {
            "RUN": str(folder),
            "RUN/passport.json": str(folder / "passport.json"),
            "SUBJECT": subject,
            "OUT": str(tmp_path / f"out{place}"),
            "PRIVATE": str(keys / "passport_key.pem"),
            "PUBLIC": str(keys / "passport_key.pub.pem"),
            "STORE": str(finished.store),
            "OWN": str(finished.outputs / "one"),
        }
        words = [stands_for.get(word, word) for word in SETTINGS.get(names, ["RUN"])]
        status = fp2(*names.split(), *words, *(finished.paths if names not in NO_SETTINGS else ()))
        said = capsys.readouterr()
        assert not trap.exists(), said
        assert "Traceback" not in said.err
        if names in ("show", "compare", "report", "export", "passport"):
            assert status == 0, said


@pytest.mark.parametrize("key", IMPORTED)
def test_every_setting_that_names_code_is_noticed(key: str, finished: Bench, trap: Path) -> None:
    folder = foreign(finished, IMPORTED[key])
    with pytest.raises(ForeignRunError, match=f"names {key}"):
        logged_config(folder, finished.config(), "")
    assert not trap.exists()


@pytest.mark.package(name="withdrawal")
def test_a_purge_recomputes_own_runs_with_their_code_and_no_foreign_run(
    finished: Bench, trap: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.move(foreign(finished, IMPORTED["scorer.valence.target"]), finished.outputs / "two"))
    subject = finished.table.read_text(encoding="utf-8").splitlines()[1].split(",")[1]
    assert fp2("purge", "--subject", subject, "--dry-run", *finished.paths) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "cannot be recomputed" in out
    assert "names scorer.valence.target" in out
    assert fp2("purge", "--subject", subject, "--yes", "--drop-reports", *finished.paths) == 0
    assert not trap.exists()
    assert not (folder / "results.json").exists()
    assert results_of(finished.outputs / "one")["n_subjects"] == 35


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving({}) as fake:
        yield fake


@pytest.mark.package(name="reruns")
def test_a_foreign_run_sends_no_key_and_no_image_until_its_server_is_stated_again(
    finished: Bench, server: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET", SECRET)

    def change(plain: Any) -> None:
        plain["engine"] = {"name": "openai_compat", "attempts": 1, "timeout": 5}
        plain["model"] |= {"engine": "openai_compat", "id": "m", "base_url": server.url, "api_key_env": "SECRET"}
        plain["model"]["truth"] = None
        plain["probe"]["decoding"] = {"max_new_tokens": 8, "temperature": 0}

    folder = foreign(finished, change)
    config_hash_of(folder, finished, f"model.base_url={server.url}", "model.api_key_env=SECRET")
    words = ("rerun", str(folder), UNTRACKED, *finished.paths)
    for more in ((), (f"model.base_url={server.url}",), ("model.api_key_env=SECRET",)):
        assert fp2(*words, *more) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
    assert server.seen == []
    assert fp2(*words) == 2
    line = capsys.readouterr().err
    typed = shlex.split(line.partition("add: ")[2])
    assert set(typed) == {f"model.base_url={server.url}", "model.api_key_env=SECRET"}
    fp2(*words, *typed)  # the words of the message, as they stand
    assert server.seen
    assert any(SECRET in str(one.headers) for one in server.seen)


@pytest.mark.package(name="reruns")
def test_a_judge_of_a_foreign_run_asks_nobody_until_it_is_stated_again(
    finished: Bench, server: FakeServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET", SECRET)

    def change(plain: Any) -> None:
        judge = {
            "target": "fp2.scorers.judge:Judge",
            "id": "m",
            "base_url": server.url,
            "api_key_env": "SECRET",
            "attempts": 1,
            "timeout": 5,
        }
        plain["scorer"]["judge"] = judge

    folder = foreign(finished, change)
    words = ("rescore", str(folder), "report=none", "tracking=none", *finished.paths)
    assert fp2(*words) == 2
    err = capsys.readouterr().err
    assert "names scorer.judge.base_url, scorer.judge.api_key_env" in err
    assert fp2("rescore", str(folder), "scorer.judge={seed: 1}", *words[2:]) == 2  # states neither
    assert server.seen == []
    fp2(*words, *shlex.split(err.partition("add: ")[2]))
    assert any(SECRET in str(one.headers) for one in server.seen)
    before = len(server.seen)
    assert fp2("rescore", str(folder), "scorer=valence", *words[2:]) == 0  # another scorer in their place
    assert len(server.seen) == before


@pytest.mark.package(name="reruns")
def test_no_interpolation_of_a_logged_config_is_resolved(
    finished: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET", SECRET)

    def change(plain: Any) -> None:
        plain["model"]["name"] = "${oc.env:SECRET}"
        question = {"id": "p", "text": "${oc.env:SECRET}?"}
        plain["probe"]["probes"] = {**plain["probe"]["probes"], "p": {"label": "P", "questions": [question]}}
        plain["paths"] = {"root": ".", "outputs": "${oc.env:SECRET}"}
        plain["tracking"]["experiment"] = "${oc.env:SECRET}"

    text = "- model=planted\n- model.name=${oc.env:SECRET}\n- 'cut.by=[gender,${oc.env:SECRET}]'\n"
    folder = foreign(finished, change, overrides=text)
    config_hash_of(folder, finished)
    for command in ("rerun", "rescore", "multiverse", "label", "show"):
        more = ("--status",) if command == "label" else ()
        fp2(command, str(folder), *more, UNTRACKED, "report.figures=false", *finished.paths)
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
        assert "Traceback" not in said.err
    assert SECRET.encode() not in every_byte(finished.root)
    again = [yaml.safe_load((one / "config.yaml").read_text(encoding="utf-8")) for one in finished.run_folders()[-2:]]
    assert [plain["model"]["name"] for plain in again] == ["${oc.env:SECRET}"] * 2
    folder = foreign(finished, lambda plain: plain["model"].update(name="${oc.env:SECRET"), "half")
    config_hash_of(folder, finished)
    assert fp2("rerun", str(folder), UNTRACKED, *finished.paths) == 2
    assert "error: the config cannot be written: " in capsys.readouterr().err


@pytest.mark.package(name="reruns")
def test_a_run_that_is_repeated_does_not_pass_on_what_a_foreign_run_names(
    finished: Bench, trap: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The repeated run is the project's own: what is in it must have been typed here."""
    words = (
        "model=planted",
        "model.name=${oc.env:SECRET}",
        "hydra.searchpath=[file:///tmp]",
        "data=../../../etc/x",
        "scorer.valence={target: 'fp2_trap:Scorer'}",
        "scorer.valence={target:fp2_trap:Scorer}",
        "+scorer.valence.target='fp2_trap:Scorer'",
        "++probe.options.supplements=extend_list(fp2_trap:X)",
        "scorer.valence.target=str(fp2_trap:Scorer)",
        "scorer.valence.target=fp2_trap:A,fp2_trap:B",
        "probe.protocol=fp2_trap:Protocol",
        "model.truth=/etc/passwd",
        "model.trust_remote_code=true",
        "model.base_url=http://evil.example",
        "seed=20260101",
    )
    folder = foreign(finished, overrides=yaml.safe_dump(list(words)))
    kept = ["model=planted", "seed=20260101"]
    assert logged_overrides(folder, finished.config()) == kept
    assert fp2("rerun", str(folder), UNTRACKED, *finished.paths) == 0
    assert not trap.exists()
    assert SECRET not in capsys.readouterr().out
    again = yaml.safe_load((finished.run_folders()[-1] / "overrides.yaml").read_text(encoding="utf-8"))
    assert again[: len(kept)] == kept
    assert not any("fp2_trap" in word or "evil" in word for word in again)


@pytest.mark.parametrize(
    "text",
    [
        "- !!python/object/apply:os.system ['touch {marker}']",
        "a: &a [*a]",
        "\x00",
    ],
)
@pytest.mark.parametrize("name", ["config", "overrides"])
def test_files_that_are_not_plain_data_are_one_line(
    name: str, text: str, finished: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "called"
    folder = foreign(finished, **{name: text.replace("{marker}", str(marker))})
    for command in ("rerun", "show", "diff"):
        words = [str(folder)] * (2 if command == "diff" else 1)
        status = fp2(command, *words, UNTRACKED, *finished.paths)
        err = capsys.readouterr().err
        assert "Traceback" not in err, (command, err)
        assert status != 0 or name == "overrides" or command in ("show", "diff"), command
    assert not marker.exists()


def named(plain: dict[str, Any], bench: Bench, *used: str) -> set[str]:
    return {".".join(key) for key in named_outside(bench.root / "nowhere", bench.config(), plain, used)}


def test_what_counts_as_outside(finished: Bench) -> None:
    inside = finished.root / "pictures"
    plain = {
        "data": {"kind": "table", "path": "local:people.csv", "root": str(inside), "columns": {"image": "a:b"}},
        "model": {"id": "llama:7b", "name": "x:y", "truth": "file:/etc/passwd", "adapter": "~/x", "base_url": None},
        "engine": {"name": "hf", "answers": ["../../../../../x.csv"], "url": "http://h", "options": {"k": "C:\\x"}},
        "scorer": {"judge": {"target": "fp2.scorers.judge:Judge", "id": "qwen:7b", "rubric": "valence", "more": "m:C"}},
        "probe": {"protocol": "fingerprint", "probes": {"p": {"text": "/ see http://a, or os:system"}}},
        "task": {"name": "ask", "files": {"x": "data/x.csv", "y": "\x00/.."}},
        "paths": {"root": "/"},
        "tracking": {"uri": "http://h"},
        "report": {"x": "/"},
        "seed": 3,
    }
    outside = {
        "model.truth",
        "model.adapter",
        "engine.answers",
        "engine.url",
        "engine.options.k",
        "scorer.judge.more",
        "task.files.y",
    }
    assert named(plain, finished) == outside
    asks = {
        "model": {"trust_remote_code": True, "pickled_weights": "yes", "api_key_env": "HOME", "base_url": ["http://h"]},
        "engine": {"ray": {"address": "h:1"}},
        "scorer": {"x": {"api_key_env": "A"}},
    }
    assert named(asks, finished) == {"model.base_url"}
    assert named(asks, finished, "scorer") == {"model.base_url", "scorer.x.api_key_env"}
    every = named(asks, finished, "model", "engine", "scorer")
    assert every == {
        "model.trust_remote_code",
        "model.pickled_weights",
        "model.api_key_env",
        "model.base_url",
        "engine.ray.address",
        "scorer.x.api_key_env",
    }


def test_a_foreign_run_accepts_no_terms_of_use(finished: Bench) -> None:
    plain = {"data": {"accept_terms": True}}
    state_again(finished.root, finished.config(), plain, ("data.accept_terms=true",))
    assert plain == {"data": {"accept_terms": False}}  # a rerun merges what was typed


def test_the_words_to_type_are_safe_to_paste(finished: Bench) -> None:
    value = "http://h/$(touch x) ;`y`"
    plain = {"model": {"base_url": [value, "http://b"]}, "scorer": {"a b;c": {"target": "m.n:C"}}}
    with pytest.raises(ForeignRunError) as caught:
        state_again(finished.root, finished.config(), plain, ())
    words = shlex.split(caught.value.fix.partition("add: ")[2])
    assert [word.partition("=")[0] for word in words] == ["model.base_url", "scorer.a b;c.target"]
    state_again(finished.root, finished.config(), plain, words)
    assert plain["model"]["base_url"] == [value, "http://b"]
    with pytest.raises(ForeignRunError) as caught:
        state_again(finished.root, finished.config(), {"model": {"id": "/x\x1b[31m\n"}}, ())
    assert not {"\n", "\x1b"} & set(str(caught.value))


def test_a_part_that_is_stated_states_no_other(finished: Bench) -> None:
    plain = {"scorer": {"x": {"target": "m:C", "unit": 1}}}
    for word in ("scorer.x={unit: 2}", "scorer.x.unit=2", "scorer.y.target=m:C", "~scorer.x.target", "scorer.x=null"):
        with pytest.raises(Fp2Error):
            state_again(finished.root, finished.config(), plain, [word])
    state_again(finished.root, finished.config(), plain, ["+scorer.x={target: n:D}"])
    assert plain["scorer"]["x"] == {"target": "n:D", "unit": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x [1]\nb: *x\n", "alias"),
        ("[" * 5000, "levels deep"),
        ("- " * 5000, "levels deep"),
        ("a: !!python/name:os", "tag"),
    ],
    ids=["alias", "flow", "block", "tag"],
)
def test_a_config_that_would_exhaust_its_reader_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(Fp2Error, match=problem):
        read_plain(tmp_path)
    (tmp_path / "config.yaml").write_text("[" * MAX_DEPTH + "]" * MAX_DEPTH, encoding="utf-8")
    assert str(read_plain(tmp_path)).count("[") == MAX_DEPTH
