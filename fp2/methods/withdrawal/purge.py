"""Purge: remove everything derived from subjects, images or a release, from the store, the runs and their results.

A purge is a journal of what was found (`purge_search`, which a dry run prints), tombstones (`fp2.store.withdrawn`), the
steps, a second search, and a signed certificate. A run's new files are ready before its old ones are touched, and the
response store comes last: its index records which answers belong to which image. So every step can be repeated, and a
killed purge is finished by the next one, or by the next run (`finish_pending`).
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

from fp2.extension import (
    PURGES,
    Config,
    Fp2Error,
    Progress,
    ResponseStore,
    artifacts,
    code_tags,
    files_of,
    forget_folder,
    forget_written,
    halted,
    installed,
    load,
    logged_runs,
    origins,
    other_tables,
    passport_part,
    passport_statement,
    plural,
    read_tables,
    remove,
    replace,
    result_tags,
    run_sections,
    sha256_file,
    withdraw,
)
from fp2.methods.withdrawal.journal import Journal, Step, alone, drafts, pending
from fp2.methods.withdrawal.reissue import reissue, strip
from fp2.methods.withdrawal.search import OF_PEOPLE, Source, left, results_in, search, texts_of

WRITTEN_OUT = "hf"  # below `paths.data`
ORDER = ("run", "report", "texts", "store")
"""The order of the kinds of steps."""
OF_FILES = (AttributeError, LookupError, TypeError, ValueError)
"""What a run's files may cause that say something odd: no purge stops there."""


def purge(here: Config, journal: Journal) -> None:
    """Remove what a plan says; its lines then say what was removed, and what is still there."""
    with alone(Path(here.paths.state)) as downloads:
        _execute(here, journal, downloads)


def finish_pending(config: Config, progress: Progress) -> list[str]:
    """Finish the purges that were interrupted; return what was done, in lines. It waits for one that is running."""
    state, messages = Path(config.paths.state), list[str]()
    if not (pending(state) or drafts(state)):
        return messages
    with alone(state, wait=True) as downloads:
        for path in pending(state):
            progress.stage("Finishing a purge")
            journal = Journal.read(path)
            _execute(journal.config(config), journal, downloads)
            messages += [f"finished the purge that began at {journal.started}: {journal.certificate}", *journal.lines]
    return messages


def _execute(here: Config, journal: Journal, downloads: Path) -> None:
    state = Path(here.paths.state)
    with artifacts.as_user_error(Path(here.paths.outputs)):
        journal.write()
        chosen = journal.selection
        if chosen.release is None:
            withdraw(state, chosen.subjects, chosen.images, chosen.unseen)
        with halted(state):  # what was being written is complete, and what is written later leaves them out
            search(here, journal, downloads)
        journal.steps.sort(key=lambda step: ORDER.index(step.kind))
        for step in journal.steps:
            journal.write()
            if step.done:
                continue
            if step.kind == "run":
                _replace_run(step, here, journal, downloads)
            elif step.kind == "report":
                path = Path(step.target)
                path.unlink(missing_ok=True)
                forget_written(state, step.target)
                with suppress(OSError):  # not empty
                    path.parent.rmdir()
            elif step.kind == "texts":  # this step does those of all
                for text in texts_of(here, logged_runs(here)):
                    if text.write and (new := text.without(chosen)) is not None:
                        text.write(new)
                for other in journal.steps:
                    other.done = other.done or other.kind == "texts"
            else:
                extracted = Path(here.paths.data).absolute() / WRITTEN_OUT
                for image in map(Path, journal.paths):
                    if image.is_relative_to(extracted):
                        image.unlink(missing_ok=True)
                with ResponseStore(Path(step.target)) as store:
                    deleted = origins.delete(
                        store.connection, store.path, journal.response_keys(), journal.pictures, journal.paths
                    )
                journal.store |= {table: n for table, n in deleted.items() if n}
            step.done = True
        journal.write()
        journal.remaining = left(here, journal, downloads)
        journal.certify(here)


