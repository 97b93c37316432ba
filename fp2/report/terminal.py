"""What the terminal shows at the end of a run: its sections, the answers, and where the files are.

Every string from a model, a data set or a user is printed as `Text`, never as markup, without control characters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from fp2.config import ReportConfig
from fp2.data.group_sizes import MEMBERSHIP, SMALL_GROUPS
from fp2.notes import read_notes
from fp2.report.reading import (
    SUPPLIED,
    absent_words,
    calibration_of,
    calibration_words,
    calls_words,
    model_name,
    model_was_used,
    plain,
    scorer_label,
    scorer_names,
    variant_line,
    were_supplied,
)
from fp2.report.section import Section, heading, present


def print_results(
    results: Mapping[str, Any],
    console: Console,
    paths: Mapping[str, object] | None = None,
    sections: Sequence[Section] = (),
    next_command: str | None = None,
    *,
    min_cell: int = ReportConfig.suppress_below,
    told: Collection[str] = (),
) -> None:
    """Print the results of a run.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    console : rich.console.Console
        Where to print; from 80 columns on nothing essential is cut.
    paths : mapping, optional
        Names and paths to print at the end, in the order given (never wrapped or cut, so that they can be copied).
    sections : sequence of Section
        Those of the run's protocol (`fp2.report.section.load_sections`).
    next_command : str, optional
        A command to suggest, on a line of its own.
    min_cell : int
        Sections leave out groups of fewer subjects (`report.suppress_below`).
    told : collection of str
        Limitations that were shown before, and are not repeated.
    """
    who = f" of {model_name(results)}" if model_was_used(results) else ""
    head = Text(f"{heading(sections, results)}{who}", style="bold")
    size = f"{results['n_subjects']:,} subjects, {results['n_images']:,} images"
    shown = scorer_names(results)[:1]
    what = f"{scorer_label(shown[0])}, " if shown else ""
    where = f" on {plain(results['dataset']['name'])}: {what}{size}"
    console.print(head + Text(where, style="not bold"))
    if said := calibration_words([calibration_of(results)]):
        console.print(Text(said, style="italic"))
    if were_supplied(results):
        console.print(Text(SUPPLIED, style="bold"))
    if variant := variant_line(results):
        console.print(Text(variant, style="bold"))
    if not results["complete"]:
        console.print(Text("Partial run: some planned answers are missing.", style="bold yellow"))
    for section in present(sections, results):
        for line in section.lines(results[section.name], results, min_cell):
            console.print(line)
    for note in read_notes(results):
        if note.code in (MEMBERSHIP.code, SMALL_GROUPS.code) and note not in told:
            console.print(Text(plain(note), style="yellow"))
    if results["answers"]["planned"]:
        console.print(_answers_line(results))
    for name, path in (paths or {}).items():
        console.print(Text(f"{name:<12} {plain(path)}"), soft_wrap=True)
    if next_command:
        console.print(Text(next_command, style="bold"), soft_wrap=True)


def _answers_line(results: Mapping[str, Any]) -> Text:
    """Return the counts of answers, and of model calls."""
    answers = results["answers"]
    words = [
        f"{answers['planned']:,} planned",
        f"{answers['answered']:,} answered ({answers['refused']:,} of them refusals)",
    ]
    words += [f"{answers['failed']:,} failed", *absent_words(answers), f"{answers['cached']:,} from earlier runs"]
    return Text(f"answers: {', '.join(words)}; {calls_words(answers)}")
