"""Withdrawn people stay out: of later runs, and of what was being asked, analysed or written when they were purged."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any, get_type_hints

import pandas as pd
import pytest
import typer
from bench import Bench, every_byte, fp2, notes_of, results_of

from fp2.ask import rows
from fp2.cli import app
from fp2.methods.peeps.planted.engine import PlantedEngine
from fp2.runs.folders import record_folder, recorded_folders
from fp2.runs.local_paths import recall
from fp2.store import origins
from fp2.store import withdrawn as withdrawals
from fp2.store.salted_keys import local_salt, salted
from fp2.store.withdrawn import KEYS, Withdrawn, read_withdrawn, withdraw, writing

DENSE = ("probe=gras", "probe.traits={kind: 2.6, cruel: -2.9}", "scorer=none", "probe.options.permutations=99")
LOGGED = ("tracking=mlflow", "report=default", "report.figures=false")


def people_of(bench: Bench) -> pd.DataFrame:
    return pd.read_csv(bench.table)


def keys_of(bench: Bench, subject: str) -> tuple[str, list[str]]:
    """Return the salted keys of a subject and of their images."""
    rows, salt = people_of(bench), local_salt(bench.root / "state")
    return salted([subject], salt)[0], salted(rows.loc[rows["person"] == subject, "file"], salt, "image")


def withdrawn(bench: Bench, subject: str) -> None:
    """Record that a subject is withdrawn."""
    own, images = keys_of(bench, subject)
    withdraw(bench.root / "state", [own], images)


def purged(bench: Bench, subject: str) -> None:
    """Purge a subject, who then is withdrawn."""
    withdrawn(bench, subject)
    assert fp2("purge", "--subject", subject, "--yes", *bench.paths) == 0


def traces(bench: Bench, subject: str, *elsewhere: Path) -> list[str]:
    """Return the ids and keys of a subject that some file has, but for the list of withdrawn people."""
    rows = people_of(bench)
    own, images = keys_of(bench, subject)
    words = [subject, own, *images, *rows.loc[rows["person"] == subject, "file"]]
    listed = (bench.root / "state" / KEYS).read_bytes()
    everything = b"".join(every_byte(root).replace(listed, b"") for root in (bench.root, *elsewhere))
    return [word for word in words if word.encode() in everything]


def purging_while_asked(monkeypatch: pytest.MonkeyPatch, purge: Callable[[], None], after: int = 2) -> list[str]:
    """Let `purge` happen after some batches; return the images that are asked about afterwards."""
    quick = PlantedEngine.answer
    asked: list[str] = []

    def answer(self: Any, tasks: Any) -> Iterator[Any]:
        for number, batch in enumerate(quick(self, tasks)):
            if number == after:
                purge()
            if number > after:
                asked.extend(one.image_id for one in batch)
            yield batch

    monkeypatch.setattr(PlantedEngine, "answer", answer)
    return asked


@pytest.mark.package(name="withdrawal")
def test_a_later_run_leaves_the_withdrawn_out_and_counts_them(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    subject = people_of(bench)["person"].iloc[0]
    bench.run(folder="first")
    purged(bench, subject)
    capsys.readouterr()
    assert bench.launch() == 0
    results = results_of(bench.run_folders()[-1])
    assert (results["n_subjects"], results["n_images"]) == (35, 70)
    assert notes_of(results)["withdrawn"] == [{"n_images": 2, "n_subjects": 1}]
    assert "2 images, which are left out" in capsys.readouterr().err
    assert not traces(bench, subject)


def test_a_sample_is_as_large_as_it_was_to_be(bench: Bench) -> None:
    drawn = bench.run("data.limit=10").results["n_images"]
    for subject in people_of(bench)["person"].unique()[:20]:
        withdrawn(bench, subject)
    assert bench.run("data.limit=10").results["n_images"] == drawn


def test_an_image_can_be_withdrawn_alone_and_be_named_no_more(bench: Bench) -> None:
    images = people_of(bench)["file"].tolist()
    withdraw(bench.root / "state", [], salted(images[:1], local_salt(bench.root / "state"), "image"))
    named = ",".join(images[:40])
    results = bench.run(f"data.ids=[{named}]").results
    assert results["n_images"] == 39
    assert notes_of(results)["withdrawn"] == [{"n_images": 1, "n_subjects": 0}]


@pytest.mark.package(name="withdrawal")
def test_a_list_of_chosen_images_names_nobody_who_was_withdrawn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    images, subject = people_of(bench)["file"].tolist(), people_of(bench)["person"].iloc[0]
    named = f"data.ids=[{','.join(images)}]"
    with monkeypatch.context() as patch:
        purging_while_asked(patch, lambda: purged(bench, subject))
        assert bench.launch(named, "engine.batch_size=4") == 0
    assert not traces(bench, subject)
    assert bench.launch(named) == 0
    assert bench.launch("-m", "cut.by=[gender],[region]", named) == 0
    assert not traces(bench, subject)
    assert all(
        len(recall(bench.root / "state", run)["data.ids"]) == 70 for run in recorded_folders(bench.root / "state")
    )


def test_with_nobody_left_there_is_one_line(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    for subject in people_of(bench)["person"].unique():
        withdrawn(bench, subject)
    assert bench.launch() == 2
    assert "everybody in it was withdrawn" in capsys.readouterr().err


@pytest.mark.package(name="withdrawal")
@pytest.mark.parametrize(
    "words", [("scorer=valence",), pytest.param(DENSE, marks=pytest.mark.package(name="gras"))], ids=["rows", "dense"]
)
def test_who_is_purged_while_a_run_asks_is_in_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    last = people_of(bench)["person"].iloc[-1]
    asked = purging_while_asked(monkeypatch, lambda: purged(bench, last))
    run = bench.run(*words, "engine.batch_size=4", folder="run")
    assert not traces(bench, last)
    assert not {*people_of(bench)["file"].iloc[-2:]} & set(asked)
    assert run.results["n_subjects"] == 35
    assert run.results["complete"]
    assert notes_of(run.results)["withdrawn_meanwhile"] == [{"n_images": 2, "n_subjects": 1}]
    assert run.exit_status == 0  # and its checks have passed


@pytest.mark.package(name="withdrawal")
@pytest.mark.usefixtures("mlflow_store")
@pytest.mark.parametrize("place", ["scoring", "analysing", "writing"])
def test_a_purge_after_the_answers_removes_the_person_from_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    subject = people_of(bench)["person"].iloc[0]
    purges: list[Thread] = []

    def once() -> None:
        if not purges:
            purges.append(Thread(target=lambda: purged(bench, subject)))
            purges[0].start()
            if place != "writing":  # then it waits until the run is written
                purges[0].join()

    module, name = {
        "scoring": ("fp2.run", "score"),
        "analysing": ("fp2.runs.stages", "count_tables"),
        "writing": ("fp2.runs.outputs", "write_run"),
    }[place]
    stage = getattr(__import__(module, fromlist=[name]), name)
    monkeypatch.setattr(f"{module}.{name}", lambda *args, **kw: (once(), stage(*args, **kw))[1])
    run = bench.run(*LOGGED, "engine.batch_size=4", folder="run")
    purges[0].join()
    assert run.exit_status == 0
    assert not traces(bench, subject)
    assert results_of(run.folder)["n_subjects"] == 35
    assert fp2("check", str(run.folder), *bench.paths) == 0
    monkeypatch.undo()


@pytest.mark.package(name="withdrawal")
def test_the_numbers_are_those_of_a_run_without_the_person(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = people_of(bench)["person"].iloc[7]
    with monkeypatch.context() as patch:
        purging_while_asked(patch, lambda: purged(bench, subject))
        during = bench.run("engine.batch_size=4").results
    after = bench.run().results
    assert during["response_set"] == after["response_set"]
    for name in ("disparities", "composite", "answers_by_group", "balance"):
        assert during[name] == pytest.approx(after[name]) if name == "composite" else during[name] == after[name]


@pytest.mark.package(name="reruns")
def test_every_folder_is_recorded_wherever_it_lies(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "run"
    assert bench.launch(f"hydra.run.dir={elsewhere}") == 0
    run = results_of(elsewhere)["run_id"]
    state = bench.root / "state"
    assert recorded_folders(state)[run] == elsewhere
    assert fp2("rescore", str(elsewhere), "scorer=refusal", *bench.paths) == 0
    assert len(recorded_folders(state)) == 2
    with suppress(OSError):
        shutil.rmtree(elsewhere)
    assert recorded_folders(state)[run] == elsewhere


@pytest.mark.parametrize("folder", ["", "outputs", "state"])
def test_a_run_has_a_folder_of_its_own(bench: Bench, folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A purge replaces the folder as a whole, so that nothing else may be in it."""
    assert bench.launch(f"hydra.run.dir={bench.root / folder}") == 2
    assert "Choose a folder of its own for the run" in capsys.readouterr().err
    assert not list(bench.root.rglob("people.parquet"))