def _replace_run(step: Step, here: Config, journal: Journal, downloads: Path) -> None:
    """Replace a run's folder, and its files and metrics in the MLflow store, so that there is one passport for both."""
    run = next((run for run in logged_runs(here) if run.run_id == step.logged), None)
    folder, stage, outputs = step.folder, journal.stage(step), Path(here.paths.outputs)
    if not step.staged:
        source = folder if folder and folder.is_dir() else files_of(run, here, downloads) if run else None
        _prepare(source, stage, step, here, journal)
        step.staged = True
        journal.write()
    remains = set(read_tables(stage).people["image_id"]) if stage.is_dir() else set()
    for name in installed(PURGES):
        load(PURGES, name, PURGES)(outputs, step.run_id, remains)
    if folder and folder.is_dir():
        _mirror(stage, folder)
        if others := {path for path in folder.rglob("*") if path.is_file()} - set(_own_files(folder)):
            journal.unreached.append(f"{folder}: {plural(len(others), 'file')} that the run did not write")
    elif folder:
        step.outcome = "it was gone already, or moved"
    if folder and not stage.is_dir():
        forget_folder(Path(here.paths.state), folder)
    if run and stage.is_dir():
        results, files = results_in(stage), artifacts.files_of(stage)
        if (stage / artifacts.PASSPORT).is_file():
            files[artifacts.PASSPORT] = stage / artifacts.PASSPORT
        tags = {"summary": "[]", "severity": "None", "passport_sha256": "None", "description": ""}
        if results is not None:
            tags = result_tags(results, stage, run_sections(stage, here, results["run_id"]))
            tags |= {"config_hash": results["config_hash"], **code_tags(passport_part(stage, "generator"))}
        replace(run, here, files, results, tags)
    elif run:
        remove(run, here)


def _prepare(files: Path | None, stage: Path, step: Step, here: Config, journal: Journal) -> None:
    """Write into `stage` what is left of a run; nothing where that is nobody, or its tables are incomplete."""
    shutil.rmtree(stage, ignore_errors=True)
    if files is None or not files.is_dir():
        step.outcome = "it was gone already"
        return
    stage.mkdir(mode=0o700, parents=True)
    for path in _own_files(files) if files == step.folder else filter(Path.is_file, files.rglob("*")):
        (stage / path.relative_to(files)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, stage / path.relative_to(files))
    step.before = step.after = _digests(stage)
    source = Source(stage, step.run_id, results_in(stage))
    tables = source.tables
    rest = journal.reduce(tables, source.results) if tables else None
    if tables is None or rest is None or rest.people.empty:
        step.outcome = f"{'all that it had' if rest else 'its tables were incomplete'}: the run was removed"
        shutil.rmtree(stage)
        return
    if (len(rest.people), rest.n_answers) == (len(tables.people), tables.n_answers):  # its MLflow run is incomplete
        step.outcome = "as it was"
        return
    computed = False
    try:
        if source.results is None:
            raise Fp2Error("the run has no results")
        write = reissue(stage, rest, here, source.results, journal.raw_keys, step.people)
        computed = True
        write()
        step.outcome = "recomputed and signed again"
    except (Fp2Error, *OF_FILES) as error:
        if computed and isinstance(error.__cause__, OSError):  # no space: the run is as it was
            raise
        strip(stage)
        rest.write(stage)
        step.outcome = f"removed from its tables; results, figures and passport were deleted as well, since {error}"
    step.after = _digests(stage)


def _digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of a run's passport and results, as far as it has them."""
    names = (artifacts.PASSPORT, artifacts.RESULTS)
    return {name: sha256_file(folder / name) for name in names if (folder / name).is_file()}


_OWN = {*OF_PEOPLE, *artifacts.UI_TABLES, *artifacts.LOCAL_FILES, artifacts.DISPARITIES, artifacts.PASSPORT,
        artifacts.CONFIG, artifacts.OVERRIDES, artifacts.FIGURES, artifacts.SHARDS, artifacts.QUESTIONS,
        ".hydra"}  # fmt: skip
_DRAFT = re.compile(r"\.(.+)\.(?:purged|\d+)")
"""What a kill leaves of a file that was being replaced."""


def _own_files(folder: Path) -> list[Path]:
    """Return the files that a run wrote into its folder, passports last: what they list, and what every run has."""
    own_files = set(_OWN)
    with suppress(OSError, *OF_FILES):
        own_files |= {name for name, _ in other_tables(folder)}
    for passport in folder.glob("passport*.json"):
        with suppress(OSError, *OF_FILES):
            own_files |= {file["name"] for file in passport_statement(passport)["subject"]}

    def is_own(path: Path) -> bool:
        plain = path.with_name(_DRAFT.sub(r"\1", path.name)).relative_to(folder)
        return not own_files.isdisjoint((plain.parts[0], plain.as_posix())) or plain.match("passport.superseded-*.json")

    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and is_own(path)]
    return sorted(files, key=lambda path: path.name.startswith("passport"))


def _mirror(stage: Path, folder: Path) -> None:
    """Make the run's files in `folder` equal to those in `stage`, one by one; what else is there stays."""
    staged = [path.relative_to(stage) for path in sorted(stage.rglob("*")) if path.is_file()]
    for name in staged:
        draft = (folder / name).with_name(f".{name.name}.purged")
        draft.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(stage / name, draft)
        draft.replace(folder / name)
    for path in _own_files(folder):
        if path.relative_to(folder) not in staged:
            path.unlink()
    for path in sorted([folder, *filter(Path.is_dir, folder.rglob("*"))], reverse=True):
        with suppress(OSError):  # not empty
            path.rmdir()
