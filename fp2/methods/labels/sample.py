"""Labels of a run's answers in the making: the sample, the labels of each labeller, and their agreement.

They are in `labels/RUN_ID/SCORER` among the outputs, because the run's own files are signed:

    sample.csv          the answers drawn, in salted keys, with stratum and inclusion probability
    about.json          how they were drawn
    labels-NAME.csv     a line per label as it was given; the last line of an answer counts
    labels.csv          all of it in the form of `fp2.methods.labels.table`, for the analysis

The sample is stratified: by probe, by the group of one cut, and by what the scorer reads the answer as. Every stratum
has an answer in it, so that every probability is above 0 and estimates for any cut are possible.
"""

from __future__ import annotations

import csv
import fcntl
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    RUN_ID,
    Config,
    Fp2Error,
    RowAnswers,
    artifacts,
    check_names,
    logged_config,
    logged_protocol,
    nearest,
    quoted,
    read_results,
    read_tables,
    read_withdrawn,
    unquoted,
    writing,
)
from fp2.methods.labels.table import RESOLVER

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut, LabelScale
    from fp2.methods.labels.agreement import LabellerAgreement

FOLDER, SAMPLE, ABOUT, MERGED = "labels", "sample.csv", "about.json", "labels.csv"
NEEDED = (artifacts.CONFIG, artifacts.RESULTS, artifacts.PEOPLE, artifacts.RESPONSES, artifacts.SCORES)
NAME = re.compile(r"[A-Za-z0-9_\-]{1,40}")
_COLUMNS = ("image", "subject", "question", "probe", "stratum", "probability")
_GIVEN = ("image", "subject", "question", "label", "given")
_MERGED = ("image", "subject", "question", "scorer", "labeller", "label", "probability")
_NUMBERS = ("label", "stratum", "probability")
_UNDO = "undo"
Answer = tuple[str, str, str]
"""Salted image, salted subject, question."""