MARK = "Zyzzyva"


def marking(monkeypatch: pytest.MonkeyPatch, bench: Bench, subject: str) -> None:
    """Let the model say about a subject what it says about nobody else."""
    rows = people_of(bench)
    images = set(rows.loc[rows["person"] == subject, "file"])
    quick = PlantedEngine.answer

    def answer(self: Any, tasks: Any) -> Iterator[Any]:
        for batch in quick(self, tasks):
            for one in batch:
                one.text = f"{one.text} {MARK}" if one.image_id in images else one.text
            yield batch

    monkeypatch.setattr(PlantedEngine, "answer", answer)


def on_runs(folder: Path, out: Path) -> Iterator[list[str]]:
    """Yield every command that takes a run, alone and with each of its options that name a file."""
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        if not any("RUN" in (one.metavar or "") or one.name == "first" for one in arguments):
            continue
        words = [name, *([str(folder)] * (2 if arguments[0].name in ("first", "second") or name == "report" else 1))]
        yield words
        hints = get_type_hints(command.callback, include_extras=True)
        for option in command.params:
            if option.param_type_name == "option" and "Path" in str(hints.get(option.name, "")):
                yield [*words, option.opts[0], str(out / f"{name}.{option.name}.csv")]
    yield ["label", str(folder), "--analyse"]
    yield ["export", str(folder), "--keys", "--answers", str(out / "keys.csv")]


