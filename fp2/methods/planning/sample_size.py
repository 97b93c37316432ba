"""`fp2 plan --power`: how many subjects and images each group needs for a gap to be found."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fp2.extension import (
    DASH,
    FAINT,
    GRID,
    INK,
    LINES,
    Asks,
    Fp2Error,
    Job,
    PlannedFamily,
    artifacts,
    build_protocol,
    config_of,
    cut_label,
    figure,
    for_battery,
    jobs_of,
    load_config,
    number,
    plain,
    print_json,
    save,
    scorer_label,
    shorten,
    style,
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
    """Print the sample sizes as a table, and write the requested files.

    Raises
    ------
    Fp2Error
        If neither a pilot nor a spread is given, or a number is out of range, or the pilot cannot be read.
    """
    _check(wanted)
    if wanted.pilot is not None:
        designs, family = _from_pilot(wanted, overrides)
    else:
        designs, family = _stated(wanted, overrides)
    wanted = replace(wanted, gap=wanted.gap or family.smallest_effect)
    rows = [_row(design, wanted, family) for design in designs]
    block = {
        "scorer": family.scorer, "gap": wanted.gap, "power": wanted.power, "alpha": family.alpha,
        "family_size": family.size, "correction": family.correction, "level": family.level, "pilot": wanted.pilot,
        "images": list(wanted.images), "rows": rows,
    }  # fmt: skip
    if str(json_path) == "-":
        print_json(block)
        json_path = None
    else:
        _print(block, Console())
    _write(block, designs, json_path, figure)


def expected_effects(
    job: Job, family: PlannedFamily, people: pd.DataFrame, sd: float | None = None, icc: float | None = None
) -> tuple[str, str | None]:
    """Return the expected minimum detectable effect of each cut, and a warning if one is above the effect of interest.

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

    low, high = job.scorers[family.scorer].value_range
    spread = Spread(sd or USUAL_SD * (high - low), USUAL_ICC if icc is None else icc)
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
        return text, None
    missed = f"The smallest effect of interest is {least:g}: differences from there up to {number(max(gaps), 2)}"
    return text, f"{missed} may be missed. Sample sizes: fp2 plan --power; fewer cuts, probes or scorers help too"


def _check(wanted: PowerQuestion) -> None:
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


def _stated(wanted: PowerQuestion, overrides: Sequence[str]) -> tuple[list[_PlannedOutcome], PlannedFamily]:
    """Return the designs of the cuts of a config with the stated spread."""
    from fp2.extension import build_scorers, load_battery, resolve_cuts
    from fp2.methods.planning.power import Spread

    if wanted.groups is None:
        raise Fp2Error("the number of groups is unknown", where="--groups", fix="Give --groups N, or --pilot RUN")
    config, _ = config_of(jobs_of(overrides)[0])
    protocol, cuts, family = build_protocol(config), resolve_cuts(asdict(config.cut)), None
    if isinstance(protocol, Asks) and config.scorer:
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
    from fp2.extension import read_run

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
        alpha, max(sizes), str(analysis["correction"]),
        float(analysis["smallest_effects"][scorer]), scorer, int(analysis["min_subjects"]),
    )  # fmt: skip
    designs = [design for cut in run.cuts for design in _pilot_designs(run, cut, family, wanted.groups)]
    if not designs:
        raise Fp2Error("no cut of the pilot has two groups that were compared", where=wanted.pilot, fix="Give --groups")
    return designs, family


def _pilot_designs(run: Any, cut: str, family: PlannedFamily, groups: int | None) -> list[_PlannedOutcome]:
    from fp2.extension import entries_of, members
    from fp2.methods.planning.power import spread_of

    wide = run.wide(family.scorer)
    entries = entries_of(wide, members(run.people, run.cuts[cut]))
    rows = {
        row["probe"]: sum(group["eligible"] for group in row["groups"])
        for row in run.results["disparities"]
        if row["scorer"] == family.scorer and row["cut"] == cut
    }
    return [
        _PlannedOutcome(cut, str(probe), n, spread_of(entries.values[:, j], entries.groups, entries.subjects))
        for j, probe in enumerate(wide.columns)
        if (n := groups or rows.get(str(probe), 0)) >= 2
    ]


def _row(design: _PlannedOutcome, wanted: PowerQuestion, family: PlannedFamily) -> dict[str, Any]:
    """Return the sample sizes of one design, for every number of images per subject."""
    from fp2.methods.planning.power import subjects_needed

    spread, needs = design.spread, []
    assert wanted.gap is not None
    if spread is not None:
        for images in wanted.images:
            n, most = (
                subjects_needed(
                    wanted.gap, one, groups=design.groups, images=images, level=family.level, power=wanted.power,
                    least=family.least,
                )
                for one in (spread, spread.cautious())
            )  # fmt: skip
            needs.append({"images": images, "subjects": n, "subjects_cautious": most})
    known = {} if spread is None else {"sd": spread.sd, "icc": spread.icc}
    return {"cut": design.cut, "probe": design.probe, "groups": design.groups, "sd": None, "icc": None, **known,
            "needs": needs}  # fmt: skip


