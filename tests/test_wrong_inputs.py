"""Wrong inputs: each is refused with exit status 2 and one line that helps, and nothing is written."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from bench import Bench, fp2, package_marks
from test_docs import PAGES, commands

COLUMNS = "data.columns='{image: file, subject: person, gender: gender, region: region}'"
PEOPLE = f"model=planted data=table {COLUMNS} cut.by=[gender] scorer=valence tracking=none report=none"

SETTINGS = {  # of `fp2 run`
    # names
    "modle=planted": "Did you mean 'model'",
    "model=plantd": "Did you mean 'planted'",
    "model=": "Choose from",
    "model=null": "chooses nothing",
    "experiment=smok": "Did you mean 'smoke'",
    "sweep=contrls": "Did you mean 'controls'",
    "analysis.primary=valenc": "Did you mean 'valence'",
    "analysis.corection=holm": "Did you mean 'correction'",
    "data=peeps data.kind=tabel": "Did you mean 'table'",
    "engine.device=gpu": "Did you mean 'cpu'",
    "probe.protocol=fhibe_scores": "Set task=fhibe_scores",
    "task.name=gras": "Set probe.protocol=gras",
    "probe.protocol=gras": "asks about no trait",
    "data=fhibe data.root=no_such_folder": "no_such_folder",
    # types and ranges
    "seed=1.5": "seed",
    "analysis.alpha=five": "analysis.alpha",
    "analysis.permutations=-99": "At least 99",
    "data.limit=many": "data.limit",
    "data.offset=-1": "data.offset",
    "report.dashboard=maybe": "report.dashboard",
    "shard=3/2": "shard",
    "model.image_size=0": "image_size",
    "model.api_key_env=sk-abcdefghijklmnopqrstuvwxyz": "looks like an API key",
    # Hydra's grammar
    "model": "key=value",
    "=planted": "no key",
    "'cut.by=[gender'": "bracket without its partner",
    "'data.path=my (people).csv'": "in single quotes: \"data.path='a value'\"",
    "'data.columns={image: file, gender: Geschlecht (selbst)}'": "in single quotes",
    "--modle=planted": "Write modle=planted",
    "--verbose": "--help",
    "'data.columns=[file,person]' data=table data.path=people.csv": "data.columns",
    # contradictions
    "cut.by=[gender] cut.each=[region]": "both",
    "cut=region,age": "Add -m",
    "scorer=stereotype analysis.primary=valence": "choose from: stereotype",
    "'cut=[region,age]'": "cut.each=[a,b]",
    "-m 'analysis.alpha=interval(0.01,0.05)'": "names no values",
    "--resolve": "It goes with --cfg",
    "-m model=planted,plantd": "Did you mean 'planted'",
    "--cfg job -p hydra.run": "--cfg hydra",
    "-m +hydra.sweeper.params.seed=1": "from a file only (hydra.sweeper.params)",
    # what is lacking
    "data=fhibe": "data.root",
    "data=table": "data.path",
    "data=folder data.root=no_such_folder": "no_such_folder",
    "model=openai_compat": "model.id",
    "probe=gras model=openai_compat model.id=x engine.scoring=sampled probe.decoding.temperature=0": "at temperature 1",
    "probe.decoding.temperatur=1": "Did you mean 'temperature'",
    "model=openai_compat model.base_url=nowhere model.id=x": "model.base_url",
    "model.id=no/such/folder model.name=mine": "no/such/folder",
    "model=peeps_vlm engine.device=cuda": "torch",
    "task=fhibe_scores": "task.files.scores",
    "tracking.uri=nosuch://host": "MLflow has no store nosuch://",
    "cut=pronuon_x_age": "Did you mean 'pronoun'",
}
ON_PEOPLE = {  # of `fp2 run` with the table of the images
    "cut.by=[gendr]": "Did you mean 'gender'",
    "cut.groups='{gender: [femal]}'": "no subject has gender 'femal'",
    "engine=hf": "is for engine=planted, not engine=hf",
    "engine=vllm": "is for engine=planted, not engine=vllm",
    "engine=ray": "engine",
    "scorer.valence.target=no.such:Thing": "no.such",
    "scorer.valence.smalest=1": "smallest_effect",
    "analysis.adjust=[nosuch]": "nosuch",
    "data.columns='{gender-name: gender}'": "cannot be an attribute's name",
    "data.path=no_such.csv": "the table does not exist",
    "data.path=folder.csv": "Is a directory",
    "data.path=latin.csv": "not UTF-8",
    "data.path=short.csv": "cells",
    "paths.store=people.csv/store.sqlite": "store",
    "paths.outputs=people.csv/outputs": "cannot make an output folder",
    "paths.keys=people.csv": "its folder is a file",
}
COMMANDS = {
    "fp2 nosuch": "nosuch",
    "fp2 shw {run}": "Did you mean 'show'",
    "fp2 show": "RUN",
    "fp2 show seed=1": "RUN",
    "fp2 show nosuch": "no run 'nosuch'",
    "fp2 show folder": "folder",
    "fp2 show {run} --nosuch": "--nosuch",
    "fp2 show {run} analysis.alpa=1": "Did you mean 'alpha'",
    "fp2 compare {run}": "'B [C]...'",
    "fp2 diff {run} nosuch": "no run 'nosuch'",
    "fp2 rerun {run} --fresh 2": "--fresh",
    "fp2 leaderboard nosuch": "no MLflow store",
    "fp2 report": "no run is named",
    "fp2 report nosuch": "no run 'nosuch'",
    "fp2 gate {run} --max-disparity much": "--max-disparity",
    "fp2 gate {run} --max-disparity -1": "--max-disparity",
    "fp2 gate {run} --max-disparty 1": "--max-disparity",
    "fp2 gate {run} --junit people.csv/gate.xml": "people.csv",
    "fp2 export {run} --answers answers.doc": ".doc",
    "fp2 verify {run}/passport.json": "--key",
    "fp2 verify no_such.json --key {key}": "no_such.json",
    "fp2 verify {run}/results.json --key {key}": "not a passport",
    "fp2 verify {run}/passport.json --key people.csv": "people.csv",
    "fp2 sign {run}/passport.json --key {key}": "private key",
    "fp2 keygen {key}": "exists",
    "fp2 log nosuch": "nosuch",
    "fp2 list nosuch": "nosuch",
    "fp2 pin nosuch": "nosuch",
    "fp2 data verfy": "Did you mean 'verify'",
    f"fp2 data verify {PEOPLE} data.path=people.csv cut.by=[gendr]": "Did you mean 'gender'",
    "fp2 store check people.csv": "people.csv",
    "fp2 store merge people.csv": "--into",
    "fp2 rescore {run} analysis.primary=stereotype": "no scorer 'stereotype'",
    "fp2 plan scorer=stereotype analysis.primary=valence": "choose from: stereotype",
    "fp2 plan --gap 0.3": "--gap needs --power",
    "fp2 plan --power": "the spread of the answers is unknown",
    "fp2 plan --power --icc 0.3 --sd 0.25": "the number of groups is unknown",
    "fp2 plan --power --icc 2 --sd 0.25 --groups 4": "--icc",
    "fp2 plan --power --icc 0.3 --sd 0.25 --groups 4 --images a": "--images",
}
NAMED = {"fhibe": "fhibe", "gras": "gras", "vllm": "vllm", "data verfy": "maintenance"}
"""What a command has in it -> the package that it needs."""
SAID = {
    **{f"fp2 run {setting}": said for setting, said in SETTINGS.items()},
    **{f"fp2 run {PEOPLE} data.path=people.csv {setting}": said for setting, said in ON_PEOPLE.items()},
    **COMMANDS,
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, finished_project: Bench) -> Bench:
    """A project with a finished run, and tables that are wrong in their own ways."""
    bench = finished_project.copied_to(tmp_path_factory.mktemp("wrong"))
    shutil.copytree(bench.pictures, bench.root, dirs_exist_ok=True)
    good = (bench.root / "people.csv").read_text(encoding="utf-8")
    header, first = good.splitlines()[:2]
    (bench.root / "short.csv").write_text(f"{header}\n{first}\na,b", encoding="utf-8")
    (bench.root / "latin.csv").write_bytes(good.replace("North", "Süd").encode("latin-1"))
    for name in ("folder", "folder.csv"):
        (bench.root / name).mkdir()
    return bench


@pytest.fixture(autouse=True)
def inside(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("FP2_ROOT", str(project.root))
    monkeypatch.setenv("COLUMNS", "80")


def written(project: Bench) -> set[Path]:
    """Return what is in the project, but for files that SQLite keeps beside an open database."""
    return {path for path in project.root.rglob("*") if not path.name.endswith(("-wal", "-shm"))}


def refused(project: Bench, command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Check that a command is refused and writes nothing; return what it says on standard error."""
    run, key = project.outputs / "one", project.root / "state" / "keys" / "passport_key.pub.pem"
    words = [word.replace("{run}", str(run)).replace("{key}", str(key)) for word in shlex.split(command)[1:]]
    if any("=" in word for word in words) and "paths.state" not in command:
        words.append(f"paths.state={project.root / 'state'}")
    before = written(project)
    assert fp2(*words) == 2
    assert written(project) == before
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(
            command,
            marks=[
                *package_marks(command.removeprefix("fp2 ")),
                *(pytest.mark.package(name=name) for word, name in NAMED.items() if word in command),
            ],
        )
        for command in SAID
    ],
)
def test_a_wrong_input_is_refused_in_one_line(command: str, project: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(project, command, capsys)
    assert error.startswith("error: ")
    assert "\n" not in error
    assert SAID[command] in error


@pytest.mark.package(name="planning")
@pytest.mark.package(name="image_variants")
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("variant=face_crop", "no image can be shown as face_crop: the data do not locate the face"),
        ("answers.max_cost=1", "Set engine.price_input"),
    ],
)
def test_what_is_seen_when_the_images_were_read_is_the_last_line(
    setting: str, said: str, project: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("run", "plan"):
        error = refused(project, f"fp2 {command} {PEOPLE} data.path=people.csv {setting}", capsys).splitlines()[-1]
        assert error.startswith("error: ")
        assert said in error


WRONG = ("analysis.alpha=2", "engine.device=gpu", "data.limit=0", "probe.select=[nosuch]", "nosuch=1", "scorer=nosuch")
RUNS = list(
    dict.fromkeys(
        command.split("#")[0].removeprefix("python ").strip()
        for page in PAGES
        for command in commands(page)
        if command.startswith(("fp2 run ", "python launch.py ", "launch.py ")) and " --" not in command
    )
)


@pytest.mark.package(name="planning")
@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        *zip(RUNS[:: len(RUNS) // len(WRONG)], WRONG, strict=False),
        ("fp2 run data=fhibe data.root=nosuch data.accept_terms=true model=planted", "tracking.uri=nosuch://host"),
    ],
)
def test_fp2_plan_refuses_what_fp2_run_refuses(
    command: str, wrong: str, project: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.removeprefix("launch.py ").removeprefix("fp2 run ")
    said = [refused(project, f"fp2 {name} {words} {wrong}", capsys) for name in ("run", "plan")]
    assert said[0] == said[1]
    assert said[0].startswith("error: ")