@dataclass(frozen=True)
class Wanted:
    """What the user asked for; None: the default, or what the sample was drawn with."""

    scorer: str | None = None
    n: int | None = None
    by: str | None = None
    seed: int | None = None
    probes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Sheet:
    """The answers of a run that are to be labelled for one scorer.

    Attributes
    ----------
    folder : Path
    scale : LabelScale
    rows : list of dict
        The lines of `sample.csv`.
    texts : mapping
        Answer -> (question, text).
    about : mapping
        How the sample was drawn.
    state : Path
        The state folder, which has the list of withdrawn people.
    """

    folder: Path
    scale: LabelScale
    rows: list[dict[str, str]]
    texts: Mapping[Answer, tuple[str, str]]
    about: Mapping[str, Any]
    state: Path

    def withdrawn(self, answer: Answer) -> bool:
        """Whether the answer is about somebody who was withdrawn since the sample was read."""
        withdrawn = read_withdrawn(self.state)
        return answer[0] in withdrawn.images or answer[1] in withdrawn.subjects

    @cached_property
    def answers(self) -> list[Answer]:
        """The answers of the sample that the run still has."""
        every = [(row["image"], row["subject"], row["question"]) for row in self.rows]
        return [answer for answer in every if answer in self.texts]

    def labellers(self) -> list[str]:
        """Return who has labelled so far, the resolver last."""
        names = [path.stem.removeprefix("labels-") for path in sorted(self.folder.glob("labels-*.csv"))]
        return sorted(names, key=lambda name: (name == RESOLVER, name))

    def given(self, labeller: str) -> dict[Answer, float | None]:
        """Return a labeller's labels in the order in which they were given; None: skipped."""
        out: dict[Answer, float | None] = {}
        answers = set(self.answers)
        for row in _lines(_file(self.folder, labeller)):
            answer = (row["image"], row["subject"], row["question"])
            out.pop(answer, None)
            if answer in answers and row["label"] != _UNDO:
                out[answer] = float(row["label"]) if row["label"] else None
        return out

    def differing(self) -> list[Answer]:
        """Return the answers that labellers label differently."""
        every = [self.given(name) for name in self.labellers() if name != RESOLVER]
        return [a for a in self.answers if len({one[a] for one in every if a in one}) > 1]

    def order(self, labeller: str) -> list[Answer]:
        """Return the answers in this labeller's random order; the resolver's are those on which others differ."""
        import numpy as np

        answers = self.differing() if labeller == RESOLVER else self.answers
        seeds = [int(self.about["seed"]), *labeller.encode()]
        return [answers[k] for k in np.random.default_rng(seeds).permutation(len(answers))]

    def append(self, labeller: str, answer: Answer, label: float | None, *, undo: bool = False) -> None:
        """Write one label to the disk, unless the person was withdrawn meanwhile."""
        path = _file(self.folder, labeller)
        word = _UNDO if undo else "" if label is None else f"{label:g}"
        with writing(self.state), artifacts.as_user_error(self.folder), _alone(self.folder):
            if self.withdrawn(answer):
                return
            new = not path.exists() or not path.stat().st_size
            broken = not new and not path.read_bytes().endswith(b"\n")  # the machine stopped while it was written
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                if new:
                    writer.writerow(_GIVEN)
                if broken:
                    file.write("\n")
                writer.writerow([*map(quoted, answer), word, datetime.now(UTC).isoformat(timespec="seconds")])
                file.flush()
                os.fsync(file.fileno())

    def agreement(self) -> list[tuple[str, str, LabellerAgreement]]:
        """Return the agreement of every two labellers on what both labelled."""
        from fp2.methods.labels.agreement import labeller_agreement

        out = []
        for one, two in combinations([name for name in self.labellers() if name != RESOLVER], 2):
            first, second = self.given(one), self.given(two)
            pairs = [(first[a], second[a]) for a in first if a in second]
            both = [(x, y) for x, y in pairs if x is not None and y is not None]
            if (found := labeller_agreement([x for x, _ in both], [y for _, y in both])) is not None:
                out.append((one, two, found))
        return out

    def merge(self) -> Path:
        """Write `labels.csv` and return its path."""
        chance = {(row["image"], row["subject"], row["question"]): row["probability"] for row in self.rows}
        path = self.folder / MERGED
        with writing(self.state), _alone(self.folder):
            lines = [
                (*answer, self.about["scorer"], name, f"{label:g}", chance[answer])
                for name in self.labellers()
                for answer, label in self.given(name).items()
                if label is not None and not self.withdrawn(answer)
            ]
            if not lines:
                raise Fp2Error("no answer is labelled", where=str(self.folder), fix="Label some: fp2 label RUN")
            _write(path, _MERGED, lines)
        return path


def sheet_of(source: Path, here: Config, wanted: Wanted, words: Sequence[str] = ()) -> Sheet:
    """Return the sample of the run in `source`, drawn now if there is none.

    `words` state again what a run of somebody else names (`fp2.extension.logged_config`).
    """
    with writing(Path(here.paths.state)) as withdrawn:
        tables = read_tables(source).present(withdrawn)
        results = read_results(source)
        run_id = str(results["run_id"])
        if not RUN_ID.fullmatch(run_id):
            raise Fp2Error("the run's id is not valid", where=run_id[:80])
        if not isinstance(tables.answers, RowAnswers) or tables.scores is None:
            raise Fp2Error("the answers of this run are not scored texts", where=run_id)
        config = logged_config(source, here, run_id, words)
        _, job = logged_protocol(config, tables.people)
        name = wanted.scorer or str(results["analysis"].get("primary", ""))
        if name not in job.scorers or not NAME.fullmatch(name):
            raise Fp2Error(f"the run has no scorer {name!r}", where="--scorer", fix=nearest(name, list(job.scorers)))
        if (scale := job.scorers[name].label_scale) is None:
            fix = "Give your own file of labels: fp2 label RUN --labels FILE"
            raise Fp2Error(f"the scorer {name!r} does not say how people label it", where="--scorer", fix=fix)
        if getattr(job.scorers[name], "of", "answer") != "answer":
            what = f"the scorer {name!r} scores the reasoning before an answer, and people label answers"
            raise Fp2Error(
                what, where="--scorer", fix=nearest(name, [scorer for scorer in job.scorers if scorer != name])
            )
        assert job.battery is not None
        asked = {question.question_id: question.text for question in job.battery.questions}
        frame = tables.answers.answered
        keys = zip(frame["image_id"], frame["subject_id"], frame["question_id"], strict=True)
        texts = dict(zip(keys, zip(frame["question_id"].map(asked), frame["text"], strict=True), strict=True))
        folder = Path(here.paths.outputs).expanduser().resolve() / FOLDER / run_id / name
        if (folder / SAMPLE).is_file():
            about = _about(folder)
            _check_same(about, wanted, folder)
        else:
            about = _draw(tables.scores, tables.people, job.cuts, scale, name, wanted, folder, config)
        return Sheet(folder, scale, list(_lines(folder / SAMPLE)), texts, about, Path(here.paths.state))


