"""Looks at a finished run: some of its images are asked about again, and every answer is compared with the stored one.

No question is asked twice over all looks, so that each pair of answers says something new (`evidence`). What is kept of
a monitor is in `OUTPUTS/monitors/RUN_ID`: sums, the salted keys of the images asked about, and a page. A look that is
interrupted leaves its images and answers in the folder `look` there, and the next one continues it.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from fp2.extension import (
    RUN_ID,
    Asks,
    Fp2Error,
    Progress,
    ResponseStore,
    RowAnswers,
    RunTables,
    WithdrawnImages,
    ask,
    check_run_cost,
    cut_label,
    expected_cost,
    load_inputs,
    local_salt,
    memberships,
    open_storage,
    plan_answers,
    plural,
    salted,
    scored,
    scorer_label,
    write_text,
)
from fp2.methods.monitor.evidence import Evidence, log_mean

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Answer, Answers, Config, Cut, FloatArray, Inputs, Plan, Results

FOLDER, STATE, UNFINISHED, LOCK = "monitors", "monitor.json", "look", ".lock"
KEYS = ["image_id", "question_id"]
P_YES = "p_yes_norm"
REFUSED, LENGTH = "refused", "length"
"""Compared beside the primary scorer: whether an answer is a refusal, and the logarithm of its number of words."""
LENGTH_RANGE = math.log(100)
ATTEMPTS = 2


class RowKey(NamedTuple):
    """What a row compares: a score of the answers to a probe, about everybody or about one group of a cut."""

    score: str
    probe: str
    cut: str = ""
    group: str = ""

    @property
    def label(self) -> str:
        """Its name for readers: `trust, valence in context, skin tone: VI`."""
        return f"{self.probe}, {scorer_label(self.score)}" + (
            f", {cut_label(self.cut)}: {self.group}" if self.cut else ""
        )


@dataclass(frozen=True)
class Look:
    """One look: when, answers compared and how many of them were equal, log10 of the e-value after it, and the state.

    `means` has the mean difference of the rows of the primary scorer so far.
    """

    when: str
    answers: int
    equal: int
    failed: int
    log10_e: float
    changed: bool
    means: Mapping[RowKey, float]


@dataclass
class Monitor:
    """All looks at one run.

    Attributes
    ----------
    run_id : str
    alpha : float
        The probability that an unchanged model is ever said to have changed.
    rows : dict
        The evidence of each row.
    looks : list of Look
    asked : list of str
        Salted keys of the images asked about.
    """

    run_id: str
    alpha: float
    rows: dict[RowKey, Evidence] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether the model is said to have changed, at any look so far."""
        return any(look.changed for look in self.looks)

    def changed_rows(self) -> list[RowKey]:
        """Return the rows that have changed by themselves, corrected for their number; the clearest first."""
        limit = math.log(len(self.rows) / self.alpha) if self.rows else 0.0
        logs = {name: row.log_e for name, row in self.rows.items()}
        return sorted((name for name, value in logs.items() if value >= limit), key=lambda name: -logs[name])

    def write(self, folder: Path) -> None:
        """Write the state."""
        looks = [{**asdict(look), "means": list(look.means.items())} for look in self.looks]
        rows = [[row, asdict(evidence)] for row, evidence in self.rows.items()]
        content = {"run_id": self.run_id, "alpha": self.alpha, "rows": rows, "looks": looks, "asked": self.asked}
        write_text(folder / STATE, json.dumps(content) + "\n")


