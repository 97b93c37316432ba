"""From the runs that were named to the files of a report: `report.html`, `results.json`, `report.md` and a drawing."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2.extension import (
    Fp2Error,
    LoggedRun,
    Output,
    Progress,
    artifacts,
    finish_purges,
    fresh_folder,
    how_to_repeat,
    load_config,
    printable,
    read_results,
    read_run,
    recording,
    run_folder,
    run_sections,
    runs_named,
    writing_about,
)
from fp2.methods.several_runs.sweep import SweepRun, n_steps, sweep_results

if TYPE_CHECKING:
    from fp2.extension import Config

FILES = (artifacts.PEOPLE, artifacts.SCORES, artifacts.RESPONSES, artifacts.OVERRIDES, artifacts.PASSPORT)
"""What a report reads of a run beside its results and config, as far as it is there."""
DENSE = "the answers are in dense storage"


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
        folder = (path if is_sweep else fresh_folder(Path(here.paths.outputs))) / artifacts.REPORT_FOLDER
    files = [folder / name for name in artifacts.REPORT_FILES]
    with (
        recording(Path(here.paths.state), [run.results["run_id"] for run in runs], files),
        writing_about(here, [run.tables.people for run in runs if run.tables is not None]),
    ):
        write_report(block, runs, folder, sample, figures=here.report.figures)
    return block, folder


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
    from fp2.methods.several_runs.sweep_page import render_sweep

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
    from fp2.extension import primary_scorer, read_tables, sample_side_by_side

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
    block: dict[str, Any],
    runs: Sequence[SweepRun],
    folder: Path,
    sample: dict[str, Any] | None = None,
    *,
    figures: bool = True,
) -> None:
    """Write the files of a report; with the fingerprints of all runs, each under its label, where one has a radar."""
    from fp2.extension import FEWEST_SPOKES, draw_panels, radars, rows_of, run_heading, write_page
    from fp2.methods.several_runs.sweep_page import render_sweep, sweep_markdown

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
            drawn = draw_panels(charts, folder / artifacts.REPORT_FIGURE, run_heading(charts[0].title, named)).name
        (folder / artifacts.REPORT_MARKDOWN).write_text(sweep_markdown(block, drawn), encoding="utf-8")
    write_page(folder / artifacts.REPORT_PAGE, render_sweep(block, sample))


def places_of(folder: Path) -> dict[str, Path]:
    """Return the files of a report by the name to print before them."""
    return {
        "report": folder / artifacts.REPORT_PAGE,
        "markdown": folder / artifacts.REPORT_MARKDOWN,
        "results": folder / artifacts.RESULTS,
    }


def end_sweep(folder: Path, sweep_id: str, config: Config) -> None:
    """Write the report of a sweep; if that fails, its runs are finished nevertheless, and a line says why."""
    repeat = f"fp2 report {folder}"
    if not config.report.dashboard:
        print(f"  report:  {repeat}")
        return
    try:
        make_report([str(folder)], config, folder / artifacts.REPORT_FOLDER, Progress(), sweep_id)
    except Exception as error:
        reason = str(error) if isinstance(error, Fp2Error) else f"{type(error).__name__}: {error}"
        print(printable(f"the report of the sweep was not made: {reason}. Make it with: {repeat}"), file=sys.stderr)
        return
    for name, path in places_of(folder / artifacts.REPORT_FOLDER).items():
        print(f"{name:<12} {path}")


def report(words: Sequence[str], overrides: Sequence[str], folder: Path | None = None, as_json: bool = False) -> None:
    """Write the report of the runs that `words` name, and print where it is.

    Parameters
    ----------
    words : sequence of str
        Runs, folders of sweeps, or ids of sweeps.
    overrides : sequence of str
        Where runs are (`paths.*`, `tracking.*`), and `report.*`.
    folder : Path, optional
        Where the files go; by default into `report` in the sweep's folder, or in a new output folder.
    """
    if not words:
        fix = "Give the folder of a sweep, its id, or runs: fp2 report RUN RUN"
        raise Fp2Error("no run is named", where="fp2 report", fix=fix)
    local_config = load_config(overrides)
    finish_purges(local_config, Progress())
    block, written = make_report(words, local_config, folder, Progress())
    with Output(as_json) as out:
        for run in block["missing"]:
            out.say(f"missing      {run['run']}: {run['reason']}")
        out.say(missing=block["missing"])
        for name, path in places_of(written).items():
            out.path(name, path)
