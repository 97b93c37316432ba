"""`fp2 plan --power`: how many subjects and images each group needs for a gap to be found."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fp2.extension import (
    DASH,
    Asks,
    Axis,
    Chart,
    ChartKind,
    Column,
    Fp2Error,
    Job,
    Kind,
    PlannedFamily,
    Point,
    Reference,
    Row,
    Sentence,
    Series,
    Table,
    Value,
    artifacts,
    build_protocol,
    config_of,
    cut_label,
    for_battery,
    jobs_of,
    load_config,
    number,
    plain,
    plural,
    print_json,
    scorer_label,
    terminal,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.methods.planning.power import Spread

READING = (
    "Subjects / images that each group needs, by images of a subject. The two groups that differ have this size, "
    "and the means of all others are assumed to lie midway between theirs. SD: of one answer within its group; "
    "ICC: intraclass correlation of one subject's images (–: one image each, so that more images are not known to "
    "help). {level}"
)
PILOT_READING = (
    "In brackets: with the upper 80 % confidence limit of the pilot's variance; with so many subjects the power is at "
    "least the stated one in 80 % of pilots."
)
MANY = "> 1,000,000"
CORRECTED = "Level {level:.2g}: {alpha:g} over a family of {family} tests ({correction}, its first step)."


@dataclass(frozen=True)
class PowerQuestion:
    """What is asked for; None is taken from the pilot or the config.

    Attributes
    ----------
    pilot
        A run's id, or a folder with its files.
    icc, sd
        A stated spread, in place of a pilot.
    gap
        The gap to be found; the smallest effect of interest of the primary scorer if None.
    groups
        Number of groups of a cut.
    power
        The power to be reached.
    images
        Numbers of images per subject.
    """

    pilot: str | None = None
    icc: float | None = None
    sd: float | None = None
    gap: float | None = None
    groups: int | None = None
    power: float = 0.8
    images: tuple[int, ...] = (1, 3, 6)


@dataclass(frozen=True)
class _PlannedOutcome:
    """One outcome of one cut (`probe` None: any), and how it will be tested."""

    cut: str
    probe: str | None
    groups: int
    spread: Spread | None


def plan_power(
    wanted: PowerQuestion, overrides: Sequence[str], json_path: Path | None = None, figure: Path | None = None
) -> None:
    """Print the sample sizes as a table, and write the requested files."""
    stated = wanted.icc is not None or wanted.sd is not None
    if wanted.pilot is not None and stated:
        raise Fp2Error("the spread is given twice", where="fp2 plan --power", fix="Give --pilot, or --icc and --sd")
    if wanted.pilot is None and (wanted.icc is None or wanted.sd is None):
        fix = "Give --pilot RUN, or both --icc and --sd"
        raise Fp2Error("the spread of the answers is unknown", where="fp2 plan --power", fix=fix)
    ranges = {
        "--icc": wanted.icc is None or 0 <= wanted.icc <= 1,
        "--sd": wanted.sd is None or wanted.sd > 0,
        "--gap": wanted.gap is None or wanted.gap > 0,
        "--groups": wanted.groups is None or wanted.groups >= 2,
        "--target": 0.05 < wanted.power < 1,
        "--images": bool(wanted.images) and all(1 <= k <= 1_000 for k in wanted.images),
    }
    if bad := next((name for name, ok in ranges.items() if not ok), None):
        raise Fp2Error("out of range", where=bad, fix="See fp2 plan --help")
    if wanted.pilot is not None:
        designs, family = _from_pilot(wanted, overrides)
    else:
        designs, family = _stated(wanted, overrides)
    wanted = replace(wanted, gap=wanted.gap or family.smallest_effect)
    rows = [_row(design, wanted, family) for design in designs]
    block = {
        "scorer": family.scorer,
        "gap": wanted.gap,
        "power": wanted.power,
        "alpha": family.alpha,
        "family_size": family.size,
        "correction": family.correction,
        "level": family.level,
        "pilot": wanted.pilot,
        "images": list(wanted.images),
        "rows": rows,
    }
    if str(json_path) == "-":
        print_json(block)
        json_path = None
    else:
        for rendered in terminal(_values(block), 0):
            Console().print(rendered)
    if json_path is not None:
        artifacts.write_text(json_path, json.dumps(block, indent=1, allow_nan=False) + "\n")
        print(f"{'json':<12} {json_path}")
    if figure is not None:
        with artifacts.as_user_error(figure.parent):
            _write_figure(block, designs, figure)
        print(f"{'figure':<12} {figure}")


def expected_effects(
    job: Job, family: PlannedFamily, people: pd.DataFrame, sd: float | None = None, icc: float | None = None
) -> tuple[str, str | None, float | None]:
    """Return the expected minimum detectable effect of each cut, and a warning if one is above the effect of interest.

    The last is the largest of them, None without any.

    Parameters
    ----------
    job : Job
    family : PlannedFamily
        Of the run that is planned.
    people : DataFrame
        The people that it asks about.
    sd, icc : float, optional
        The spread of the answers; by default the usual one.
    """
    from fp2.extension import group_sizes
    from fp2.methods.planning.power import USUAL_ICC, USUAL_SD, Spread, detectable_gap

    spread = Spread(sd or USUAL_SD * family.width, USUAL_ICC if icc is None else icc)
    images = max(1, round(people["image_id"].nunique() / people["subject_id"].nunique()))
    gaps, parts = [], []
    for cut, groups in group_sizes(people, job.cuts).items():
        sizes = [group["n_subjects"] for group in groups.values() if group["n_subjects"] >= family.least]
        if len(sizes) < 2:
            parts.append(f"none by {cut_label(cut)} (groups below {family.least} subjects)")
            continue
        mean = len(sizes) / sum(1 / n for n in sizes)
        gaps.append(detectable_gap(spread, groups=len(sizes), subjects=mean, images=images, level=family.level))
        parts.append(f"{number(gaps[-1], 2)} by {cut_label(cut)}")
    basis = f"{scorer_label(family.scorer)}, 80 % power; SD {spread.sd:g}, ICC {spread.icc:g}"
    assumed = " and ".join(name for name, value in (("SD", sd), ("ICC", icc)) if value is None)
    text = f"{', '.join(parts)} ({basis}{f'; {assumed} assumed' if assumed else ''})"
    least = family.smallest_effect
    if not gaps or max(gaps) <= least:
        return text, None, max(gaps, default=None)
    missed = f"The smallest effect of interest is {least:g}: differences from there up to {number(max(gaps), 2)}"
    return (
        text,
        f"{missed} may be missed. Sample sizes: fp2 plan --power; fewer cuts, probes or scorers help too",
        max(gaps),
    )


def _stated(wanted: PowerQuestion, overrides: Sequence[str]) -> tuple[list[_PlannedOutcome], PlannedFamily]:
    """Return the designs of the cuts of a config with the stated spread."""
    from fp2.extension import build_scorers, load_battery, resolve_cuts
    from fp2.methods.planning.power import Spread

    if wanted.groups is None:
        raise Fp2Error("the number of groups is unknown", where="--groups", fix="Give --groups N, or --pilot RUN")
    config, _ = config_of(jobs_of(overrides)[0])
    protocol, cuts, family = build_protocol(config), resolve_cuts(asdict(config.cut)), None
    if isinstance(protocol, Asks):
        battery, scorers = load_battery(asdict(config.probe), config.model.id), build_scorers(config.scorer)
        protocol = for_battery(protocol, battery)
        family = protocol.planned_family(Job(config, cuts, battery, scorers))
    if family is None:
        raise Fp2Error("there are no scores to compare", where="fp2 plan --power", fix="Use a battery and a scorer")
    assert wanted.sd is not None
    spread = Spread(wanted.sd, wanted.icc)
    return [_PlannedOutcome(cut.name, None, wanted.groups, spread) for cut in cuts], family


def _from_pilot(wanted: PowerQuestion, overrides: Sequence[str]) -> tuple[list[_PlannedOutcome], PlannedFamily]:
    """Return the designs of the pilot's outcomes, with their spread within groups, and the pilot's own correction."""
    from fp2.extension import entries_of, members, read_run
    from fp2.methods.planning.power import spread_of

    assert wanted.pilot is not None
    with tempfile.TemporaryDirectory(prefix="fp2-power-") as scratch:
        run = read_run(wanted.pilot, load_config(overrides), Path(scratch))
    analysis, scorer = run.results["analysis"], run.primary
    alpha = float(analysis["alpha"])
    # tests at the row's level; a run of version 0.3.0 has none, and divides alpha evenly over its family
    sizes = [
        round(alpha / row["family_level"]) if row.get("family_level") else row["family_size"]
        for row in run.results["disparities"]
        if row["scorer"] == scorer
    ]
    if not sizes:
        raise Fp2Error(f"the pilot has no disparity of its primary scorer {scorer!r}", where=wanted.pilot)
    family = PlannedFamily(
        alpha,
        max(sizes),
        str(analysis["correction"]),
        float(analysis["smallest_effects"][scorer]),
        scorer,
        int(analysis["min_subjects"]),
    )
    wide, designs = run.wide(scorer), []
    for name, cut in run.cuts.items():
        entries = entries_of(wide, members(run.people, cut))
        eligible = {
            row["probe"]: sum(group["eligible"] for group in row["groups"])
            for row in run.results["disparities"]
            if row["scorer"] == scorer and row["cut"] == name
        }
        designs += [
            _PlannedOutcome(name, str(probe), n, spread_of(entries.values[:, j], entries.groups, entries.subjects))
            for j, probe in enumerate(wide.columns)
            if (n := wanted.groups or eligible.get(str(probe), 0)) >= 2
        ]
    if not designs:
        raise Fp2Error("no cut of the pilot has two groups that were compared", where=wanted.pilot, fix="Give --groups")
    return designs, family


def _row(design: _PlannedOutcome, wanted: PowerQuestion, family: PlannedFamily) -> dict[str, Any]:
    """Return the sample sizes of one design, for every number of images per subject."""
    from fp2.methods.planning.power import subjects_needed

    spread, needs = design.spread, []
    assert wanted.gap is not None
    if spread is not None:
        for images in wanted.images:
            n, most = (
                subjects_needed(
                    wanted.gap,
                    one,
                    groups=design.groups,
                    images=images,
                    level=family.level,
                    power=wanted.power,
                    least=family.least,
                )
                for one in (spread, spread.cautious())
            )
            needs.append({"images": images, "subjects": n, "subjects_cautious": most})
    known = {} if spread is None else {"sd": spread.sd, "icc": spread.icc}
    return {
        "cut": design.cut,
        "probe": design.probe,
        "groups": design.groups,
        "sd": None,
        "icc": None,
        **known,
        "needs": needs,
    }


def _values(block: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the table of the sample sizes, and how to read it."""
    power = f"{block['power']:.0%}".replace("%", " %")
    columns = [
        Column("outcome", Kind.NAME),
        Column("groups", Kind.COUNT),
        Column("SD", Kind.NUMBER),
        Column("ICC", Kind.NUMBER, 2),
        *(Column(plural(k, "image")) for k in block["images"]),
    ]
    rows = []
    for row in block["rows"]:
        needs = [_needed(need, block["pilot"] is not None) for need in row["needs"]] or [DASH] * len(block["images"])
        name = f"{row['probe'] or 'any'} by {cut_label(row['cut'])}"
        rows.append(Row([name, row["groups"], row["sd"], row["icc"], *needs]))
    title = f"sample size for {power} power at a gap of {block['gap']:g} ({scorer_label(block['scorer'])})"
    yield Table("sample_sizes", columns, rows, title, primary=True)
    level = CORRECTED.format(
        level=block["level"], alpha=block["alpha"], family=block["family_size"], correction=block["correction"]
    )
    yield Sentence(READING.format(level=level))
    if block["pilot"] is not None:
        yield Sentence(PILOT_READING)