def read_monitor(folder: Path, run_id: str, alpha: float) -> Monitor:
    """Return the monitor that a folder has, or a new one.

    Raises
    ------
    Fp2Error
        If it was begun with another error probability, or cannot be read.
    """
    path = folder / STATE
    if not path.is_file():
        return Monitor(run_id, alpha)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows = {RowKey(*row): Evidence(**evidence) for row, evidence in content["rows"]}
        looks = [
            Look(**{**each, "means": {RowKey(*row): mean for row, mean in each["means"]}}) for each in content["looks"]
        ]
        monitor = Monitor(content["run_id"], content["alpha"], rows, looks, content["asked"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fp2Error(
            f"the monitor cannot be read: {error}", where=str(path), fix="Delete it to begin anew"
        ) from error
    if monitor.alpha != alpha:
        fix = f"Leave --alpha out, or give {monitor.alpha:g}"
        raise Fp2Error(f"this monitor was begun with --alpha {monitor.alpha:g}", where=f"--alpha {alpha:g}", fix=fix)
    return monitor


def look(monitor: Monitor, folder: Path, config: Config, results: Results, n_answers: int, progress: Progress) -> Look:
    """Ask about images that no look has asked about, until there are `n_answers` new answers; add the evidence.

    An unfinished look in `folder` is continued.

    Raises
    ------
    Fp2Error
        If the run's answers are not in the store; if every image was asked about already; if it would cost more than
        `answers.max_cost`; if it is interrupted; or if no question is answered: the monitor is then as it was.
    """
    config = replace(config, answers=replace(config.answers, stop=None))
    with (
        ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store,
        _unfinished(folder / UNFINISHED) as unfinished,
        ResponseStore(unfinished / "responses.sqlite") as new_store,
    ):
        protocol, inputs = load_inputs(config, store, progress)
        if not isinstance(protocol, Asks) or inputs.battery is None:
            raise Fp2Error("a task asks no model: there is nothing to monitor", where=monitor.run_id)
        primary = P_YES if protocol.requires.dense else str(results["analysis"]["primary"])
        salt, n = local_salt(Path(config.paths.state)), math.ceil(n_answers / len(inputs.battery.questions))
        chosen, keys = _draw(inputs.people, monitor.asked, n, salt, unfinished / "images.json")
        people = inputs.people[inputs.people["image_id"].isin(chosen)]
        chosen_inputs = replace(inputs, dataset=replace(inputs.dataset, people=people.reset_index(drop=True)))
        plan = plan_answers(protocol, chosen_inputs)
        before, _ = _scored(protocol, chosen_inputs, plan, primary)
        if before.empty:
            fix = "Name the store that has them: paths.store=FILE"
            raise Fp2Error("the store has no answer of this run", where=str(config.paths.store), fix=fix)
        after, n_planned = _scored(protocol, replace(chosen_inputs, store=new_store), plan, primary, attempts=ATTEMPTS)
        pairs = differences(before, after)
        for row, values in rows_of(pairs, people, inputs.cuts, primary):
            monitor.rows[row] = monitor.rows.get(row, Evidence()) + values
    log_e = log_mean(monitor.rows.values())
    done = Look(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        answers=len(pairs),
        equal=int(pairs["equal"].sum()),
        failed=n_planned - len(after),
        log10_e=log_e / math.log(10),
        changed=log_e >= math.log(1 / monitor.alpha),
        means={row: e.mean for row, e in monitor.rows.items() if e.mean is not None and row.score == primary},
    )
    monitor.asked += keys
    monitor.looks.append(done)
    return done


@contextmanager
def only_look(folder: Path) -> Iterator[None]:
    """Hold the lock of a monitor, which the system releases however the process ends.

    Raises
    ------
    Fp2Error
        If another look at the same run holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        problem = "another look at this run is going on"
        raise Fp2Error(problem, where=str(folder), fix="Run it again once that has ended") from None
    except (OSError, NotImplementedError):  # no locks on this file system
        pass
    try:
        yield
    finally:
        lock.release()


class InterruptedLookError(Fp2Error):
    """A look was interrupted: what it has is kept."""


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """Make the folder of a look, and remove it unless the look was interrupted."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield folder
    except (InterruptedLookError, KeyboardInterrupt):
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _draw(
    people: pd.DataFrame, asked: Collection[str], n: int, salt: bytes, drawn: Path
) -> tuple[list[str], list[str]]:
    """Return images drawn at random among those that were not asked about, and their salted keys.

    They are written to the file `drawn`; if there is one, they are those that it has.
    """
    images = sorted(people["image_id"].unique())
    keys = dict(zip(images, salted(images, salt, "image"), strict=True))
    left = [image for image in images if keys[image] not in set(asked)]
    if not left:
        fix = "Start a run of it, and monitor that one"
        raise Fp2Error("every image of this run was asked about again", where="fp2 monitor", fix=fix)
    before = set(json.loads(drawn.read_text(encoding="utf-8"))) if drawn.is_file() else set()
    chosen = [image for image in left if keys[image] in before]
    if not chosen:
        indices = np.random.default_rng().choice(len(left), min(len(left), n), replace=False)
        chosen = [left[index] for index in sorted(indices.tolist())]
        write_text(drawn, json.dumps([keys[image] for image in chosen]) + "\n")
    return chosen, [keys[image] for image in chosen]


def _scored(
    protocol: Asks[Any], inputs: Inputs, plan: Plan, primary: str, attempts: int = 0
) -> tuple[pd.DataFrame, int]:
    """Return the scored answers of a store by image and question, after those that it lacks were asked for, if they
    may be, and how many were planned.
    """
    assert inputs.engine is not None
    config, withdrawn = inputs.config, WithdrawnImages(Path(inputs.config.paths.state), inputs.people)
    storage = open_storage(protocol, inputs, plan, withdrawn)
    if attempts:
        asks = f"This look asks for {plural(storage.forecast().left, 'answer')}"
        if (price := inputs.engine.profile().price) is not None and inputs.battery is not None:
            questions, decoding = inputs.battery.questions, inputs.battery.decoding
            asks += f"; expected cost {expected_cost(storage.forecast(), inputs.engine, questions, decoding, price)}"
        inputs.progress.note(asks)
        if config.answers.max_cost is not None:
            check_run_cost(storage, inputs, config.answers.max_cost)
        with inputs.progress.steps("Asking again", storage.n_planned) as step:

            def saw(batch: Sequence[Answer]) -> None:
                for _ in batch:
                    step()

            asked = ask(storage, inputs.engine, attempts=attempts, error_budget=1.0, saw=saw)
        if asked.interrupted or asked.overspent:
            problem = asked.overspent or "the look was interrupted"
            raise InterruptedLookError(problem, where="fp2 monitor", fix="The same command continues it")
        if storage.n_failed == storage.n_planned:
            raise Fp2Error(
                f"no question was answered: {storage.reason()}", where="fp2 monitor", fix="Nothing was recorded"
            )
    else:
        storage.load()
    answers = storage.answers()
    if not isinstance(answers, RowAnswers):
        return _dense_frame(answers), storage.n_planned
    tables = scored(protocol, RunTables(inputs.people, answers, None), inputs)
    assert isinstance(tables.answers, RowAnswers)
    assert tables.scores is not None
    scores = tables.scores[tables.scores["scorer"] == primary].set_index(KEYS)["value"]
    frame = tables.answers.answered.set_index(KEYS)[["probe", "text", REFUSED]]
    width = float(np.ptp(inputs.scorers[primary].value_range)) if primary in inputs.scorers else 1.0
    frame[primary] = scores.reindex(frame.index) / width
    frame[REFUSED] = frame[REFUSED].astype(float)
    frame[LENGTH] = [math.log1p(len(str(text).split())) / LENGTH_RANGE for text in frame["text"]]
    return frame, storage.n_planned


def _dense_frame(answers: Answers) -> pd.DataFrame:
    """Return P(Yes) of the answers by image and question."""
    from fp2.methods.dense.answers import DenseAnswers

    assert isinstance(answers, DenseAnswers)
    rows = answers.rows()
    frame = rows.loc[rows["status"] == "answered", [*KEYS, "probe", P_YES]]
    return frame.assign(text=frame[P_YES]).set_index(KEYS)


def differences(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return one row per answer that both tables have: image, probe, `equal`, and new less stored of each score.

    Scores are in units of their range; NaN where either answer has none.
    """
    pairs = before.join(after, how="inner", rsuffix=" now")
    out = pairs[["probe"]].assign(equal=pairs["text"] == pairs["text now"])
    for name in before.columns.drop(["probe", "text"]):
        out[name] = pairs[f"{name} now"] - pairs[name]
    return out.reset_index()


def rows_of(
    pairs: pd.DataFrame, people: pd.DataFrame, cuts: tuple[Cut, ...], primary: str
) -> Iterator[tuple[RowKey, FloatArray]]:
    """Yield the differences of every row, (k,)."""
    groups = {cut.name: memberships(people, cut)[["image_id", "group"]].drop_duplicates() for cut in cuts}
    for probe, of_probe in pairs.groupby("probe", sort=False):
        for name in (each for each in (primary, REFUSED, LENGTH) if each in pairs):
            yield RowKey(name, str(probe)), of_probe[name].to_numpy(dtype=float)
            if name == LENGTH:
                continue
            for cut, table in groups.items():
                for group, images in table.groupby("group", sort=False)["image_id"]:
                    inside = of_probe["image_id"].isin(images)
                    yield RowKey(name, str(probe), cut, str(group)), of_probe.loc[inside, name].to_numpy(dtype=float)


def forget_images(outputs: Path, run_id: str, kept: Collection[str]) -> None:
    """Delete from a monitor the keys of other images than `kept` (salted), and an unfinished look; without any, all."""
    folder = outputs.expanduser().resolve() / FOLDER / run_id
    if not RUN_ID.fullmatch(run_id):
        return
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)
    if not (folder / STATE).is_file():
        return
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
        return
    content = json.loads((folder / STATE).read_text(encoding="utf-8"))
    content["asked"] = [key for key in content["asked"] if key in kept]
    write_text(folder / STATE, json.dumps(content, indent=1) + "\n")