def _draw(
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    scale: LabelScale,
    name: str,
    wanted: Wanted,
    folder: Path,
    config: Config,
) -> dict[str, Any]:
    """Draw the sample and write it; return how it was drawn."""
    import numpy as np

    from fp2.extension import CONTROLS, REFUSAL, groups_of

    by, by_name = wanted.by or cuts[0].name, {cut.name: cut for cut in cuts}
    check_names([by], by_name, "the run has no cut", "--by")
    rows = scores[(scores["scorer"] == name) & ~scores["variant"].isin(CONTROLS)]
    rows = rows if name == REFUSAL else rows[~rows["refused"].astype(bool)]
    rows = rows.drop_duplicates(["image_id", "subject_id", "question_id"])
    known = list(dict.fromkeys(rows["probe"]))
    check_names(wanted.probes or (), known, "no scored answer is of the probe", "--probe")
    rows = rows[rows["probe"].isin(wanted.probes or known)]
    read = scale.read(rows["value"].to_numpy(dtype="float64"))
    group = rows[["image_id", "subject_id"]].join(groups_of(people, by_name[by]), on=["image_id", "subject_id"])[
        "group"
    ]
    rows = rows.assign(read=read, group=group.fillna("").to_numpy())[~np.isnan(read)]
    if rows.empty:
        raise Fp2Error("no answer has a score to be labelled", where=name)
    seed = config.seed if wanted.seed is None else wanted.seed
    n = 300 if wanted.n is None else wanted.n
    strata = rows.groupby(["probe", "group", "read"], sort=True).ngroup().to_numpy()
    cells = rows.groupby(["probe", "group"], sort=True).ngroup().to_numpy()
    large = rows.groupby("group")["subject_id"].nunique()
    compared = rows["group"].map(large).to_numpy() >= config.analysis.min_subjects
    chosen, probability = stratified(strata, cells, compared & (rows["group"] != "").to_numpy(), n, seed)
    drawn = rows.iloc[chosen]
    lines = [
        (row.image_id, row.subject_id, row.question_id, row.probe, int(stratum), repr(float(chance)))
        for row, stratum, chance in zip(drawn.itertuples(index=False), strata[chosen], probability[chosen], strict=True)
    ]
    about = {
        "scorer": name,
        "n": n,
        "drawn": len(lines),
        "by": by,
        "seed": seed,
        "probes": list(wanted.probes or known),
        "answers": len(rows),
        "strata": int(strata.max()) + 1,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with artifacts.as_user_error(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    _write(folder / SAMPLE, _COLUMNS, lines)
    return about


def stratified(strata: Any, cells: Any, compared: Any, n: int, seed: int) -> tuple[Any, Any]:
    """Draw about `n` answers without replacement within strata.

    Cells (a probe and a group) that are compared share the sample equally, their strata in proportion to the square
    root of their size (Bankier 1988); every other stratum has one answer.

    Parameters
    ----------
    strata, cells : (N,) int
        The stratum of each answer and the cell that the stratum is in.
    compared : (N,) bool
        Whether the answer's cell is compared.

    Returns
    -------
    (chosen, probability)
        Sorted positions of the answers drawn, and the inclusion probability of every answer, (N,).
    """
    import numpy as np

    size = np.bincount(strata)
    _, first = np.unique(strata, return_index=True)
    cell, counts = cells[first], compared[first]
    if n < len(size):
        fix = f"Give --n {len(size)} or more, or fewer probes: --probe NAME"
        raise Fp2Error(f"{n} answers are too few for {len(size)} strata", where="--n", fix=fix)
    take = np.ones(len(size), dtype=int)
    root = np.sqrt(size) * counts
    if counts.any():
        root = root / np.bincount(cell, weights=root)[cell].clip(1e-12)
    while (left := min(n, int(size[counts].sum() + (~counts).sum())) - int(take.sum())) > 0:
        open_ = (take < size) & counts  # the answer goes where the sample is furthest behind its share
        behind = np.where(open_, root / take, -1.0)
        best = np.argsort(-behind, kind="stable")[: max(1, min(left, int(open_.sum()) // 4))]
        take[best] += 1
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(np.flatnonzero(strata == k), m, replace=False) for k, m in enumerate(take)]
    return np.sort(np.concatenate(chosen)), (take / size)[strata]


def forget_images(outputs: Path, run_id: str, kept: Collection[str]) -> None:
    """Delete from the sample and the labels of a run what is about other images than `kept` (salted)."""
    if not RUN_ID.fullmatch(run_id):
        return
    folder = outputs.expanduser().resolve() / FOLDER / run_id
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(folder.glob("*/*.csv")):
        columns = {SAMPLE: _COLUMNS, MERGED: _MERGED}.get(path.name, _GIVEN)
        with _alone(path.parent):  # somebody may be labelling
            _write(path, columns, [[row[name] for name in columns] for row in _lines(path) if row["image"] in kept])


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes from writing labels into a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _file(folder: Path, labeller: str) -> Path:
    if not NAME.fullmatch(labeller):
        fix = "Use letters, digits, - and _; it is written beside the labels, so take no person's name"
        raise Fp2Error(f"invalid name {labeller[:60]!r}", where="--labeller", fix=fix)
    return folder / f"labels-{labeller}.csv"


def _lines(path: Path) -> Iterator[dict[str, str]]:
    """Yield the complete lines of a CSV file, none if it is not there."""
    if not path.is_file():
        return
    try:
        with path.open(encoding="utf-8", newline="") as file:
            complete = (row for row in csv.DictReader(file) if None not in row and None not in row.values())
            yield from ({name: unquoted(cell) for name, cell in row.items()} for row in complete)
    except (OSError, ValueError, csv.Error) as error:
        raise Fp2Error(f"the labels cannot be read: {error}", where=str(path)) from error


def _write(path: Path, columns: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """Write a CSV file that its owner alone can read, in one step."""
    partial = path.with_suffix(".tmp")
    with artifacts.as_user_error(path.parent):
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", newline="") as file:
            cells = ([_cell(*pair) for pair in zip(columns, line, strict=True)] for line in lines)
            csv.writer(file, lineterminator="\n").writerows([columns, *cells])
        partial.replace(path)


def _cell(column: str, value: Any) -> Any:
    """Return a cell of a CSV file: a name is text, whatever it begins with, and a label may be negative."""
    return value if column in _NUMBERS else quoted(str(value))


def _about(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / ABOUT).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise Fp2Error(f"the sample cannot be read: {error}", where=str(folder / ABOUT)) from error


def _check_same(about: Mapping[str, Any], wanted: Wanted, folder: Path) -> None:
    """Raise for settings other than those that the sample was drawn with."""
    probes = None if wanted.probes is None else sorted(wanted.probes)
    asked = {"n": wanted.n, "by": wanted.by, "seed": wanted.seed, "probes": probes}
    for name, value in asked.items():
        drawn = sorted(about[name]) if name == "probes" else about[name]
        if value is not None and value != drawn:
            fix = f"Omit it to go on with that sample, or move {folder} away to draw another"
            raise Fp2Error(f"the sample was drawn with {drawn}, not {value}", where=f"--{name}", fix=fix)