@pytest.mark.package(name="withdrawal")
@pytest.mark.package(name="reruns")
@pytest.mark.package(name="labels")
@pytest.mark.package(name="exports")
def test_no_command_writes_of_the_withdrawn_what_a_run_still_has(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every command that takes a run is given one that the purge has not reached."""
    subject, out = people_of(bench)["person"].iloc[0], tmp_path_factory.mktemp("out")
    marking(monkeypatch, bench, subject)
    source = shutil.copytree(bench.run("report=default", "report.figures=false").folder, out / "source")
    purged(bench, subject)
    own, images = keys_of(bench, subject)
    monkeypatch.setattr("fp2.commands.loopback.LoopbackServer.serve_forever", _stopped)
    monkeypatch.setattr("time.sleep", _stopped)
    words = [MARK.encode(), own.encode(), *(key.encode() for key in images)]
    written: Counter[str] = Counter()
    for command in on_runs(source, out):
        before = stamps(bench.root, out)
        fp2(*command, *bench.paths, *(["report.figures=false"] if command[0] != "rerun" else []))
        for path, stamp in stamps(bench.root, out).items():
            if before.get(path) != stamp and path.name not in (KEYS, "responses.sqlite-wal", "responses.sqlite-shm"):
                written[command[0]] += 1
                content = path.read_bytes() + (
                    pd.read_parquet(path).to_csv().encode() if path.suffix == ".parquet" else b""
                )
                assert not [word for word in words if word in content], (command, path)
    assert {"rescore", "rerun", "label", "export", "log"} <= set(written)


def _stopped(*_args: Any) -> None:
    raise KeyboardInterrupt


def stamps(*roots: Path) -> dict[Path, tuple[int, int]]:
    """Return when each file was changed, and its size."""
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


@pytest.mark.package(name="maintenance")
@pytest.mark.package(name="withdrawal")
def test_stores_are_merged_and_looked_up_without_the_withdrawn(bench: Bench) -> None:
    bench.run()
    state, subject = bench.root / "state", people_of(bench)["person"].iloc[0]
    seed = shutil.copy(bench.store, bench.root / "seed.sqlite")
    purged(bench, subject)
    assert fp2("store", "merge", str(bench.store), str(seed), "--into", str(state / "merged.sqlite"), *bench.paths) == 0
    Path(seed).rename(seed := state.parent.with_suffix(".seed"))
    assert not traces(bench, subject)
    bench.store.unlink()
    results = bench.run(f"paths.seed_stores=[{seed}]").results
    assert results["answers"]["cached"] == results["answers"]["answered"] == 420
    assert not traces(bench, subject)


@pytest.mark.package(name="withdrawal")
def test_a_purge_while_seeds_are_read_is_heeded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.run()
    subject = people_of(bench)["person"].iloc[0]
    seed = bench.root.with_suffix(".seed")
    bench.store.rename(seed)
    register = origins.register_origins
    monkeypatch.setattr(origins, "register_origins", lambda *args, **kw: (register(*args, **kw), later())[0])
    purges: list[Thread] = []

    def later() -> None:  # the lock is held here
        purges.append(Thread(target=lambda: purged(bench, subject)))
        purges[0].start()

    run_storage = rows.RowStorage.load
    monkeypatch.setattr(rows.RowStorage, "load", lambda self: (purges[0].join(), run_storage(self))[1])
    assert bench.run(f"paths.seed_stores=[{seed}]").results["n_subjects"] == 35
    assert not traces(bench, subject)


def test_after_a_move_the_records_follow_the_folders(finished: Bench) -> None:
    state = finished.root / "state"
    run = results_of(finished.outputs / "one")["run_id"]
    record_folder(state, run, Path("/elsewhere/outputs/one"))
    fp2("relocate", *finished.paths)
    assert recorded_folders(state)[run] == finished.outputs / "one"


@pytest.mark.package(name="withdrawal")
def test_a_purge_that_was_killed_is_finished_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = bench.root / "state" / "purges" / "20260101T000000000000.json"
    journal.parent.mkdir(parents=True)
    journal.write_text("{}")

    def finish(config: Any, progress: Any) -> list[str]:
        journal.unlink()
        return ["finished the purge that began today"]

    monkeypatch.setattr("fp2.methods.withdrawal.purge.finish_pending", finish, raising=False)
    assert bench.launch() == 0
    assert not journal.exists()


@pytest.mark.package(name="withdrawal")
def test_an_image_that_nothing_has_yet_is_known_by_its_stem_later(bench: Bench) -> None:
    first, second, *_ = people_of(bench)["file"]
    assert fp2("purge", "--image", Path(first).stem, "--image", second, "--yes", *bench.paths) == 0
    assert len(read_withdrawn(bench.root / "state").names) == 2
    run = bench.run()
    assert notes_of(run.results)["withdrawn"][0]["n_images"] == 2


def test_the_exact_id_of_an_image_goes_before_its_file_and_its_stem() -> None:
    salt = bytes(32)
    paths = ["/a/img_1", "/b/img_1.png", "/c/img_1.jpg", "/d/img_2.png"]
    people = pd.DataFrame({"image_id": ["img_1", *paths[1:]], "subject_id": list("abcd"), "image_path": paths})
    keys = frozenset(salted(["img_1"], salt, "image"))
    gone = Withdrawn(images=keys, names=keys)
    assert gone.image_ids(people, salt) == {"img_1"}
    assert gone.image_ids(people[1:], salt) == {"/b/img_1.png", "/c/img_1.jpg"}
    assert Withdrawn(images=keys).image_ids(people[1:], salt) == set()


def test_the_crops_of_a_withdrawn_image_are_withdrawn() -> None:
    salt = bytes(32)
    people = pd.DataFrame({"image_id": ["img_1_ann", "img_11_ann", "img_1_bob"], "subject_id": ["ann", "ann", "bob"]})
    gone = Withdrawn(images=frozenset(salted(["img_1"], salt, "image")))
    assert gone.image_ids(people, salt) == {"img_1_ann", "img_1_bob"}


@pytest.mark.package(name="withdrawal")
def test_what_a_failed_run_says_names_nobody_who_was_purged(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    subject, other = people_of(bench)["person"].unique()[:2]
    (picture,) = people_of(bench).loc[people_of(bench)["person"] == subject, "file"][:1]

    def fails(self: Any, tasks: Any) -> Iterator[Any]:
        raise RuntimeError(f"{subject}'s picture {bench.pictures / picture} is not as that of {other}")
        yield

    purged(bench, subject)
    monkeypatch.setattr(PlantedEngine, "answer", fails)
    assert bench.launch(*LOGGED) == 1
    state = (bench.root / "state" / KEYS).read_bytes()
    assert not traces(bench, subject)
    assert other.encode() in every_byte(bench.root).replace(state, b"")


def test_a_purge_that_waits_for_a_writer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(withdrawals, "_PATIENCE", 0.1)
    with writing(tmp_path):
        purge = Thread(target=lambda: withdraw(tmp_path, ["a"], []))
        purge.start()
        purge.join(1.0)
        assert purge.is_alive()
    purge.join()
    assert f"waiting for runs that write answers or results ({tmp_path}" in capsys.readouterr().err
    assert read_withdrawn(tmp_path).subjects == {"a"}


QUEUED = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from fp2.store import withdrawn

state = Path(sys.argv[1])
if sys.argv[2] == "write":
    (state / sys.argv[3]).touch()
    while not (state / "stop").exists():
        with withdrawn.writing(state):
            time.sleep(0.02)
else:
    with withdrawn.halted(state):
        (state / "reached").touch()
"""


def start(state: Path, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", QUEUED, str(state), *words])


def until(path: Path) -> bool:
    """Wait for a file; return whether it came."""
    end = time.monotonic() + 60
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return path.exists()


def test_a_purge_gets_the_lock_though_others_write_without_a_pause(tmp_path: Path) -> None:
    writers = [start(tmp_path, "write", str(number)) for number in range(4)]
    try:
        assert all(until(tmp_path / str(number)) for number in range(4))
        with withdrawals.halted(tmp_path):
            waited = True
    finally:
        (tmp_path / "stop").touch()
        assert [writer.wait(60) for writer in writers] == [0] * 4
    assert waited


def test_a_purge_that_is_killed_while_it_waits_stops_nobody(tmp_path: Path) -> None:
    with writing(tmp_path):
        purge = start(tmp_path, "purge")
        with (tmp_path / withdrawals.LOCK).open() as other, (tmp_path / withdrawals.QUEUE).open("a") as queue:
            end = time.monotonic() + 60
            while is_free(queue) and time.monotonic() < end:
                time.sleep(0.01)
            assert not is_free(queue)
            with writing(tmp_path):  # of the same thread: the purge waits for it
                fcntl.flock(other, fcntl.LOCK_SH)
            fcntl.flock(other, fcntl.LOCK_UN)
            purge.kill()
            purge.wait(60)
            assert is_free(queue)
    with withdrawals.halted(tmp_path):
        assert not (tmp_path / "reached").exists()


def is_free(lock: IO[str]) -> bool:
    """Whether nobody has an exclusive lock."""
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(lock, fcntl.LOCK_UN)
        return True
    return False
