"""Checks that a run's files, answers and records agree with each other: after every run, and by `fp2 check`.

    passport    every file has the digest that the passport states, and the passport is signed
    counts      the answers in `results.json` add up, in all and by group
    tables      `results.json` says what follows from counting the tables; every score is of an answer
    config      the config has the hash in `results.json`
    store       the store has every answer of the tables, unchanged, and the response set is that of its keys
    mlflow      the MLflow run has ended, and logged this passport

A check that cannot be made here (a run of another machine, say) is a note, not a failure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from operator import itemgetter
from pathlib import Path

from fp2 import artifacts
from fp2.ask.answers import RowAnswers, RunTables, read_tables
from fp2.compose import config_hash
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.progress import Progress
from fp2.results import Results, differences
from fp2.runs.describe import count_tables
from fp2.runs.local_paths import missing_places, recall
from fp2.runs.logged import logged_config
from fp2.runs.origin import ForeignRunError, read_plain
from fp2.runs.reader import lost_people, read_cuts, read_results
from fp2.text import first_few

_AT_ONCE = 20_000  # keys


@dataclass(frozen=True)
class Finding:
    """One check: its name, what is wrong (a line each), and what could not be checked."""

    check: str
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass
class _Run:
    """A run to be checked: its folder, where this machine has store and keys, and the response keys if known."""

    folder: Path
    here: Config
    public_keys: Sequence[Path]
    raw: Iterable[str] | None
    notes: list[str] = field(default_factory=list)

    @cached_property
    def results(self) -> Results:
        return read_results(self.folder)

    @cached_property
    def tables(self) -> RunTables:
        return read_tables(self.folder, scored=(self.folder / artifacts.SCORES).is_file())

    @cached_property
    def config(self) -> Config:
        return logged_config(self.folder, self.here, str(self.results["run_id"]))

    @cached_property
    def elsewhere(self) -> bool:
        """Whether the config names files whose place on this machine is not known."""
        plain = read_plain(self.folder)
        remembered = recall(Path(self.here.paths.state), str(self.results["run_id"]))
        return bool(isinstance(plain, dict) and set(missing_places(plain)) - set(remembered))


def check_run(
    folder: Path,
    here: Config,
    *,
    public_keys: Sequence[Path] = (),
    raw: Iterable[str] | None = None,
    logged: bool = True,
    tick: Callable[[], None] = lambda: None,
) -> list[Finding]:
    """Return the outcome of every check of a run.

    Parameters
    ----------
    folder : Path
        The run's files.
    here : Config
        Where store, salt, keys and the MLflow store are.
    public_keys : sequence of Path
        Trusted keys; this machine's if none are given.
    raw : iterable of str, optional
        The response keys (contexts of dense answers) that the run planned; by default all in the store are tried.
    logged : bool
        Whether the MLflow run is checked too.
    tick : callable
        Called after each check.
    """
    run = _Run(folder, here, public_keys, raw)
    findings = []
    for name, check in CHECKS.items():
        if check is _mlflow and not logged:
            continue
        run.notes = []
        try:
            failures = tuple(check(run))
        except Fp2Error as error:
            failures = (str(error),)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # files may say anything
            failures = (f"cannot be checked: {type(error).__name__}: {' '.join(str(error).split())}",)
        findings.append(Finding(name, failures, tuple(run.notes)))
        tick()
    return findings


def checked(
    config: Config, folder: Path, progress: Progress, raw: Iterable[str] | None = None, *, logged: bool
) -> list[str]:
    """Check the run that has just been written into `folder`; return one line per failed check (see `check_run`)."""
    with progress.steps("Checking the run", len(CHECKS)) as tick:
        findings = check_run(folder, config, raw=raw, logged=logged, tick=tick)
    return [f"{finding.check}: {'; '.join(finding.failures)}" for finding in findings if finding.failures]


def _passport(run: _Run) -> Iterator[str]:
    from fp2.report.keys import KEY_NAME, public_path_of
    from fp2.report.verify import verify_passport

    own_key = public_path_of(Path(run.here.paths.keys) / KEY_NAME)
    keys = list(run.public_keys) or ([own_key] if own_key.is_file() else [])
    if not (run.folder / artifacts.PASSPORT).is_file():
        yield "the run has no passport: it did not end"
    elif not keys:
        run.notes.append("this machine has no signing key: give the signer's public key with --key")
    else:
        outcome = verify_passport(run.folder / artifacts.PASSPORT, keys)
        yield from outcome.failures
        run.notes += [note for note in outcome.notes if note.startswith(("not signed", "superseded"))]


def _counts(run: _Run) -> Iterator[str]:
    results = run.results
    of_groups = ((f"answers of {row['cut']}={row['group']}", row) for row in results["answers_by_group"])
    for name, counts in [("answers", results["answers"]), *of_groups]:
        n_counted = counts["answered"] + counts["failed"] + counts.get("not_asked", 0) + counts.get("not_supplied", 0)
        if counts["planned"] != n_counted or counts["refused"] > counts["answered"]:
            yield f"{name}: planned is not answered + failed + not asked, or more refused than answered: {dict(counts)}"
    answers = results["answers"]
    if answers["cached"] > answers["answered"]:
        yield f"answers: {answers['cached']} came from the store, of {answers['answered']}"
    if results["complete"] and answers.get("not_asked") and "stopping" not in results:
        yield f"the run is marked complete, but {answers['not_asked']} answers were not asked"


def _tables(run: _Run) -> Iterator[str]:
    """Count the tables again; the balance of attributes that the tables do not keep cannot be compared."""
    results, tables = run.results, run.tables
    cuts = list(read_cuts(run.folder, tables.people, results, str(run.folder)).values())
    counts = count_tables(tables, cuts, [p["id"] for p in results["probes"]], results["answers"]["model_calls"])
    pair = itemgetter("cut", "attribute", "other")
    dataset = results["dataset"]
    stated = {**results, "groups": dataset.get("groups")}
    stated["without_value"] = dataset.get("without_value", counts.without_value)  # runs of 0.3.0 or earlier have none
    stated["balance"] = [row for row in results["balance"] if pair(row) in set(map(pair, counts.balance))]
    for name, value in asdict(counts).items():
        differing = list(differences(json.loads(json.dumps(value)), stated.get(name)))
        if differing:
            where = first_few([f"{name}.{key.lstrip('.')}".rstrip(".") for key in differing], "places more")
            yield f"{artifacts.RESULTS} differs from the tables at {where}"
    answers, scores = tables.answers, tables.scores
    if isinstance(answers, RowAnswers):
        frame = answers.frame
        keys = ["image_id", "subject_id", "variant", "question_id"]
        if repeated := int(frame.duplicated(keys).sum()):
            yield f"{artifacts.RESPONSES} has {repeated} rows twice"
        if scores is not None and len(frame):
            if lost := int((~scores["response_key"].isin(frame["response_key"])).sum()):
                yield f"{artifacts.SCORES} has {lost} scores of answers that are not in {artifacts.RESPONSES}"
            answered = answers.answered[answers.answered["probe"].isin(scores["probe"])]
            if missing := int((~answered["response_key"].isin(scores["response_key"])).sum()):
                yield f"{artifacts.SCORES} has no score of {missing} answers"


def _config(run: _Run) -> Iterator[str]:
    try:
        computed = config_hash(run.config)
    except ForeignRunError as error:
        run.notes.append(f"{error.what}: its config hash is not checked")
        return
    except Fp2Error:
        if not run.elsewhere and not run.results.get("purged"):
            raise
        computed = ""
    if computed == run.results["config_hash"]:
        return
    if run.results.get("purged") and run.config.analysis.labels:
        run.notes.append("labels were removed from their file with the people: the config hash is not checked")
    elif isinstance(run.config.data.ids, list) and lost_people(run.results):
        run.notes.append("the list of chosen images lost those of withdrawn people: the config hash is not checked")
    elif run.elsewhere:  # the content of a file enters the hash
        run.notes.append("the run used files of another machine: its config hash is not checked")
    else:
        yield f"the config has the hash {computed[:12]}…, {artifacts.RESULTS} states {run.results['config_hash'][:12]}…"


def _store(run: _Run) -> Iterator[str]:
    from fp2.store.origins import iterate_keys
    from fp2.store.rows import ResponseStore
    from fp2.store.salted_keys import local_salt, salted

    answers, path = run.tables.answers, Path(run.here.paths.store)
    if not answers.n_planned:
        return
    if not path.is_file():
        run.notes.append(f"there is no response store at {path}: the answers are not compared with it")
        return
    with ResponseStore(path, read_only=True) as store:
        wanted, salt = set(answers.stored_keys()), local_salt(Path(run.here.paths.state))
        raw: dict[str, str] = {}  # salted key -> key of the store
        keys = iter(run.raw if run.raw is not None else iterate_keys(store.connection, store.path))
        while batch := list(islice(keys, _AT_ONCE)):
            pairs = zip(salted(batch, salt, "response"), batch, strict=True)
            raw |= {salted_key: key for salted_key, key in pairs if salted_key in wanted}
        if not raw:
            run.notes.append("the store has none of the run's answers: they were given on another machine, or purged")
            return
        yield from answers.compare(raw, store)
    results = run.results
    if len(raw) < len(answers.stored_keys()):
        run.notes.append("some images could not be shown and have no key in the store: the response set is not checked")
    elif not (results.get("purged") or results.get("rescored_from")) and (
        answers.response_set(raw) != results["response_set"]
    ):
        yield "the response set is not that of the keys in the tables"


def _mlflow(run: _Run) -> Iterator[str]:
    from fp2.tracking.files import ending_of

    if not run.here.tracking.enabled:
        return
    with suppress(Fp2Error):  # one whose config cannot be read here may have been logged
        if not run.config.tracking.enabled:
            return
    ended = ending_of(run.here, str(run.results["run_id"]))
    if ended is None:
        run.notes.append("the MLflow store does not have this run: log it with fp2 log FOLDER")
        return
    status, digest = ended
    if status == "RUNNING":
        yield "the MLflow run is still RUNNING: log it with fp2 log FOLDER"
    elif digest is None or digest not in _passport_digests(run.folder / artifacts.PASSPORT):
        yield "the MLflow run logged another passport"


def _passport_digests(path: Path) -> Iterator[str]:
    """Yield the digest of a passport, and those that it had before others signed it (`fp2 sign`)."""
    from fp2.hashing import sha256_bytes, sha256_file

    yield sha256_file(path)
    try:
        envelope = json.loads(path.read_bytes())
        for n in range(1, len(envelope["signatures"])):
            earlier = {**envelope, "signatures": envelope["signatures"][:n]}
            yield sha256_bytes((json.dumps(earlier, indent=2) + "\n").encode())
    except (ValueError, KeyError, TypeError):  # it is no passport, which its own check says
        return


CHECKS: Mapping[str, Callable[[_Run], Iterator[str]]] = {
    "passport": _passport, "counts": _counts, "tables": _tables, "config": _config, "store": _store, "mlflow": _mlflow,
}  # fmt: skip
