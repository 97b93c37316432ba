"""From the runs that were named to the files of a report: `report.html`, `results.json`, `report.md` and a drawing."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.errors import Fp2Error
from fp2.report.reproduce import how_to_repeat
from fp2.runs.folders import recording
from fp2.runs.local_paths import MARK, overrides_without_places
from fp2.runs.logged import run_sections
from fp2.runs.outputs import fresh_folder
from fp2.runs.reader import LoggedRun, read_results, read_run, run_folder, writing_about
from fp2.runs.sweep import Missing, SweepRun, n_steps, sweep_results
from fp2.text import printable

if TYPE_CHECKING:
    from fp2.config import Config
    from fp2.progress import Progress

_PATH = re.compile(r"(?<![\w.:/-])[/~][^\s,;:()'\"]*/[^\s,;:()'\"]+")
"""A path in a message: a report names no folder of this machine."""
FILES = (artifacts.PEOPLE, artifacts.SCORES, artifacts.RESPONSES, artifacts.OVERRIDES, artifacts.PASSPORT)
"""What a report reads of a run beside its results and config, as far as it is there."""
DENSE = "the answers are in dense storage"
FOLDER = artifacts.SWEEP_REPORT
_, PAGE, MARKDOWN, FIGURE = artifacts.SWEEP_REPORT_FILES


def make_report(
    words: Sequence[str], here: Config, folder: Path | None, progress: Progress, sweep_id: str | None = None
) -> tuple[dict[str, Any], Path]:
    """Write the report of the runs that `words` name; return its results and its folder.

    A word is a run (`fp2.runs.reader.run_folder`), the folder of a sweep, or a sweep's id in the MLflow store. Without
    `folder` the report of one sweep goes into its folder, and any other one into a new output folder.
    """
    if folder is not None and (folder / artifacts.CONFIG).is_file():
        raise Fp2Error("this is the folder of a run: the report would replace its results", where=f"--to {folder}")
    named, missing = runs_named(words, here)
    if sweep_id is None and len(words) == 1 and named != list(words) and not Path(words[0]).exists():
        sweep_id = words[0]
    if not named:
        raise Fp2Error("no finished run", where=" ".join(words))
    with tempfile.TemporaryDirectory(prefix="fp2-report-") as scratch:
        with progress.steps("Reading the runs", len(named)) as step:
            runs, folders = read_runs(named, here, Path(scratch), step)
        sample = _answers_side_by_side(runs, folders, here)
        with progress.steps("Comparing the runs", n_steps(runs)) as step:
            block = sweep_results(runs, missing, here.report.suppress_below, step, sweep_id)
    if folder is None:
        path = Path(words[0])
        is_sweep = len(words) == 1 and path.is_dir() and not (path / artifacts.RESULTS).is_file()
        folder = (path if is_sweep else fresh_folder(Path(here.paths.outputs))) / FOLDER
    files = [folder / name for name in artifacts.SWEEP_REPORT_FILES]
    with (
        recording(Path(here.paths.state), [run.results["run_id"] for run in runs], files),
        writing_about(here, [run.tables.people for run in runs if run.tables is not None]),
    ):
        write_report(block, runs, folder, sample, figures=here.report.figures)
    return block, folder


def runs_named(words: Sequence[str], here: Config) -> tuple[list[str], list[Missing]]:
    """Return the finished runs that `words` name, and the runs of a sweep that are missing."""
    from fp2.tracking.client import runs_of_sweep

    messages: list[str] = []
    missing: list[Missing] = []
    for word in words:
        folder = Path(word)
        jobs = [] if (folder / artifacts.RESULTS).is_file() else artifacts.job_folders(folder)
        if jobs:
            messages += [str(job) for job in jobs if (job / artifacts.RESULTS).is_file()]
            missing += _unfinished(jobs)
            continue
        logged: dict[str, str] = {}
        if not folder.exists():
            with suppress(Fp2Error):  # no MLflow store: the word names a run, or is refused as one
                logged = runs_of_sweep(here, word)
        messages += [run for run, status in logged.items() if status == "FINISHED"] if logged else [word]
        missing += [{"run": run, "reason": f"ended as {how}"} for run, how in logged.items() if how != "FINISHED"]
    return list(dict.fromkeys(messages)), missing


def _unfinished(jobs: Sequence[Path]) -> list[Missing]:
    """Return the jobs of a sweep without results: the settings in which they differ from the others, and why."""
    status = {job: artifacts.read_status(job) for job in jobs}
    settings = {job: [str(word) for word in job_status.get("overrides", ())] for job, job_status in status.items()}
    common = set.intersection(*map(set, settings.values()))
    missing = []
    for job in jobs:
        if (job / artifacts.RESULTS).is_file():
            continue
        own_overrides = overrides_without_places(
            [word for word in settings[job] if word not in common or len(jobs) == 1]
        )
        message = str(status[job].get("message") or "it did not finish")
        reason = _PATH.sub(lambda path: MARK + path[0].rstrip("/").rpartition("/")[2], message)
        missing.append({"run": printable(" ".join(own_overrides) or f"job {job.name}"), "reason": printable(reason)})
    return missing


def read_runs(words: Sequence[str], here: Config, scratch: Path, step: Any) -> tuple[list[SweepRun], list[Path]]:
    """Return the runs that `words` name, each once, and their folders; one without tables has the reason.

    Files of the MLflow store are downloaded below `scratch`; `step` is called after each run.
    """
    by_id: dict[str, tuple[SweepRun, Path]] = {}
    for word in words:
        folder = run_folder(word, here, scratch, (artifacts.RESULTS, artifacts.CONFIG), FILES)
        results = read_results(folder)
        tables, reason = None, None
        try:
            tables = read_run(str(folder), here, scratch)
        except Fp2Error as error:
            reason = error.what
        by_id.setdefault(str(results["run_id"]), (swept(results, tables, reason, folder, here), folder))
        step()
    return [run for run, _ in by_id.values()], [folder for _, folder in by_id.values()]


def swept(
    results: Mapping[str, Any], tables: LoggedRun | None, reason: str | None, folder: Path, here: Config
) -> SweepRun:
    """Return a run with its report sections, and how it is repeated."""
    sections = run_sections(folder, here, str(results["run_id"]))
    return SweepRun(results, tables, reason, sections, how_to_repeat(folder, results))


def comparison_page(runs: Sequence[LoggedRun], every: Mapping[str, Any], here: Config, progress: Progress) -> str:
    """Return the HTML of compared runs: their report, with their distances (`every`) at the top."""
    from fp2.report.sweep import render_sweep

    folders = [run.folder for run in runs if run.folder is not None]
    read_folders = [
        swept(run.results, None if run.traits else run, DENSE if run.traits else None, folder, here)
        for run, folder in zip(runs, folders, strict=True)
    ]
    with progress.steps("Putting the page together", n_steps(read_folders)) as step:
        block = sweep_results(read_folders, [], here.report.suppress_below, step)
    sample = _answers_side_by_side(read_folders, folders, here)
    return render_sweep(block, sample, (every, here.analysis.alpha))


def _answers_side_by_side(runs: Sequence[SweepRun], folders: Sequence[Path], local_config: Config) -> dict[str, Any]:
    """Return answers of the runs to the same questions; runs on the same answers, or without texts, are left out."""
    from fp2.ask.answers import read_tables
    from fp2.report.reading import primary_scorer
    from fp2.report.samples import sample_side_by_side

    texts = [{probe["id"]: probe["text"] for probe in run.results["probes"]} for run in runs]
    same = [
        probe for probe in texts[0] if all(question_texts.get(probe) == texts[0][probe] for question_texts in texts)
    ]
    ids_seen: set[str] = set()
    indices, read = [], []
    for index, (run, folder) in enumerate(zip(runs, folders, strict=True)):
        answers = str(run.results["response_set"])
        if run.tables is None or answers in ids_seen or not (folder / artifacts.RESPONSES).is_file():
            continue
        ids_seen.add(answers)
        indices.append(index)
        read.append((read_tables(folder), list(run.tables.cuts.values()), primary_scorer(run.results)))
    sample = sample_side_by_side(read, same, local_config.report.sample_per_group, local_config.report.suppress_below)
    return {**sample, "runs": [indices[index] for index in sample["runs"]]}


def write_report(
    block: dict[str, Any], runs: Sequence[SweepRun], folder: Path, sample: dict[str, Any] | None = None,
    *, figures: bool = True,
) -> None:  # fmt: skip
    """Write the files of a report; with the fingerprints of all runs, each under its label, where one has a radar."""
    from fp2.report.disparity_charts import FEWEST_SPOKES, radars
    from fp2.report.drawing import draw_panels, run_heading
    from fp2.report.page import write_page
    from fp2.report.reading import rows_of
    from fp2.report.sweep import render_sweep, sweep_markdown

    named = [
        {**run.results, "model": {**run.results["model"], "name": about["label"]}}
        for run, about in zip(runs, block["runs"], strict=True)
    ]
    cuts = [cut for cut in block["cuts"] if any(len(rows_of(run, cut)) >= FEWEST_SPOKES for run in named)]
    drawn = None
    with artifacts.as_user_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
        artifacts.write_results(folder, block)
        if figures and cuts and len({about["primary"] for about in block["runs"]}) == 1:
            charts = radars(named, cuts)
            drawn = draw_panels(charts, folder / FIGURE, run_heading(charts[0].title, named)).name
        (folder / MARKDOWN).write_text(sweep_markdown(block, drawn), encoding="utf-8")
    write_page(folder / PAGE, render_sweep(block, sample))


def places_of(folder: Path) -> dict[str, Path]:
    """Return the files of a report by the name to print before them."""
    return {"report": folder / PAGE, "markdown": folder / MARKDOWN, "results": folder / artifacts.RESULTS}
