"""The dashboard of one run: what its protocol found, then what every run says of itself (`run_sections`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from fp2.artifacts import SampledAnswer
from fp2.report import reading, run_sections
from fp2.report.answers import answers_side_by_side
from fp2.report.page import PageSection, render_page, write_page
from fp2.report.reading import MIN_CELL, shorten
from fp2.report.reproduce import HowToRepeat
from fp2.report.section import Section, heading, present
from fp2.report.summary import Picture, summary
from fp2.report.values import Finding, Part, Sentence, Strong, Table, Value, Weight, flat, tables
from fp2.results import FrequentAnswer, RunResults, Summary
from fp2.text import plural


def write_dashboard(
    results: RunResults,
    examples: Sequence[FrequentAnswer],
    leaderboard: Sequence[Summary],
    path: Path,
    min_cell: int = MIN_CELL,
    sections: Sequence[Section] = (),
    sample: Sequence[SampledAnswer] = (),
    key_id: str | None = None,
    repeat: HowToRepeat | None = None,
    picture: Picture | None = None,
) -> Path:
    """Write the dashboard of one run and return its path.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    examples : sequence of {probe, text, count}
        Distinct answers with their counts. The most frequent of each probe are shown, and none that occurs fewer than
        `MIN_EXAMPLE_COUNT` times.
    leaderboard : sequence of dicts
        Summaries of the runs in the store, as `fp2.report.leaderboard.summarise` returns them (one per run and cut);
        those by other cuts than the run's are not shown.
    path : Path
        The HTML file, written atomically.
    min_cell : int
        Groups with fewer subjects are shown without their numbers.
    sections : sequence of Section
        Those of the run's protocol (`fp2.report.section.load_sections`).
    sample : sequence of dicts
        Answers to read (`fp2.report.samples`).
    key_id : str, optional
        The id of the key that the run's passport is signed with.
    repeat : mapping, optional
        How the run is repeated (`fp2.report.reproduce.how_to_repeat`).
    picture : callable, optional
        From an image's salted key to a `data:` URI, empty where the image may not be shown.

    Raises
    ------
    Fp2Error
        If the file cannot be written.
    """
    page = render_dashboard(results, examples, leaderboard, min_cell, sections, sample, key_id, repeat, picture)
    return write_page(path, page)


def render_dashboard(
    results: RunResults,
    examples: Sequence[FrequentAnswer],
    leaderboard: Sequence[Summary],
    min_cell: int = MIN_CELL,
    sections: Sequence[Section] = (),
    sample: Sequence[SampledAnswer] = (),
    key_id: str | None = None,
    repeat: HowToRepeat | None = None,
    picture: Picture | None = None,
) -> str:
    """Return the dashboard's HTML (parameters as for `write_dashboard`)."""
    model_used, title = reading.model_was_used(results), heading(sections, results)
    limits = run_sections.limitation_values(([limitation] for limitation in results["limitations"]), model=model_used)
    asked_model = bool(results["answers"]["planned"])
    findings = [
        (section, list(section.values(results[section.name], results))) for section in present(sections, results)
    ]
    scorers = [table.scorer for _, values in findings for table in tables(values) if table.scorer]
    header, sizes = list(run_sections.notices(results)), list(run_sections.sizes(results))
    elsewhere = [found for section, values in findings if (found := _differing(section, values))]
    lead, lead_title = list(summary(results, sample, elsewhere, picture)), "In short"
    if not lead and findings:  # what the first section says of all groups
        first, values = findings[0]
        first_values = list(takewhile(_is_unfolded, values))
        findings[0] = first, values[len(first_values) :]
        if all(isinstance(value, Finding) for value in values[len(first_values) :]):  # the section has said everything
            lead_title = first.title
        details = [value for value in first_values if isinstance(value, Sentence) and value.weight is Weight.DETAIL]
        lead = [value for value in first_values if value not in details]
        lead += [Part(reading.HOW_TO_READ, details, folded=True)] if details else []
    if lead:
        lead += sizes
    else:
        header += sizes
    board = list(run_sections.leaderboard(results, leaderboard))
    page_sections = [
        PageSection("summary", lead_title, lead),
        *(
            PageSection(
                section.name,
                section.title,
                values,
                folded=(folded := section.detail and not _leads(values)),
                on_paper=not folded,
            )
            for section, values in findings
        ),
        PageSection(
            "compared", "Answers side by side", answers_side_by_side(results, sample), folded=True, on_paper=False
        ),
        PageSection("balance", "Balance of the groups", run_sections.balance(results), folded=True, on_paper=False),
        PageSection(
            "answers",
            "Answers, refusals and failures by group",
            run_sections.answers_by_group(results),
            folded=True,
            on_paper=False,
        ),
        PageSection("diversity", "Response diversity", run_sections.diversity(results), folded=True, on_paper=False),
        PageSection(
            "examples",
            "Frequent answers",
            run_sections.frequent_answers(results, examples),
            folded=True,
            on_paper=False,
        ),
        PageSection("sample", "Answers to read", template="samples.html.j2", on_paper=False),
        PageSection(
            "board",
            "Leaderboard of the runs in this store",
            board,
            folded=True,
            on_paper=False,
        ),
        PageSection(
            "asked",
            "Questions asked" if asked_model else "What was measured",
            run_sections.question_values([("", results["probes"])], asked_model),
            folded=True,
        ),
        PageSection("limits", "Limitations", limits, folded=True),
        PageSection("again", "Reproduce and verify", run_sections.reproduce(results, repeat, key_id), folded=True),
    ]
    context = {
        "title": f"{title} of {reading.model_name(results)}" if model_used else title,
        "cuts": {cut: reading.cut_label(cut, results["dataset"].get("scales")) for cut in results["cuts"]},
        "scorers": list(dict.fromkeys([*reading.scorer_names(results), *scorers])),
        "sample": [{**row, "answers": [{**row, "text": shorten(row["text"])}]} for row in sample],
        "sample_runs": [],
        "labels": reading.probe_labels(results),
        "primary": reading.primary_scorer(results),
        "settings": repeat["settings"] if repeat else None,
        "version": results["fp2_version"],
        "has_answers": bool(sample or examples),
    }
    return render_page(context, header, page_sections, min_cell)


def _differing(section: Section, values: Sequence[Value]) -> Sentence | None:
    """Return how many findings of a section differ; None if none does, or they are the disparities."""
    tested = [] if section.name == "disparities" else [f for f in flat(values) if isinstance(f, Finding)]
    if not (n := sum(finding.differs is True for finding in tested)):
        return None
    counted = f"{n} of {plural(len(tested), 'comparison')} {'differs' if 1 in (n, len(tested)) else 'differ'}"
    return Sentence([f"{section.title}: ", Strong(counted), "."], Weight.LEAD)


def _is_unfolded(value: Value) -> bool:
    """Return whether a value is shown at once, whatever a reader chooses."""
    if isinstance(value, Finding) or value.cut or value.scorer:
        return False
    return not (isinstance(value, Table) and value.fold) and not (isinstance(value, Part) and value.folded)


def _leads(values: Sequence[Value]) -> bool:
    """Return whether something has to be read at once."""
    weights = (value.weight for value in flat(values) if isinstance(value, Sentence))
    return any(weight in (Weight.LEAD, Weight.WARNING) for weight in weights)
