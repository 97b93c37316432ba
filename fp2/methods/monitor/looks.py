"""Looks at a finished run: some of its images are asked about again, and every answer is compared with the stored one.

No question is asked twice over all looks, so that each pair of answers says something new (`evidence`). What is kept of
a monitor is in `OUTPUTS/monitors/RUN_ID`: sums, the salted keys of the images asked about, and a page.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

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
    salted,
    scored,
    scorer_label,
    write_text,
)
from fp2.methods.monitor.evidence import Evidence, log_mean

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Answer, Config, Cut, FloatArray, Inputs, Plan, Results

FOLDER, STATE = "monitors", "monitor.json"
REFUSED, LENGTH = "refused", "length"
"""Compared beside the primary scorer: whether an answer is a refusal, and the logarithm of its number of words."""
LENGTH_RANGE = math.log(100)
ATTEMPTS = 2


@dataclass(frozen=True)
class ScoredAnswers:
    """The scored answers of one store."""

    answers: RowAnswers
    scores: pd.DataFrame


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


def look(monitor: Monitor, config: Config, results: Results, n_answers: int, progress: Progress) -> Look:
    """Ask about images that no look has asked about, until there are `n_answers` new answers; add the evidence.

    Raises
    ------
    Fp2Error
        If the run's answers are not in the store, or are no texts; if every image was asked about already; if it would
        cost more than `answers.max_cost`; or if no question is answered: the monitor is then as it was.
    """
    with (
        tempfile.TemporaryDirectory(prefix="fp2-monitor-") as scratch,
        ResponseStore(Path(config.paths.store), seeds=config.paths.seed_stores) as store,
        ResponseStore(Path(scratch) / "responses.sqlite") as new_store,
    ):
        protocol, inputs = load_inputs(config, store, progress)
        if not isinstance(protocol, Asks) or protocol.requires.dense or inputs.battery is None:
            raise Fp2Error("only runs whose answers are texts can be monitored", where=monitor.run_id)
        salt = local_salt(Path(config.paths.state))
        chosen, keys = _draw(inputs.people, monitor.asked, n_answers, len(inputs.battery.questions), salt)
        people = inputs.people[inputs.people["image_id"].isin(chosen)]
        chosen_inputs = replace(inputs, dataset=replace(inputs.dataset, people=people.reset_index(drop=True)))
        plan = plan_answers(protocol, chosen_inputs)
        before = _scored(protocol, chosen_inputs, plan)
        if before.answers.answered.empty:
            fix = "Name the store that has them: paths.store=FILE"
            raise Fp2Error("the store has no answer of this run", where=str(config.paths.store), fix=fix)
        after = _scored(protocol, replace(chosen_inputs, store=new_store), plan, attempts=ATTEMPTS)
        if after.answers.answered.empty:
            reason = next(iter(after.answers.frame["error"].dropna()), "the asking was interrupted")
            raise Fp2Error(f"no question was answered: {reason}", where=monitor.run_id, fix="Nothing was recorded")
        primary = str(results["analysis"]["primary"])
        width = float(np.ptp(inputs.scorers[primary].value_range)) if primary in inputs.scorers else 1.0
        pairs = differences(before, after, primary, width)
        for row, values in rows_of(pairs, people, inputs.cuts, primary):
            monitor.rows[row] = monitor.rows.get(row, Evidence()) + values
    log_e = log_mean(monitor.rows.values())
    done = Look(
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        answers=len(pairs),
        equal=int(pairs["equal"].sum()),
        failed=after.answers.n_planned - len(after.answers.answered),
        log10_e=log_e / math.log(10),
        changed=log_e >= math.log(1 / monitor.alpha),
        means={row: e.mean for row, e in monitor.rows.items() if e.mean is not None and row.score == primary},
    )  # fmt: skip
    monitor.asked += keys
    monitor.looks.append(done)
    return done


def _draw(
    people: pd.DataFrame, asked: Collection[str], n_answers: int, n_questions: int, salt: bytes
) -> tuple[list[str], list[str]]:
    """Return images drawn at random among those that were not asked about, and their salted keys."""
    images = sorted(people["image_id"].unique())
    keys = dict(zip(images, salted(images, salt, "image"), strict=True))
    left = [image for image in images if keys[image] not in set(asked)]
    if not left:
        fix = "Start a run of it, and monitor that one"
        raise Fp2Error("every image of this run was asked about again", where="fp2 monitor", fix=fix)
    n = min(len(left), math.ceil(n_answers / n_questions))
    chosen = [left[index] for index in sorted(np.random.default_rng().choice(len(left), n, replace=False).tolist())]
    return chosen, [keys[image] for image in chosen]


def _scored(protocol: Asks[Any], inputs: Inputs, plan: Plan, attempts: int = 0) -> ScoredAnswers:
    """Return the scored answers of a store, after those that it lacks were asked for, if they may be."""
    assert inputs.engine is not None
    config, withdrawn = inputs.config, WithdrawnImages(Path(inputs.config.paths.state), inputs.people)
    storage = open_storage(protocol, inputs, plan, withdrawn)
    if attempts:
        if (price := inputs.engine.profile().price) is not None and inputs.battery is not None:
            questions, decoding = inputs.battery.questions, inputs.battery.decoding
            cost = expected_cost(storage.forecast(), inputs.engine, questions, decoding, price)
            inputs.progress.note(f"Expected cost of this look: {cost}")
        if config.answers.max_cost is not None:
            check_run_cost(storage, inputs, config.answers.max_cost)
        with inputs.progress.steps("Asking again", storage.n_planned) as step:

            def saw(batch: Sequence[Answer]) -> None:
                for _ in batch:
                    step()

            ask(storage, inputs.engine, attempts=attempts, error_budget=1.0, saw=saw)
    else:
        storage.load()
    tables = scored(protocol, RunTables(inputs.people, storage.answers(), None), inputs)
    assert isinstance(tables.answers, RowAnswers)
    assert tables.scores is not None
    return ScoredAnswers(tables.answers, tables.scores)


def differences(before: ScoredAnswers, after: ScoredAnswers, primary: str, width: float) -> pd.DataFrame:
    """Return one row per answer that both tables have: image, probe, `equal`, and new less stored of each score.

    Scores are in units of their range (`width` of the primary scorer); NaN where either answer has none.
    """
    keys = ["image_id", "question_id"]
    frames = []
    for tables in (before, after):
        scores = tables.scores[tables.scores["scorer"] == primary].set_index(keys)["value"]
        frame = tables.answers.answered.set_index(keys)[["probe", "text", REFUSED]]
        frame[primary] = scores.reindex(frame.index) / width
        frame[REFUSED] = frame[REFUSED].astype(float)
        frame[LENGTH] = [math.log1p(len(str(text).split())) / LENGTH_RANGE for text in frame["text"]]
        frames.append(frame)
    pairs = frames[0].join(frames[1], how="inner", rsuffix=" now")
    names = [primary, REFUSED, LENGTH]
    out = pairs[["probe"]].assign(equal=pairs["text"] == pairs["text now"])
    for name in names:
        out[name] = pairs[f"{name} now"] - pairs[name]
    return out.reset_index()


def rows_of(
    pairs: pd.DataFrame, people: pd.DataFrame, cuts: tuple[Cut, ...], primary: str
) -> Iterator[tuple[RowKey, FloatArray]]:
    """Yield the differences of every row, (k,)."""
    groups = {cut.name: memberships(people, cut)[["image_id", "group"]].drop_duplicates() for cut in cuts}
    for probe, of_probe in pairs.groupby("probe", sort=False):
        for name in (primary, REFUSED, LENGTH):
            yield RowKey(name, str(probe)), of_probe[name].to_numpy(dtype=float)
            if name == LENGTH:
                continue
            for cut, table in groups.items():
                for group, images in table.groupby("group", sort=False)["image_id"]:
                    inside = of_probe["image_id"].isin(images)
                    yield RowKey(name, str(probe), cut, str(group)), of_probe.loc[inside, name].to_numpy(dtype=float)


def forget_images(outputs: Path, run_id: str, kept: Collection[str]) -> None:
    """Delete from a monitor the keys of other images than `kept` (salted); without any, the monitor."""
    folder = outputs.expanduser().resolve() / FOLDER / run_id
    if not RUN_ID.fullmatch(run_id) or not (folder / STATE).is_file():
        return
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
        return
    content = json.loads((folder / STATE).read_text(encoding="utf-8"))
    content["asked"] = [key for key in content["asked"] if key in kept]
    write_text(folder / STATE, json.dumps(content, indent=1) + "\n")
