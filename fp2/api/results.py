"""What the Python interface returns: runs, comparisons and disparities, with DataFrames, figures and HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fp2 import artifacts
from fp2.errors import Fp2Error, nearest
from fp2.plugins import COMPARISONS, installed, load
from fp2.report import reading

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from fp2.results import ComparedRow, RunResults
    from fp2.stats.rows import DisparityRow


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run: its results, tables and figures.

    Attributes
    ----------
    results : mapping
        The content of `results.json`.
    folder : Path
        Its files: tables (Parquet), `dashboard.html`, `passport.json`.
    message : str or None
        Why it ended early; None if it is complete.
    """

    results: Mapping[str, Any]
    folder: Path
    message: str | None = None
    _keep: Any = field(default=None, compare=False)
    """What holds a temporary folder while the run is in use."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return str(self.results["run_id"])

    @property
    def config_hash(self) -> str:
        """Digest of everything in the config that decides a result."""
        return str(self.results["config_hash"])

    @property
    def model(self) -> str:
        """The model's name."""
        return reading.model_name(self.results)

    @property
    def complete(self) -> bool:
        """Whether every planned answer was tried."""
        return bool(self.results["complete"])

    @property
    def cuts(self) -> list[str]:
        """Names of the cuts; the first one's composite is the run's."""
        return list(self.results["cuts"])

    @property
    def primary(self) -> str:
        """The primary scorer, of which composites are means."""
        return reading.primary_scorer(self.results)

    @property
    def composite(self) -> float | None:
        """Mean disparity of the primary scorer over the probes, for the first cut."""
        composite: float | None = self.results["composite"]
        return composite

    @property
    def severity(self) -> str | None:
        """Label of the composite's magnitude; None where the composite is not significant, and for a partial run."""
        severity: str | None = self.results["severity"]
        return severity

    @property
    def limitations(self) -> list[str]:
        """What a reader has to know of the results."""
        return list(self.results["limitations"])

    @cached_property
    def disparities(self) -> pd.DataFrame:
        """One row per probe, scorer and cut (the columns of `disparities.parquet` without the nested ones)."""
        import pandas as pd

        from fp2.results import flat_rows

        return pd.DataFrame(flat_rows(self.results))

    @cached_property
    def groups(self) -> pd.DataFrame:
        """One row per group of each disparity: sizes, mean and standard deviation, whether it is compared."""
        import pandas as pd

        keys = ("probe", "scorer", "cut")
        return pd.DataFrame(
            [{**{key: row[key] for key in keys}, **g} for row in self.results["disparities"] for g in row["groups"]]
        )

    @cached_property
    def composites(self) -> pd.DataFrame:
        """One row per cut: composite, null mean, excess, p-value, severity."""
        import pandas as pd

        composites = self.results["composites"]
        rows = [{"cut": cut, **{k: v for k, v in row.items() if k != "probes"}} for cut, row in composites.items()]
        return pd.DataFrame(rows)

    @cached_property
    def people(self) -> pd.DataFrame:
        """Who is in which image, with salted keys in place of ids."""
        return self._table(artifacts.PEOPLE)

    @cached_property
    def answers(self) -> pd.DataFrame:
        """One row per planned answer, with salted keys in place of ids."""
        is_dense = (self.folder / artifacts.SHARDS).is_dir()
        return self._table(artifacts.SHARDS if is_dense else artifacts.RESPONSES)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """One row per answer and scorer, with salted keys in place of ids."""
        return self._table(artifacts.SCORES)

    def _table(self, name: str) -> pd.DataFrame:
        import pandas as pd

        path = self.folder / name
        if not path.exists():
            raise Fp2Error(f"the run has no table {name}", where=self.run_id)
        return pd.read_parquet(path)

    def radar(self, cut: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the fingerprint of one cut: disparity by probe, with the null distribution.

        Parameters
        ----------
        cut : str, optional
            By default the first.
        ax : polar Axes, optional
            Where to; a new figure by default.

        Returns
        -------
        Axes
        """
        from fp2.report.disparity_charts import radars
        from fp2.report.drawing import draw_chart

        cut = self._cut(cut)
        return draw_chart(ax if ax is not None else _new_axes((5.2, 4.6), polar=True), radars([self.results], [cut])[0])

    def heatmap(self, cut: str | None = None, ax: Axes | None = None, min_cell: int = reading.MIN_CELL) -> Axes:
        """Draw the mean of the primary scorer by group and probe; groups below `min_cell` subjects are left out.

        Parameters and return value as of `radar`, on Cartesian axes.
        """
        from fp2.report.disparity_charts import heat
        from fp2.report.drawing import draw_chart
        from fp2.report.values import charts, suppressed

        (chart,) = charts(suppressed([heat(self.results, self._cut(cut))], min_cell))
        return draw_chart(ax if ax is not None else _new_axes((3 + 1.1 * len(self.results["probes"]), 4.0)), chart)

    def _cut(self, cut: str | None) -> str:
        if cut is None and self.cuts:
            return self.cuts[0]
        if cut not in self.cuts:
            raise Fp2Error(f"the run has no cut {cut!r}", where=self.run_id, fix=nearest(str(cut), self.cuts))
        return str(cut)

    def __repr__(self) -> str:
        """Return model, data set, composite by cut, and id."""
        facts = [f"{cut} {reading.number(row['value'])}" for cut, row in self.results["composites"].items()]
        state = "" if self.complete else ", partial"
        return f"<fp2 run {self.run_id[:8]} of {self.model}: {', '.join(facts) or 'no composite'}{state}>"

    def _repr_html_(self) -> str:
        """Return the radar of the first cut, and the table of verdicts of the primary scorer."""
        results = self.results
        facts = [
            f"<h3>{escape(self.model)} on {escape(reading.plain(results['dataset']['name']))}</h3>",
            f"<p>{results['n_subjects']:,} subjects, {results['n_images']:,} images; "
            f"{escape(reading.scorer_label(self.primary))}; run <code>{escape(self.run_id[:8])}</code></p>",
        ]
        if reading.were_supplied(results):
            facts.append(f"<p><strong>{escape(reading.SUPPLIED)}</strong></p>")
        if calibration := reading.calibration_words([reading.calibration_of(results)]):
            facts.append(f"<p><em>{escape(calibration)}</em></p>")
        if not self.complete:
            facts.append("<p><strong>Partial run: some planned answers are missing.</strong></p>")
        if any(reading.rows_of(results, cut) for cut in self.cuts):
            label = f"Radar of the disparities by {reading.cut_label(self.cuts[0])}"
            facts += [_picture(self.radar(), label), _verdicts(results)]
        return f"<div class='fp2-run'>{''.join(facts)}</div>"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs compared pair by pair on the subjects that both have.

    Attributes
    ----------
    blocks : sequence of mappings
        One per pair, as `fp2 compare --json` writes it.
    """

    blocks: Sequence[Mapping[str, Any]]

    @cached_property
    def distances(self) -> pd.DataFrame:
        """One row per pair, cut and scorer: distance of the fingerprints, interval, null mean, p-value."""
        return self._frame("distances", without=("by_probe",))

    @cached_property
    def by_probe(self) -> pd.DataFrame:
        """One row per pair, cut, scorer and probe."""
        import pandas as pd

        rows = [
            {**_pair(block), "cut": row["cut"], "scorer": row["scorer"], **probe}
            for block in self.blocks
            for row in block["distances"]
            for probe in row["by_probe"]
        ]
        return pd.DataFrame(rows)

    @cached_property
    def profiles(self) -> pd.DataFrame:
        """Centred group means of the primary scorer: one row per pair, cut, probe and group."""
        return self._frame("profiles")

    def profile(self, cut: str | None = None, probe: str | None = None, pair: int = 0, ax: Axes | None = None) -> Axes:
        """Draw the group means of two runs for one probe of the primary scorer, each less its mean over groups.

        Parameters
        ----------
        cut : str, optional
            By default the first with profiles.
        probe : str, optional
            By default the one with the largest distance.
        pair : int
            Of more than two runs, the place of the pair in `blocks`.
        ax : Axes, optional
            Where to; a new figure by default.

        Returns
        -------
        Axes

        Raises
        ------
        Fp2Error
            If there is no such pair, cut or probe, or no two groups have enough subjects.
        """
        from fp2.report.drawing import draw_chart

        if not 0 <= pair < len(self.blocks):
            fix = f"From 0 to {len(self.blocks) - 1}"
            raise Fp2Error(f"there is no pair {pair}", where="Comparison.profile", fix=fix)
        block = self.blocks[pair]
        cut = _one_of(cut, dict.fromkeys(row["cut"] for row in block["profiles"]), "cut")
        entries = [
            entry
            for row in block["distances"]
            if row["cut"] == cut and row["scorer"] == block["primary"]
            for entry in row["by_probe"]
        ]
        drawn = {row["probe"] for row in block["profiles"] if row["cut"] == cut}
        shown_entries = sorted(
            (entry for entry in entries if entry["probe"] in drawn), key=lambda entry: -(entry["distance"] or 0.0)
        )
        probe = _one_of(probe, dict.fromkeys(entry["probe"] for entry in shown_entries), "probe")
        return draw_chart(
            ax if ax is not None else _new_axes((7.5, 3.6)), of_several_runs("profile")(block, cut, probe)
        )

    def heatmap(self, cut: str | None = None, ax: Axes | None = None) -> Axes:
        """Draw the distances of all pairs of runs by one cut, below the diagonal their null means.

        Parameters
        ----------
        cut : str, optional
            By default the first.
        ax : Axes, optional
            Where to; a new figure by default.

        Returns
        -------
        Axes

        Raises
        ------
        Fp2Error
            If the runs have no such cut in common.
        """
        from fp2.report.drawing import draw_chart

        cut = _one_of(cut, dict.fromkeys(row["cut"] for block in self.blocks for row in block["distances"]), "cut")
        return draw_chart(
            ax if ax is not None else _new_axes((4.6, 3.6)), of_several_runs("distances")(self.blocks, [cut])[0]
        )

    @property
    def notes(self) -> list[str]:
        """What was excluded, and why."""
        return list(dict.fromkeys(note for block in self.blocks for note in block["notes"]))

    def _frame(self, key: str, without: Sequence[str] = ()) -> pd.DataFrame:
        import pandas as pd

        rows = [{**_pair(block), **row} for block in self.blocks for row in block[key]]
        return pd.DataFrame(rows).drop(columns=list(without), errors="ignore")

    def __repr__(self) -> str:
        """Return who was compared."""
        pairs = "; ".join(f"{block['first']['name']} and {block['second']['name']}" for block in self.blocks)
        return f"<fp2 comparison: {pairs}>"

    def _repr_html_(self) -> str:
        """Return the distances of the primary scorer, with the profiles of two runs or a heat map of several."""
        distance_rows = self.distances
        primary = {block["primary"] for block in self.blocks}
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        if calibration := reading.calibration_words(block[run] for block in self.blocks for run in ("first", "second")):
            notes += f"<p><em>{escape(calibration)}</em></p>"
        picture = ""
        if len(self.blocks) > 1:
            picture = _picture(self.heatmap(), "Distances of the pairs of runs")
        elif self.blocks[0]["profiles"]:
            picture = _picture(self.profile(), "Group means of the two runs in the probe with the largest distance")
        return picture + _html(distance_rows[distance_rows["scorer"].isin(list(primary))]) + notes


@dataclass(frozen=True, repr=False)
class Disparity:
    """One outcome compared between groups.

    Attributes
    ----------
    row : DisparityRow
        Every number (`fp2.stats.rows.DisparityRow`).
    n_without_group : int
        Values whose group is missing; they are left out.
    """

    row: DisparityRow
    n_without_group: int = 0

    @property
    def value(self) -> float | None:
        """Largest group mean minus the smallest; above 0 by chance alone, so compare it with the null mean."""
        return self.row.raw

    @property
    def null_mean(self) -> float | None:
        """Mean of the value when group labels are permuted across subjects."""
        return self.row.null_mean

    @property
    def p_value(self) -> float | None:
        """Of the permutation test."""
        return self.row.p_value

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """Bootstrap interval of the value."""
        return self.row.ci_low, self.row.ci_high

    @property
    def verdict(self) -> str | None:
        """What the numbers support: see `docs/glossary.md`."""
        return self.row.verdict

    @cached_property
    def groups(self) -> pd.DataFrame:
        """One row per group: `group, n_subjects, n_images, mean, sd, eligible`."""
        from dataclasses import asdict

        import pandas as pd

        return pd.DataFrame([asdict(group) for group in self.row.groups])

    def plot(self, ax: Axes | None = None, min_cell: int = reading.MIN_CELL) -> Axes:
        """Draw the group means and, as the last row with an axis of its own, the interval of the disparity.

        Parameters
        ----------
        ax : Axes, optional
            Where to; a new figure by default.
        min_cell : int
            Groups of fewer subjects are left out.

        Returns
        -------
        Axes
        """
        from fp2.report.disparity_charts import means
        from fp2.report.drawing import draw_chart
        from fp2.report.values import charts, suppressed

        (chart,) = charts(suppressed([means(cast("ComparedRow", self.row.to_dict()))], min_cell))
        ax = draw_chart(ax if ax is not None else _new_axes((6.5, 2.2 + 0.3 * len(self.row.groups))), chart)
        if chart.references:
            import numpy as np

            start = float(chart.references[0].value)
            ax.set_xlabel("group mean")
            axis = ax.secondary_xaxis(
                "top", functions=(lambda x: np.asarray(x) - start, lambda x: np.asarray(x) + start)
            )
            axis.set_xlabel("disparity (last row); grey: by chance", fontsize=ax.xaxis.label.get_fontsize())
            axis.tick_params(labelsize=ax.xaxis.get_ticklabels()[0].get_fontsize())
        return ax

    def __repr__(self) -> str:
        low, high = (reading.number(end) for end in self.interval)
        return (
            f"disparity {reading.number(self.value)} ({low} to {high}), null mean {reading.number(self.null_mean)}, "
            f"p {reading.probability(self.p_value)}: {reading.verdict_words(self.verdict)}"
        )

    def _repr_html_(self) -> str:
        """Return the numbers, the group means drawn, and the table of groups."""
        picture = _picture(self.plot(), "Group means and the interval of the disparity")
        return f"<p>{escape(repr(self))}</p>{picture}{_html(self.groups)}"


def of_several_runs(name: str) -> Any:
    """Return the function `name` of the installed package that compares runs.

    Raises
    ------
    Fp2Error
        If there is none.
    """
    if name not in installed(COMPARISONS):
        fix = "Install a package with the entry points fp2.comparisons"
        raise Fp2Error("no installed package compares runs", where="fp2.compare", fix=fix)
    return load(COMPARISONS, name, "fp2.compare")


def _one_of(name: str | None, options: Mapping[str, object], kind: str) -> str:
    """Return `name`, or the first that is known."""
    if not options:
        raise Fp2Error("no two groups have enough subjects to draw", where="fp2.compare")
    if name is not None and name not in options:
        raise Fp2Error(f"the comparison has no {kind} {name!r}", where="fp2.compare", fix=nearest(name, list(options)))
    return name or next(iter(options))


def _html(frame: pd.DataFrame) -> str:
    """Return a table as HTML, its text escaped and its numbers with three decimals."""
    return _scrolled(str(frame.to_html(index=False, escape=True, float_format=lambda value: f"{value:.3f}")))


def _scrolled(table: str) -> str:
    """Return a table that is scrolled where it is wider than the page, with the keyboard too."""
    return f"<div style='overflow-x: auto' tabindex='0' role='region' aria-label='Table'>{table}</div>"


def _pair(block: Mapping[str, Any]) -> dict[str, str]:
    return {"first_run": block["first"]["name"], "second_run": block["second"]["name"]}


def _new_axes(size: tuple[float, float], *, polar: bool = False) -> Axes:
    """Return the axes of a new figure, which no global list of figures holds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from fp2.report.drawing import style

    with style():
        drawn = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(drawn)
        return drawn.add_subplot(projection="polar" if polar else None)


def _picture(axes: Axes, label: str) -> str:
    """Return the figure of the axes as an inline PNG."""
    import base64
    import io

    drawn = axes.get_figure(root=True)
    assert drawn is not None
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=110)
    data = base64.b64encode(buffer.getvalue()).decode()
    wide = round(96 * drawn.get_figwidth())
    return f"<img alt='{escape(label)}' width='{wide}' style='max-width: 100%' src='data:image/png;base64,{data}'>"


def _verdicts(results: RunResults) -> str:
    """Return the table of the primary scorer: a row per cut and probe."""
    labels = reading.probe_labels(results)
    names = ("cut", "probe", "disparity", "null mean", "adjusted p", "verdict", "worst group", "best group")
    html_rows = []
    for cut in results["cuts"]:
        for probe, row in reading.rows_of(results, cut).items():
            cells = (
                reading.cut_label(cut),
                labels[probe],
                reading.number(row["raw"]),
                reading.number(row["null_mean"]),
                reading.probability(row["adjusted_p"]),
                reading.verdict_words(row["verdict"]),
                *(reading.plain(group or reading.DASH) for group in reading.extreme_groups(row)),
            )
            html_rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in names)
    return _scrolled(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(html_rows)}</tbody></table>")