def _needed(need: Mapping[str, Any], cautious: bool) -> str:
    """Return `subjects / images`, with the cautious number of subjects in brackets."""
    if need["subjects"] is None:
        return MANY
    most = need["subjects_cautious"]
    bracket = f" ({MANY if most is None else f'{most:,}'})" if cautious else ""
    return f"{need['subjects']:,} / {need['subjects'] * need['images']:,}{bracket}"


def _write_figure(block: Mapping[str, Any], designs: Sequence[_PlannedOutcome], path: Path) -> None:
    """Draw power by subjects per group of the outcome that needs the most, a line for each number of images."""
    import numpy as np

    from fp2.extension import Heading, draw_panels
    from fp2.methods.planning.power import MOST_SUBJECTS, detection_power

    if path.suffix not in (".png", ".svg"):
        raise Fp2Error("unknown kind of figure", where=str(path), fix="Name a .png or .svg file")
    most = [max((need["subjects"] or math.inf for need in row["needs"]), default=-1.0) for row in block["rows"]]
    hardest = most.index(max(most))
    design, row = designs[hardest], block["rows"][hardest]
    if design.spread is None:
        raise Fp2Error("no outcome varies: there is no power to draw", where=str(path))
    largest = max(2 * (need["subjects"] or MOST_SUBJECTS) for need in row["needs"])
    series = []
    for need in row["needs"]:
        powers = {
            n: detection_power(
                block["gap"],
                design.spread,
                groups=design.groups,
                subjects=n,
                images=need["images"],
                level=block["level"],
            )
            for n in sorted({int(n) for n in np.geomspace(5, max(largest, 20), 60)})
        }
        needed = "over a million" if need["subjects"] is None else f"{need['subjects']:,}"
        points = [Point(power, x=n) for n, power in powers.items()]
        series.append(Series(points, f"{plural(need['images'], 'image')} each: {needed} subjects"))
    title = f"Power to find a gap of {block['gap']:g}"
    chart = Chart(
        ChartKind.LINES,
        "power",
        title,
        series,
        Axis("power", 0.0, 1.0),
        Axis("subjects in each group"),
        references=[Reference(block["power"], "power to be reached")],
    )
    names = [scorer_label(block["scorer"]), f"by {cut_label(row['cut'])}", plain(row["probe"] or "")]
    icc = "" if row["icc"] is None else f", ICC {row['icc']:.2f}"
    size = f"{row['groups']} groups · SD {row['sd']:.3f}{icc}"
    level = f"level {block['level']:.2g}: {block['alpha']:g} over a family of {block['family_size']}"
    lines = [" · ".join([*filter(None, names), size]), f"{level}; the outcome that needs the most subjects"]
    draw_panels([chart], path, Heading(title, lines))