def _print(block: Mapping[str, Any], console: Console) -> None:
    power, gap = f"{block['power']:.0%}".replace("%", " %"), block["gap"]
    title = f"sample size for {power} power at a gap of {gap:g} ({scorer_label(block['scorer'])})"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("outcome", overflow="fold", min_width=16)
    for name in ("groups", "SD", "ICC", *(f"{k} image{'s' if k > 1 else ''}" for k in block["images"])):
        table.add_column(name, justify="right")
    for row in block["rows"]:
        cells = [_cell(need, block["pilot"] is not None) for need in row["needs"]]
        table.add_row(
            Text(f"{plain(row['probe'] or 'any')} by {cut_label(row['cut'])}"), str(row["groups"]), number(row["sd"]),
            number(row["icc"], 2), *(cells or [DASH] * len(block["images"])),
        )  # fmt: skip
    console.print(table)
    level = CORRECTED.format(
        level=block["level"], alpha=block["alpha"], family=block["family_size"], correction=block["correction"]
    )
    console.print(Text(READING.format(level=level), style="dim"))
    if block["pilot"] is not None:
        console.print(Text(PILOT_READING, style="dim"))


def _cell(need: Mapping[str, Any], bracket: bool) -> str:
    """Return `subjects / images`, with the cautious number of subjects in brackets."""
    if need["subjects"] is None:
        return "> 1,000,000"
    subjects, images = f"{need['subjects']:,}", f"{need['subjects'] * need['images']:,}"
    if not bracket:
        return f"{subjects} / {images}"
    most = need["subjects_cautious"]
    return f"{subjects} /\n{images}\n({'> 1,000,000' if most is None else f'{most:,}'})"  # three lines fit 80 columns


def _write(
    block: Mapping[str, Any], designs: Sequence[_PlannedOutcome], json_path: Path | None, figure: Path | None
) -> None:
    if json_path is not None:
        artifacts.write_text(json_path, json.dumps(block, indent=1, allow_nan=False) + "\n")
        print(f"{'json':<12} {json_path}")
    if figure is None:
        return
    if figure.suffix not in (".png", ".svg"):
        raise Fp2Error("unknown kind of figure", where=str(figure), fix="Name a .png or .svg file")
    hardest = max(range(len(designs)), key=lambda i: _most(block["rows"][i]))
    if designs[hardest].spread is None:
        raise Fp2Error("no outcome varies: there is no power to draw", where=str(figure))

    with artifacts.as_user_error(figure.parent):
        power_figure(_curves(designs[hardest], block), block, block["rows"][hardest], figure)
    print(f"{'figure':<12} {figure}")


def _most(row: Mapping[str, Any]) -> float:
    """Return the number of subjects that a row needs with the fewest images."""
    return max((need["subjects"] or float("inf") for need in row["needs"]), default=-1.0)


def _curves(design: _PlannedOutcome, block: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return power by subjects per group, a curve for every number of images."""
    import numpy as np

    from fp2.methods.planning.power import MOST_SUBJECTS, detection_power

    assert design.spread is not None
    needs = next(r["needs"] for r in block["rows"] if (r["cut"], r["probe"]) == (design.cut, design.probe))
    most = max(2 * (need["subjects"] or MOST_SUBJECTS) for need in needs)
    grid = sorted({int(n) for n in np.geomspace(5, max(most, 20), 60)})
    return [
        {
            "images": need["images"], "needed": need["subjects"], "subjects": grid,
            "power": [
                detection_power(
                    block["gap"], design.spread, groups=design.groups, subjects=n, images=need["images"],
                    level=block["level"],
                )
                for n in grid
            ],
        }
        for need in needs
    ]  # fmt: skip


def power_figure(
    curves: Sequence[Mapping[str, Any]], block: Mapping[str, Any], row: Mapping[str, Any], path: Path
) -> Path:
    """Draw a line per number of images each, the stated power, and the number of subjects that reaches it.

    Parameters
    ----------
    curves
        `images, needed, subjects, power` of each line.
    block, row
        The result of `fp2 plan --power`, and its row that is drawn.
    path
        A PNG or SVG file.
    """
    with style():
        drawn = figure(7.2, 4.2)
        axes = drawn.add_axes((0.1, 0.15, 0.86, 0.63))
        for index, curve in enumerate(curves):
            colour, k = LINES[index % len(LINES)], curve["images"]
            needed = "over a million" if curve["needed"] is None else f"{curve['needed']:,}"
            label = f"{k} image{'s' if k > 1 else ''} each: {needed} subjects"
            axes.plot(curve["subjects"], curve["power"], color=colour, linewidth=1.6, label=label)
            if curve["needed"] is not None:
                axes.plot(curve["needed"], block["power"], "o", color=colour, markersize=5)
        axes.axhline(block["power"], color=FAINT, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", ylim=(0, 1.02), xlabel="subjects in each group", ylabel="power")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.xaxis.set_minor_formatter(lambda value, _: "")
        axes.grid(color=GRID, linewidth=0.6)
        axes.legend(frameon=False, loc="lower right", fontsize=8.5)
        title = f"Power to find a gap of {block['gap']:g}"
        drawn.text(0.02, 0.93, title, fontsize=12.5, fontweight="bold", color=INK)
        what = [scorer_label(block["scorer"]), f"by {shorten(cut_label(row['cut']), 40)}"]
        what += [shorten(plain(row["probe"]), 30)] if row["probe"] else []
        icc = "" if row["icc"] is None else f", ICC {row['icc']:.2f}"
        line = f"{' · '.join(what)} · {row['groups']} groups · SD {row['sd']:.3f}{icc}"
        drawn.text(0.02, 0.88, line, fontsize=8.5, color=FAINT)
        level = f"level {block['level']:.2g}: {block['alpha']:g} over a family of {block['family_size']}"
        drawn.text(0.02, 0.83, f"{level}; the outcome that needs the most subjects", fontsize=8.5, color=FAINT)
        return save(drawn, path)
