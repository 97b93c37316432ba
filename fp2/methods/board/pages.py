"""The pages of a board: one of all comparable measurements, and one for each model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fp2.extension import (
    Axis,
    Chart,
    ChartKind,
    Code,
    Column,
    Estimate,
    Kind,
    Link,
    Name,
    PageSection,
    Part,
    Point,
    Row,
    Sentence,
    Series,
    Strong,
    Table,
    Value,
    Weight,
    cut_label,
    plural,
    rank_interval,
    reading,
    render_document,
    scorer_label,
    write_page,
)
from fp2.methods.board.pooling import PooledMeans, pool, rank
from fp2.methods.board.submissions import Board, Measurement, Question, Submission
from fp2.methods.several_runs.profiles import RankTable

INDEX = "index.html"
HOW = (
    Sentence(
        "Difference: root mean square over probes and pairs of groups of the difference of two group means, corrected "
        "for noise. Models are ordered by it, smallest first.",
        Weight.DETAIL,
    ),
    Sentence(
        "Ranks: simultaneous confidence sets. Models that share a letter cannot be told apart. Sites are pooled with "
        "random effects; a model measured at one site takes the variation between sites that others show.",
        Weight.DETAIL,
    ),
)


@dataclass(frozen=True)
class Standing:
    """The models of one question: pooled means and names by model, the measurements, and ranks of two or more."""

    question: Question
    measured: Mapping[str, Sequence[Measurement]]
    pooled: Mapping[str, PooledMeans]
    names: Mapping[str, str]
    ranks: RankTable | None
    alpha: float


def standings(board: Board, *, n_resamples: int, seed: int, alpha: float) -> Iterator[Standing]:
    """Yield what models of each question can be said to differ in; the questions with most models first."""
    names = distinct_names(board.submissions)
    by_model = {
        question: {
            model: [each for each in measured if each.submission.model == model]
            for model in dict.fromkeys(each.submission.model for each in measured)
        }
        for question, measured in board.questions.items()
    }
    for question, measured in sorted(by_model.items(), key=lambda item: (-len(item[1]), item[0])):
        pooled = pool({model: [each.means for each in sites] for model, sites in measured.items()})
        ranks = rank(pooled, n_resamples=n_resamples, seed=seed, alpha=alpha) if len(pooled) > 1 else None
        yield Standing(question, measured, pooled, names, ranks, alpha)


def distinct_names(submissions: Sequence[Submission]) -> dict[str, str]:
    """Return the name of each model, with the beginning of its identity where two have the same."""
    names = {each.model: each.model_name for each in submissions}
    several = [name for name in names.values() if list(names.values()).count(name) > 1]
    return {model: f"{name} ({model[:8]})" if name in several else name for model, name in names.items()}


def write_site(board: Board, ranked: Sequence[Standing], folder: Path) -> list[Path]:
    """Write `index.html` and a page for each model; return their paths.

    Raises
    ------
    Fp2Error
        If a page cannot be written.
    """
    refused = [Row([Code(path), reason]) for path, reason in board.refused]
    columns = (Column("Passport", Kind.CODE), Column("Reason"))
    index = [
        PageSection("questions", "What can be compared", [part for each in ranked for part in _question(each)]),
        PageSection("passports", "Passports", [_passports(board.submissions)], folded=True),
        PageSection("refused", "Refused", [Table("refused", columns, refused, empty="None.")]),
    ]
    parties = {party for each in board.submissions for party in each.parties}
    models = {each.model for each in board.submissions}
    read = (
        f"{plural(len(board.submissions), 'passport')} by {plural(len(parties), 'party', 'parties')} on "
        f"{plural(len(models), 'model')}; {len(board.refused)} refused."
    )
    summary = [*_lead(ranked), Sentence(read), *_control(board.submissions)]
    paths = [_write(folder / INDEX, "Board of passports", summary, index)]
    for model, name in distinct_names(board.submissions).items():
        own = [each for each in board.submissions if each.model == model]
        values = [value for each in ranked if model in each.pooled for value in _of_model(each, model)]
        sections = [
            PageSection("measured", "What was measured", values),
            PageSection("passports", "Passports", [_passports(own)]),
        ]
        header = [Sentence([Link("All models", INDEX)]), *_control(own)]
        paths.append(_write(folder / page_of(model), name, header, sections))
    return paths


def page_of(model: str) -> str:
    """Return the file name of a model's page."""
    return f"model-{model[:16]}.html"


def _write(path: Path, title: str, header: Sequence[Value], sections: Sequence[PageSection]) -> Path:
    return write_page(path, render_document(title, header, sections))


def _control(submissions: Sequence[Submission]) -> list[Value]:
    words = reading.calibration_words([reading.calibration_of(each.stated) for each in submissions])
    return [Sentence([Strong(words)], Weight.WARNING)] if words else []


