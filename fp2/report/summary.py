"""The first screen of a run's page: what differs in words, the fingerprint of every cut, two answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter

from fp2.artifacts import SampledAnswer
from fp2.report.disparities import detectable_words, significant_of
from fp2.report.disparity_charts import differing, radars
from fp2.report.reading import (
    FEWEST_SPOKES,
    HOW_TO_READ,
    answers_link,
    cut_label,
    model_name,
    model_was_used,
    number,
    plain,
    primary_scorer,
    probe_labels,
    rows_of,
    scorer_label,
    scorer_names,
    sentence,
    shorten,
    shown_interval,
    untested_words,
)
from fp2.report.section import Section, present
from fp2.report.values import (
    Cell,
    Chart,
    Column,
    Kind,
    Name,
    Part,
    Row,
    Scalar,
    Sentence,
    Strong,
    Table,
    Value,
    Weight,
    flat,
)
from fp2.results import ComparedRow, RunResults
from fp2.text import plural

Picture = Callable[[str], str]
_NUMBERED = re.compile(r"P[0-9]+ ")
MOST_SENTENCES = 2
"""Differences that are said in words; the chart beside the radars has all of them."""
EXPLANATION = (
    "An axis of a radar, and a row of the chart of intervals, is a probe: how far the point lies out is the disparity, "
    "the largest group mean minus the smallest. Grey reaches to the 95th percentile of the null distribution; filled "
    "points are significant after correction. An interval of a significant row is corrected for its selection. The "
    "table counts the significant rows of each cut and score."
)


def summary(
    results: RunResults,
    sample: Sequence[SampledAnswer],
    elsewhere: Sequence[Sentence] = (),
    picture: Picture | None = None,
) -> Iterator[Value]:
    """Yield the first screen of a run that compared groups; nothing of any other.

    Parameters
    ----------
    results : mapping
        The content of `results.json`.
    sample : sequence of dicts
        Answers to read (`fp2.report.samples`), of which two are quoted.
    elsewhere : sequence of Sentence
        What differs in other parts of the results.
    picture : callable, optional
        From an image's salted key to a `data:` URI, empty where the image may not be shown.
    """
    rows = _largest_first(results)
    if not rows:
        return
    significant = [row for row in rows if row["significant"]]
    for row in significant[:MOST_SENTENCES]:
        yield _in_words(row, results)
    if (more := len(significant) - MOST_SENTENCES) > 0:
        count = f"{more} more difference{'s are' if more > 1 else ' is'}"
        said = f"{count} significant in {_primary(results)}."
        yield Sentence(said, Weight.LEAD)
    yield from _nothing_found(rows, results)
    yield from elsewhere
    cuts = [cut for cut in results["cuts"] if len(rows_of(results, cut)) >= FEWEST_SPOKES]
    charts = [_small(chart, cut, results) for cut, chart in zip(cuts, radars([results], cuts), strict=True)]
    tested = [row for row in rows if row["status"] == "ok"]
    shown: list[Value] = [Part("", charts, beside=True)] if tested and charts else []
    if significant:
        lead = "A name leads to answers about its two groups, side by side." if sample else ""
        shown.append(differing(significant, results, lead))
    elif tested and not shown:  # too few probes for radars
        shown.append(differing(tested, results))
    yield from shown if len(shown) < 2 else [Part("", shown, beside=True)]
    yield from _missed(rows)
    yield Part(HOW_TO_READ, [Sentence(EXPLANATION, Weight.DETAIL)], folded=True)
    if significant:
        yield from _quotes(significant[0], results, sample, picture)
    if len(scorer_names(results)) > 1:
        yield _counts(results)


def description(results: RunResults, sections: Sequence[Section] = ()) -> str:
    """Return a run in three sentences: model and data, the largest difference, and how many there are.

    A run without disparities has the first two leading sentences of its sections.
    """
    size = f"{plural(results['n_subjects'], 'subject')}, {plural(results['n_images'], 'image')}"
    about = f"{model_name(results)} on " if model_was_used(results) else ""
    sentences = [f"{about}{plain(results['dataset']['name'])}: {size}."]
    rows = _largest_first(results)
    tested = [row for row in rows if row["status"] == "ok"]
    if significant := [row for row in tested if row["significant"]]:
        sentences.append("".join(_in_words(significant[0], results).parts))
        counted = f"{len(significant)} of {len(tested)} comparisons of {_primary(results)} differ"
        sentences.append(f"{counted}{'s' * (len(significant) == 1)} significantly.")
    elif rows:
        sentences += ["".join(item.parts) for item in (*_nothing_found(rows, results), *_missed(rows))]
    else:
        values = (value for item in present(sections, results) for value in item.values(results[item.name], results))
        leads = (value for value in flat(values) if isinstance(value, Sentence) and value.weight is Weight.LEAD)
        sentences += ["".join(value.parts) for value in islice(leads, 2)]
    return " ".join(sentences)


def _small(chart: Chart, cut: str, results: RunResults) -> Chart:
    """Return the radar of a cut for a small figure, which is shown whatever cut is chosen; probes by their numbers."""
    series = [
        replace(one, points=[replace(p, label=p.label.partition(" ")[0]) for p in one.points])
        for one in chart.series
        if all(_NUMBERED.match(p.label) for p in one.points)
    ]
    title = f"{sentence(_primary(results))} disparity by {cut_label(cut)}"
    return replace(chart, cut="", panel="", title=title, series=series or chart.series, in_files=False)


def _largest_first(results: RunResults) -> list[ComparedRow]:
    """Return the rows of the primary scorer in all cuts, the largest disparities first."""
    scorer = primary_scorer(results)
    rows = [row for row in results["disparities"] if row["scorer"] == scorer]
    return sorted(rows, key=lambda row: -(row["raw"] or 0.0))


def _primary(results: RunResults) -> str:
    return scorer_label(primary_scorer(results))


def _in_words(row: ComparedRow, results: RunResults) -> Sentence:
    """Return a significant difference as a sentence."""
    low, high = shown_interval(row)
    raw, pair_gap = row["raw"] or 0.0, row.get("pair_gap")
    gap = raw if pair_gap is None else pair_gap
    has_interval = low is not None and high is not None and abs(gap - raw) < 1e-9  # it is of the extreme means
    interval = f" ({number(low)} to {number(high)})" if has_interval else ""
    higher = next(
        (scorer.get("higher_is_better", True) for scorer in results["scorers"] if scorer["name"] == row["scorer"]), True
    )
    asked_model = bool(results["answers"]["planned"])
    end = f"{'lower' if higher else 'higher'} in {scorer_label(row['scorer'])} than "
    segments: list[str] = [
        "Answers about the group " if asked_model else "The group ",
        Strong(plain(row["worst_group"])),
        f" ({cut_label(row['cut'])}) {'score' if asked_model else 'scores'} {end}",
        "answers about " if asked_model else "",
        Strong(plain(row["best_group"])),
        " on ",
        answers_link(probe_labels(results).get(row["probe"], row["probe"]), row),
        f", by {number(gap)}{interval}.",
    ]
    return Sentence(segments, Weight.LEAD)


def _nothing_found(rows: Sequence[ComparedRow], results: RunResults) -> Iterator[Sentence]:
    tested = [row for row in rows if row["status"] == "ok"]
    if tested and not any(row["significant"] for row in tested):
        counted = f"in {len(tested)} comparison{'s' * (len(tested) > 1)} of {_primary(results)}."
        yield Sentence([Strong("No difference between groups was found"), f" {counted}"], Weight.LEAD)
    if not tested:
        yield Sentence([Strong("Nothing could be tested"), f": {untested_words(rows)}."], Weight.LEAD)


def _missed(rows: Sequence[ComparedRow]) -> Iterator[Sentence]:
    """Yield what could have been missed, and how much could not be tested."""
    tested = [row for row in rows if row["status"] == "ok"]
    segments = []
    if effects := detectable_words(tested):
        elsewhere = " elsewhere" if any(row["significant"] for row in tested) else ""
        segments.append(f"Differences below {effects} could have been missed{elsewhere} (80 % power).")
    if untested := len(rows) - len(tested):
        segments.append(f"{untested} of {len(rows)} comparisons could not be tested.")
    if segments:
        yield Sentence(" ".join(segments))


def _quotes(
    row: ComparedRow, results: RunResults, sample: Sequence[SampledAnswer], picture: Picture | None
) -> Iterator[Table]:
    """Yield two answers to the probe of a row: those with the median value of the sampled ones of its two groups.

    Beside each is its image, or a blank where it may not be shown.
    """
    sizes = {group["group"]: group["n_subjects"] for group in row["groups"]}
    sentences = []
    for end in (group for group in (row["worst_group"], row["best_group"]) if group is not None):
        of_group = [answer for answer in sample if answer["groups"].get(row["cut"]) == end and not answer["refused"]]
        answers = [answer for answer in of_group if answer["probe"] == row["probe"] and answer["value"] is not None]
        if answers:
            typical = sorted(answers, key=itemgetter("value"))[(len(answers) - 1) // 2]
            image = picture(key) if picture and (key := typical.get("image")) else ""
            quote = f"“{shorten(typical['text'])}”"
            sentences.append(Row([Cell(plain(end), picture=image), quote, typical["value"]], sizes[end]))
    if len(sentences) == 2 and sentences[0].cells[1:] != sentences[1].cells[1:]:
        columns = (
            Column(sentence(cut_label(row["cut"]))),
            Column("A typical answer", Kind.NAME),
            Column(sentence(scorer_label(row["scorer"])), Kind.NUMBER, digits=2),
        )
        question = next((probe.get("text") for probe in results["probes"] if probe["id"] == row["probe"]), None)
        is_asked = question and "{" not in question  # not the form of the questions of many items
        yield Table("quotes", columns, sentences, [Name(question if is_asked else probe_labels(results)[row["probe"]])])


def _counts(results: RunResults) -> Table:
    """Return how many rows of each cut and scorer differ significantly, of those that could be tested."""
    scorers = scorer_names(results)
    columns = (Column("Significant of tested"), *(Column(sentence(scorer_label(name)), Kind.TEXT) for name in scorers))
    rows = []
    for cut in results["cuts"]:
        cells: list[Cell | Scalar] = [f"by {cut_label(cut)}"]
        for scorer in scorers:
            tested = [row for row in rows_of(results, cut, scorer).values() if row["status"] == "ok"]
            significant = [row for row in tested if row["significant"]]
            cell = significant_of(len(significant), len(tested))
            if significant:
                largest = max(significant, key=lambda row: row["raw"] or 0.0)
                cell = replace(cell, value=answers_link(str(cell.value), largest))
            cells.append(cell)
        rows.append(Row(cells))
    return Table("counts", columns, rows)
