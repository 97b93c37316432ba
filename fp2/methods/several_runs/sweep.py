"""A sweep's own results: its runs read together, side by side, ranked, and counted over runs and probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from fp2.extension import (
    Fp2Error,
    LoggedRun,
    Missing,
    Section,
    __version__,
    calibration_of,
    heading,
    model_name,
    model_was_used,
    primary_scorer,
    rank,
    scorer_identity,
    scorer_label,
    scorer_version,
    summarise,
    suppress_small_cells,
    tables_of,
    variant_name,
)
from fp2.methods.several_runs.across import across_runs
from fp2.methods.several_runs.panels import (
    Panel,
    all_probe_labels,
    effects_of,
    headlines_of,
    panels_of,
    run_labels,
    scorers_of,
)
from fp2.methods.several_runs.ranked import Ranking, with_places
from fp2.methods.several_runs.ranking import n_rankings, rankings
from fp2.methods.several_runs.shared import same_probes, shared_lines

SCHEMA = 1
N_PERMUTATIONS = 1000
_CHANCE = ("expected", "p95", "p_value")


@dataclass(frozen=True)
class SweepRun:
    """A finished run: its results, its tables or the reason why it has none that can be compared, and its sections.

    `repeat` is how it is repeated (`fp2.report.reproduce.how_to_repeat`).
    """

    results: Mapping[str, Any]
    tables: LoggedRun | None
    reason: str | None = None
    sections: Sequence[Section] = ()
    repeat: Mapping[str, Any] | None = None

    @property
    def settings(self) -> str:
        """The text of its `config.yaml`; empty where that is not known."""
        return str((self.repeat or {}).get("settings") or "")


def n_steps(runs: Sequence[SweepRun]) -> int:
    """Return how often `sweep_results` calls `tick`."""
    all_results = [run.results for run in runs]
    n_panels = sum(len(_variants(panel, all_results)) for panel in panels_of(all_results, 0))
    return n_rankings([run.tables for run in runs if run.tables is not None]) + n_panels


def sweep_results(
    runs: Sequence[SweepRun],
    missing: Sequence[Missing],
    min_cell: int,
    tick: Callable[[], None] = lambda: None,
    sweep_id: str | None = None,
) -> dict[str, Any]:
    """Return the results of a sweep (JSON values, aggregates only).

    Parameters
    ----------
    runs : sequence of SweepRun
    missing : sequence of Missing
        Runs of the sweep that did not finish.
    min_cell : int
        Groups with fewer subjects are shown without their numbers.
    tick : callable
        Called after each of `n_steps(runs)`.
    sweep_id : str, optional

    Returns
    -------
    dict
        `runs`: who was compared, each with a `label`, its data, questions, scorers and answers by group, and how it is
        repeated; `missing`; `probes` (labels by id), `cuts`, `scorers`;
        `leaderboard`: a row for each run and cut; `panels`: see `panels.panels_of`, with `tallies` and
        `effects`; `headlines`: what other protocols found; `across`, `beside`: tables of the runs' report sections
        over the runs (`across.across_runs`) and side by side; `notes`.
    """
    if not runs:
        raise Fp2Error("no finished run", where="report")
    all_results = [run.results for run in runs]
    ranked = rankings([run.tables for run in runs if run.tables is not None], tick)
    panels = panels_of(all_results, min_cell)
    for panel in panels:
        panel["effects"] = [{key: effect[key] for key in ("run", "probe", "d")} for effect in effects_of(panel)]
        panel["tallies"] = [_tally(panel, index_of, runs, tick) for index_of in _variants(panel, all_results).values()]
    index_of = {str(run["run_id"]): index for index, run in enumerate(all_results)}
    labels = run_labels(all_results, [run.settings for run in runs])
    sections = [section for run in runs for section in run.sections]
    rows = with_places(rank(summary for run in all_results for summary in summarise(run)), ranked)
    return {
        "schema_version": SCHEMA,
        "fp2_version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sweep_id": sweep_id,
        "min_cell": min_cell,
        "runs": [{"label": label, **_about(run, min_cell)} for label, run in zip(labels, runs, strict=True)],
        "missing": [dict(effect) for effect in missing],
        "probes": all_probe_labels(all_results),
        "cuts": list(dict.fromkeys(panel["cut"] for panel in panels)),
        "scorers": scorers_of(all_results),
        "leaderboard": [{"run": index_of[row.run_id], **asdict(row)} for row in rows],
        "panels": panels,
        "headlines": headlines_of(all_results, sections),
        "across": across_runs(all_results, labels, sections, min_cell),
        "beside": tables_of(all_results, sections, min_cell),
        "notes": _notes(runs, labels, ranked),
    }


def _about(run: SweepRun, min_cell: int) -> dict[str, Any]:
    """Return what a reader has to know of one run."""
    results, model, answers = run.results, run.results["model"], run.results["answers"]
    architecture = results.get("architecture") or {}
    return {
        **{key: results[key] for key in ("run_id", "created", "fp2_version", "config_hash", "response_set")},
        "report": heading(run.sections, results),
        "model": model_name(results) if model_was_used(results) else None,
        **{key: model.get(key) for key in ("id", "engine", "revision", "weights_digest", "dtype", "quantisation")},
        "family": architecture.get("family"),
        "parameters": architecture.get("parameters"),
        "dataset": results["dataset"]["name"],
        "release": results["dataset"].get("release"),
        "dataset_digest": results["dataset_digest"],
        **{key: results["dataset"].get(key) for key in ("terms", "caution")},
        "scales": results["dataset"].get("scales") or {},
        "groups": results["dataset"].get("groups") or {},
        "without_value": results["dataset"].get("without_value") or {},
        "questions": [dict(probe) for probe in results["probes"]],
        "scorers": [dict(scorer) for scorer in results["scorers"]],
        "variant": variant_name(results),
        "cuts": list(results["cuts"]),
        "primary": primary_scorer(results),
        "severity_bounds": results.get("severity_bounds") or {},
        "analysis": {
            key: results["analysis"].get(key)
            for key in ("alpha", "correction", "family", "min_subjects", "n_permutations", "seed")
        },
        "n_subjects": results["n_subjects"],
        "n_images": results["n_images"],
        "answers": dict(answers),
        "refused": answers["refused"] / answers["answered"] if answers.get("answered") else None,
        "complete": bool(results["complete"]),
        **calibration_of(results),
        "supplied": "supplied" in model,
        "answers_by_group": suppress_small_cells(results, min_cell)["answers_by_group"],
        "limitations": list(results["limitations"]),
        "repeat": {key: value for key, value in (run.repeat or {}).items() if key != "settings"} or None,
    }


def _variants(panel: Panel, runs: Sequence[Mapping[str, Any]]) -> dict[str | None, list[int]]:
    """Return the runs of a panel by image variant: a control is not counted with the runs on the images themselves."""
    runs_of: dict[str | None, list[int]] = {}
    for run_row in panel["lines"]:
        runs_of.setdefault(variant_name(runs[run_row["run"]]), []).append(run_row["run"])
    return runs_of


def _tally(panel: Panel, indices: Sequence[int], runs: Sequence[SweepRun], tick: Callable[[], None]) -> dict[str, Any]:
    """Return how often each group of a cut is worst and best over the runs and probes of a scorer, with chance.

    Where the tables cannot be compared, the counts are those of the rows, and `reason` says why chance is unknown.
    """
    about = {"variant": variant_name(runs[indices[0]].results), "runs": list(indices)}
    try:
        tally = _tally_of_tables(panel["cut"], panel["scorer"], [runs[index] for index in indices])
        n, ends = (tally.n, zip(tally.worst, tally.best, strict=True)) if tally else (0, ())
        groups = [{"group": worst.group, **_counts("worst", worst), **_counts("best", best)} for worst, best in ends]
        return {**about, "reason": None if n else "no probe could be compared", "n": n, "groups": groups}
    except Fp2Error as error:
        rows = [row for run_row in panel["lines"] if run_row["run"] in indices for row in run_row["rows"].values()]
        named = [row for row in rows if row["worst_group"] is not None]
        names = sorted({group["group"] for row in named for group in row["groups"] if group["eligible"]})
        unknown = {f"{end}_{key}": None for end in ("worst", "best") for key in _CHANCE}
        groups = [
            {
                "group": name,
                **unknown,
                **{f"{end}_count": sum(row[f"{end}_group"] == name for row in named) for end in ("worst", "best")},
            }
            for name in names
        ]
        return {**about, "reason": error.what, "n": len(named), "groups": groups}
    finally:
        tick()


def _counts(end: str, counted: Any) -> dict[str, Any]:
    return {f"{end}_{name}": getattr(counted, name) for name in ("count", *_CHANCE)}


def _tally_of_tables(cut: str, scorer: str, runs: Sequence[SweepRun]) -> Any:
    """Return the tally on the subjects that all runs share."""
    import numpy as np

    from fp2.extension import yes_no_columns
    from fp2.methods.several_runs.tallies import tally_extremes

    tables = [run.tables for run in runs if run.tables is not None]
    if len(tables) < len(runs):
        raise Fp2Error(next(run.reason for run in runs if run.reason is not None) or "a run has no tables")
    if any(cut not in run.cuts or run.cuts[cut] != tables[0].cuts.get(cut) for run in tables):
        raise Fp2Error("the runs keep different groups of the cut")
    probes = same_probes(tables, scorer)[0]
    if not probes:
        raise Fp2Error("the runs asked different probes")
    shared_rows = shared_lines(tables, tables[0].cuts[cut], scorer, probes)
    values = np.concatenate(list(shared_rows.values), axis=1)
    about = next(scorer_row for scorer_row in tables[0].results["scorers"] if scorer_row["name"] == scorer)
    analysis = [run.results["analysis"] for run in tables]
    return tally_extremes(
        values,
        shared_rows.groups,
        shared_rows.subjects,
        images=shared_rows.images,
        higher_is_better=[bool(about["higher_is_better"])] * values.shape[1],
        yes_no=yes_no_columns(values, list(about["value_range"]) == [0.0, 1.0]),
        n_permutations=N_PERMUTATIONS,
        seed=int(analysis[0]["seed"]),
        min_subjects=max(int(scorer_row["min_subjects"]) for scorer_row in analysis),
    )


def _notes(runs: Sequence[SweepRun], labels: Sequence[str], ranked: Sequence[Ranking]) -> list[str]:
    """Return what limits the comparison of the runs, for the reader."""
    notes = ["Verdicts are corrected within each run, not over the runs."] if len(runs) > 1 else []
    for label, values in (
        ("data sets", {run.results["dataset_digest"] for run in runs}),
        ("numbers of subjects", {run.results["n_subjects"] for run in runs}),
        ("significance levels", {run.results["analysis"].get("alpha") for run in runs}),
        ("corrections", {run.results["analysis"].get("correction") for run in runs}),
        ("smallest group sizes", {run.results["analysis"].get("min_subjects") for run in runs}),
        ("versions of fp2", {run.results["fp2_version"] for run in runs}),
    ):
        if len(values) > 1:
            notes.append(f"The runs have different {label}.")
    notes += _scorer_notes(runs, labels)
    texts: dict[str, set[str]] = {}
    for run in runs:
        for probe in run.results["probes"]:
            texts.setdefault(probe["id"], set()).add(str(probe.get("text")))
    if different := [probe for probe, texts_of_probe in texts.items() if len(texts_of_probe) > 1]:
        notes.append(f"The runs asked with different texts: {', '.join(different)}.")
    boards: dict[tuple[str, str | None], int] = {}
    for run in runs:
        for cut in run.results["composites"]:
            board = (cut, variant_name(run.results))
            boards[board] = boards.get(board, 0) + 1
    for ranking in ranked:
        where = f"by {ranking.cut}" + (f" ({ranking.variant})" if ranking.variant else "")
        if ranking.reason and boards.get((ranking.cut, ranking.variant), 0) > 1:
            notes.append(f"{where}: no rank intervals, {ranking.reason}")
        notes += ranking.notes
    return list(dict.fromkeys(notes))


def _scorer_notes(runs: Sequence[SweepRun], labels: Sequence[str]) -> Iterator[str]:
    """Yield the scorers that have one name and different versions or lexicons, with the runs of each."""
    versions_of: dict[str, dict[str, tuple[str, list[str]]]] = {}
    for run, label in zip(runs, labels, strict=True):
        for scorer in run.results["scorers"]:
            kinds = versions_of.setdefault(scorer["name"], {})
            kinds.setdefault(scorer_identity(scorer), (scorer_version(scorer), []))[1].append(label)
    for name, kinds in versions_of.items():
        if len(kinds) > 1:
            used = "; ".join(f"{version} ({', '.join(named)})" for version, named in kinds.values())
            yield f"{scorer_label(name)} was scored by different versions, whose numbers cannot be compared: {used}."