def _lead(ranked: Sequence[Standing]) -> list[Value]:
    first = next((each for each in ranked if each.ranks is not None), None)
    if first is None or first.ranks is None:
        return [Sentence("No two models were measured by the same question.", Weight.LEAD)]
    smallest, rows = first.ranks.rows[0], first.ranks.rows
    where = f"by {cut_label(first.question.cut)} ({_subject(first.question)})"
    apart = [row for row in rows if not set(row.letters) & set(smallest.letters)]
    if not apart:
        return [Sentence(f"No two of {len(rows)} models can be told apart in their differences {where}.", Weight.LEAD)]
    return [
        Sentence(
            [
                f"Between groups {where}, answers differ significantly less with ",
                Name(first.names[smallest.name]),
                f" ({smallest.difference:.3f}) than with {len(apart)} of {plural(len(rows) - 1, 'other model')}; ",
                "most with ",
                Name(first.names[rows[-1].name]),
                f" ({rows[-1].difference:.3f}).",
            ],
            Weight.LEAD,
        )
    ]


def _subject(question: Question) -> str:
    variant = "" if question.variant in ("", "original") else f", {question.variant}"
    scorer, _, version = question.scorer.rpartition(" ")
    return f"{question.release}{variant}, {scorer_label(scorer)} {version}, {plural(question.n_probes, 'probe')}"


def _question(standing: Standing) -> list[Value]:
    """Return chart and table of one question."""
    question = standing.question
    title = f"By {cut_label(question.cut)}: {', '.join(question.groups)}"
    order = [row.name for row in standing.ranks.rows] if standing.ranks else list(standing.pooled)
    ranks = {row.name: row for row in standing.ranks.rows} if standing.ranks else {}
    level = reading.confidence_level(standing.alpha)
    estimates = {model: _estimate(standing, model) for model in order}
    points = [
        Point(estimates[m].value, Link(standing.names[m], page_of(m)), low=estimates[m].low, high=estimates[m].high)
        for m in order
    ]
    chart = Chart(
        ChartKind.INTERVALS,
        "differences",
        f"Differences between groups by {cut_label(question.cut)}",
        [Series(points)],
        Axis("difference of two groups (root mean square)", low=0.0),
        filled="",
    )
    columns = (
        Column("Model", Kind.NAME),
        Column(f"Difference ({level})", Kind.ESTIMATE),
        Column("Rank"),
        Column("Letters"),
        Column("Sites", Kind.COUNT),
        Column("Subjects", Kind.COUNT),
        Column("Between sites (SD)", Kind.NUMBER),
    )
    rows = []
    for model in order:
        of_model, place = standing.pooled[model], ranks.get(model)
        subjects = int(sum(each.means.n_subjects.sum() for each in standing.measured[model]))
        rows.append(
            Row(
                [
                    Link(standing.names[model], page_of(model)),
                    estimates[model],
                    rank_interval(place.rank_low, place.rank_high) if place else reading.DASH,
                    place.letters if place else reading.DASH,
                    of_model.n_sites,
                    subjects,
                    of_model.tau,
                ]
            )
        )
    return [Part(title, [Sentence(_subject(question)), chart, Table("ranks", columns, rows), *HOW])]


def _estimate(standing: Standing, model: str) -> Estimate:
    pooled = standing.pooled[model]
    low, high = pooled.interval(standing.alpha)
    return Estimate(max(pooled.square, 0.0) ** 0.5, low, high)


def _of_model(standing: Standing, model: str) -> list[Value]:
    """Return the pooled group means of one model, as a heat map, and its place."""
    question, pooled = standing.question, standing.pooled[model]
    deviation = pooled.means - pooled.means.mean(axis=0)
    probes = standing.measured[model][0].submission.stated["protocol"]["probes"]
    labels = {probe["id"]: reading.plain(probe.get("label", probe["id"])) for probe in probes}
    composite = standing.measured[model][0].submission.stated["composites"][question.cut]
    series = [
        Series(
            [Point(float(x), group) for group, x in zip(question.groups, of_probe, strict=True)],
            labels.get(probe, probe),
        )
        for probe, of_probe in zip(composite["probes"], deviation.T, strict=True)
    ]
    place = next((row for row in standing.ranks.rows if row.name == model), None) if standing.ranks else None
    estimate = _estimate(standing, model)
    where = f", rank {rank_interval(place.rank_low, place.rank_high)} of {len(standing.pooled)}" if place else ""
    return [
        Part(
            f"By {cut_label(question.cut)}",
            [
                Sentence(
                    f"Difference {estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f}){where}; "
                    f"{_subject(question)}; {plural(pooled.n_sites, 'site')}."
                ),
                Chart(
                    ChartKind.HEAT,
                    "means",
                    f"Group means less the mean of the groups, by {cut_label(question.cut)}",
                    series,
                    diverging=True,
                ),
            ],
        )
    ]


def _passports(submissions: Sequence[Submission]) -> Table:
    columns = (
        Column("Passport", Kind.CODE),
        Column("Model", Kind.NAME),
        Column("Signed by", Kind.NAME),
        Column("Marks"),
        Column("Issued"),
        Column("Subjects", Kind.COUNT),
        Column("Payload", Kind.CODE),
    )
    rows = [
        Row(
            [
                Code(each.path),
                each.model_name,
                ", ".join(each.parties),
                ", ".join(each.marks),
                reading.plain(each.issued)[:10],
                each.stated["dataset"].get("n_subjects"),
                each.payload[:16],
            ]
        )
        for each in submissions
    ]
    return Table("passports", columns, rows)
