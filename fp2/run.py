"""The story of one evaluation: people -> questions -> answers -> scores -> disparities -> fingerprint -> report."""

from __future__ import annotations

import json
import traceback
import uuid
from collections.abc import Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fp2 import artifacts
from fp2.config import Config, config_hash
from fp2.errors import EXIT_ERROR_BUDGET, EXIT_INTERRUPTED, Fp2Error
from fp2.places import remember
from fp2.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from fp2.cuts import Cut
    from fp2.data.dataset import Dataset
    from fp2.engines.base import Engine
    from fp2.probes.battery import Battery
    from fp2.protocols.fingerprint import Comparison
    from fp2.respond import Asked, Plan
    from fp2.scorers.base import Scorer
    from fp2.store.responses import ResponseStore
    from fp2.tracking import Tracker


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before anything is asked."""

    config: Config
    dataset: Dataset
    battery: Battery
    cuts: tuple[Cut, ...]
    scorers: Mapping[str, Scorer]
    engine: Engine
    plan: Plan
    dataset_digest: str

    @property
    def people(self) -> pd.DataFrame:
        """The people that are asked about."""
        return self.dataset.people


@dataclass(frozen=True)
class Outcome:
    """A finished run: its results, its folder, where it was logged, and the exit status it deserves."""

    results: dict[str, Any]
    folder: Path
    run_id: str
    experiment_id: str | None
    exit_status: int
    message: str | None


def load_people(config: Config, progress: Progress) -> Dataset:
    """Load the data set, keep single-person pictures, and sample."""
    from dataclasses import replace

    from fp2.data.sampling import limit_people, single_person

    dataset = _load(config, progress)
    people, notes = single_person(dataset.people)
    if config.data.limit is not None or config.data.offset:
        people, more = limit_people(
            people, config.data.limit, seed=config.data.seed, by=config.data.stratify, offset=config.data.offset
        )
        notes = (*notes, *more)
    if people["set_id"].notna().any():
        raise Fp2Error(
            "counterfactual twins cannot be cut into groups of people: one of them has every skin tone",
            where=f"data={config.data.name}",
            fix="Use data=peeps",
        )
    if people.empty:
        raise Fp2Error("the data set has no single-person picture", where=f"data={config.data.name}")
    return replace(dataset, people=people, notes=(*dataset.notes, *notes))


def _load(config: Config, progress: Progress) -> Dataset:
    data = config.data
    if data.kind in ("peeps", "peeps_twins"):
        from fp2.data.peeps.load import load_peeps
        from fp2.data.peeps.spec import PeepsSpec

        spec = PeepsSpec(
            seed=data.seed,
            n_subjects=data.n_subjects,
            images_per_subject=data.images_per_subject,
            n_pairs=data.n_pairs,
            kind="people" if data.kind == "peeps" else "twins",
            n_sets=data.n_sets,
        )
        with progress.counter("Drawing the people (once)") as drawn:
            return load_peeps(Path(config.paths.data), spec, drawn)
    if data.kind == "fhibe":
        from fp2.data.fhibe.load import load_fhibe

        return load_fhibe(Path(str(data.root)).expanduser())
    from fp2.data.table import load_table

    if not isinstance(data.columns, Mapping) or "image" not in data.columns:
        raise Fp2Error(
            "data=table needs to know which column holds the pictures",
            where="data.columns",
            fix="Add data.columns={image: COLUMN, subject: COLUMN, ATTRIBUTE: COLUMN}",
        )
    root = Path(data.image_root).expanduser() if data.image_root else None
    return load_table(Path(str(data.path)).expanduser(), dict(data.columns), root)


def prepare(config: Config, store: ResponseStore, progress: Progress) -> Prepared:
    """Load people, battery, cuts and scorers, and plan the answers. No model is loaded.

    Raises
    ------
    Fp2Error
        For every mistake in the config or the data that can be seen without asking.
    """
    from fp2.cuts import resolve_cuts
    from fp2.data.identity import dataset_digest
    from fp2.data.pixels import PixelIndex
    from fp2.engines.build import build_engine
    from fp2.probes.battery import load_battery
    from fp2.respond import make_plan
    from fp2.scorers.registry import build_scorers
    from fp2.tables import attribute_columns

    battery = load_battery(asdict(config.probe))
    scorers = build_scorers(config.scorer)
    engine = build_engine(
        asdict(config.model), asdict(config.engine), battery.decoding, store, verify_files=config.verify_inputs
    )
    engine.identity()
    dataset = load_people(config, progress)
    cuts = resolve_cuts(asdict(config.cut), attribute_columns(dataset.people))
    paths = [Path(path) for path in dataset.people["image_path"]]
    with progress.count_up("Reading the pictures", len(set(paths))) as read:
        pixels = PixelIndex(store.connection).digest_many(paths, read, verify=config.verify_inputs)
    plan = make_plan(dataset.people, battery.questions, engine, battery.decoding, pixels)
    by_image = {i: pixels[Path(p)].sha256 for i, p in zip(dataset.people["image_id"], paths, strict=True)}
    digest = dataset_digest(dataset.people, by_image)
    return Prepared(config, dataset, battery, cuts, scorers, engine, plan, digest)


def run(config: Config, folder: Path, overrides: Sequence[str], progress: Progress) -> Outcome:
    """Run one evaluation and write everything it found into `folder`.

    Raises
    ------
    Fp2Error
        For the user's mistakes. Whatever was answered stays in the store.
    """
    from fp2.store.responses import ResponseStore

    with ResponseStore(Path(config.paths.store)) as store:
        prepared = prepare(config, store, progress)
        with artifacts.told_plainly(folder):
            folder.mkdir(parents=True, exist_ok=True)
            places = artifacts.write_config(folder, config, overrides)
        with _tracked(prepared, folder) as tracker:
            asked = _ask(prepared, store, progress)
            progress.note("Analysing" if asked.complete else "Analysing what there is (Ctrl-C stops at once)")
            results, answers, scores = _analyse(prepared, asked, tracker, progress)
            with artifacts.told_plainly(folder):
                remember(Path(config.paths.state), results["run_id"], places)
                _write(prepared, folder, results, answers, scores, progress)
            _log(prepared, tracker, folder, results)
    return _outcome(asked, results, folder, tracker)


def _ask(prepared: Prepared, store: ResponseStore, progress: Progress) -> Asked:
    from fp2.respond import ask

    with progress.answers(f"Asking {prepared.config.model.name}") as bar:
        return ask(
            prepared.plan,
            prepared.engine,
            store,
            attempts=prepared.config.answers.attempts,
            error_budget=prepared.config.answers.error_budget,
            start=bar.start,
            tick=bar.tick,
        )


def comparison_of(config: Config, n_probes: int, n_cuts: int) -> Comparison:
    """Return the comparison's settings; the number of permutations follows the size of the largest family."""
    from fp2.protocols.fingerprint import Comparison
    from fp2.stats import default_permutations

    analysis = config.analysis
    family = n_probes * n_cuts * (len(config.scorer) if analysis.family == "run" else 1)
    return Comparison(
        alpha=analysis.alpha,
        correction=analysis.correction,
        family=analysis.family,
        primary=analysis.primary,
        min_subjects=analysis.min_subjects,
        n_permutations=analysis.permutations or default_permutations(family, analysis.alpha),
        n_bootstrap=analysis.bootstrap,
        seed=config.seed,
    )


def _analyse(
    prepared: Prepared, asked: Asked, tracker: Tracker | None, progress: Progress
) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]:
    """Score the answers, compare the groups, and put the results together."""
    from fp2.protocols.fingerprint import fingerprint
    from fp2.respond import answers_table
    from fp2.scoring import score_answers

    config, cuts = prepared.config, prepared.cuts
    answers = answers_table(prepared.plan, asked)
    with progress.steps("Scoring and comparing groups", 1 + len(cuts)) as step:
        scores = score_answers(answers, prepared.scorers)
        step()
        comparison = comparison_of(config, len(prepared.battery.probes), len(cuts))
        found = fingerprint(scores, prepared.people, cuts, prepared.scorers, comparison, config.analysis.severity, step)
    return _results(prepared, asked, answers, scores, found, comparison, tracker), answers, scores


def _results(
    prepared: Prepared, asked: Asked, answers: pd.DataFrame, scores: pd.DataFrame, found: Any, comparison: Comparison,
    tracker: Tracker | None,
) -> dict[str, Any]:  # fmt: skip
    from fp2 import results as r
    from fp2.protocols.fingerprint import answers_by_group

    config, people = prepared.config, prepared.people
    model = r.model_block(config, prepared.engine.identity())
    probes = [probe.id for probe in prepared.battery.probes]
    flags = scores.drop_duplicates(["image_id", "question_id"])
    planned, answered = len(prepared.plan.planned), int((answers["status"] == "answered").sum())
    return {
        **r.base_block(config),
        "run_id": tracker.run_id if tracker else uuid.uuid4().hex,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": asked.complete,
        "config_hash": config_hash(config),
        "response_set": prepared.plan.response_set,
        "dataset_digest": prepared.dataset_digest,
        "model": model,
        "dataset": {
            "name": prepared.dataset.name,
            "release": prepared.dataset.release,
            "digest": prepared.dataset_digest,
            "groups": r.group_sizes(people, prepared.cuts),
        },
        "n_images": int(people["image_id"].nunique()),
        "n_subjects": int(people["subject_id"].nunique()),
        "answers": {
            "planned": planned,
            "answered": answered,
            "refused": int(flags["refused"].sum()),
            "failed": planned - answered,
            "cached": int((answers["cached"] & (answers["status"] == "answered")).sum()),
            "model_calls": asked.model_calls,
        },
        "answers_by_group": answers_by_group(answers, scores, people, prepared.cuts),
        "refusal_rates": [
            {"probe": probe, "n": len(part), "rate": float(part["refused"].mean())}
            for probe, part in flags.groupby("probe", sort=False)
        ],
        "coverage": found.coverage,
        "probes": r.probe_block(prepared.battery),
        "scorers": r.scorer_block(prepared.scorers),
        "cuts": [cut.name for cut in prepared.cuts],
        **r.headline(found, prepared.cuts),
        "analysis": r.analysis_block(config, comparison, prepared.scorers),
        "disparities": found.disparities,
        "diversity": r.diversity_block(answers, probes),
        "limitations": r.limitations(model, [*prepared.dataset.notes, *r.too_few_permutations(found, comparison)]),
    }


def _write(
    prepared: Prepared, folder: Path, results: dict[str, Any], answers: pd.DataFrame, scores: pd.DataFrame,
    progress: Progress,
) -> None:  # fmt: skip
    """Write tables, results, figures and dashboard, and sign them."""
    from fp2.data.identity import local_salt
    from fp2.report.dashboard import write_dashboard
    from fp2.report.keys import load_or_create_key
    from fp2.report.passport import write_passport

    config = prepared.config
    salt = local_salt(Path(config.paths.state))
    with progress.steps("Writing the report", 5 + len(results["cuts"])) as step:
        artifacts.write_tables(folder, prepared.people, answers, scores, results["disparities"], salt)
        artifacts.write_results(folder, results)
        step()
        if config.report.figures:
            artifacts.draw(folder, results, step)
        if config.report.dashboard:
            shown = artifacts.examples(answers, config.report.examples_per_probe)
            write_dashboard(
                results,
                shown,
                _leaderboard(config, results),
                folder / artifacts.DASHBOARD,
                config.report.suppress_below,
            )
        step()
        key, created = load_or_create_key(Path(config.paths.keys))
        extra = {
            "decoding": asdict(prepared.battery.decoding),
            "preprocessing": results["model"]["processor"],
            "seeds": {"analysis": config.seed, "data": config.data.seed},
        }
        write_passport(folder, results, artifacts.files_of(folder), extra, key)
        step()
    if created:
        progress.note(f"Made a signing key, readable by its owner only: {key.private_path}")


def _leaderboard(config: Config, results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the summaries of this run and of the finished ones in the store."""
    from fp2.report.leaderboard import summarise

    own = summarise(results)
    if not config.tracking.enabled:
        return own
    from fp2.tracking import summaries

    return own + [row for row in summaries(config) if row["run_id"] != results["run_id"]]


@contextmanager
def _tracked(prepared: Prepared, folder: Path) -> Iterator[Tracker | None]:
    """Log the run from here on; a failure ends it as FAILED, with the traceback among its files."""
    config = prepared.config
    if not config.tracking.enabled:
        yield None
        return
    from fp2 import tracking

    tags = {
        "sweep_id": config.tracking.sweep_id,
        "config_hash": config_hash(config),
        "response_set": prepared.plan.response_set,
        "dataset_digest": prepared.dataset_digest,
    }
    tracker = tracking.start(config, tags, f"{config.model.name} · {'+'.join(cut.name for cut in prepared.cuts)}")
    try:
        yield tracker
    except BaseException as error:
        with suppress(Exception):  # what ended the run is told, not what its record then lacks
            tracker.tag({"error": str(error)[:500] or type(error).__name__})
            tracker.finish("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        if not isinstance(error, (Fp2Error, KeyboardInterrupt)):
            with suppress(OSError):
                (folder / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
        raise


def _log(prepared: Prepared, tracker: Tracker | None, folder: Path, results: dict[str, Any]) -> None:
    if tracker is None:
        return
    from fp2 import tracking
    from fp2.hashing import sha256_file
    from fp2.report.leaderboard import summarise

    passport = folder / "passport.json"
    with tracking.told_plainly(tracking.tracking_uri(prepared.config)):
        tracker.log({**artifacts.files_of(folder), passport.name: passport}, results, artifacts.TABLE)
        tracker.tag(
            {
                "complete": str(results["complete"]).lower(),
                "severity": results["severity"],
                "passport_sha256": sha256_file(passport),
                "summary": json.dumps(summarise(results)),
            }
        )
        tracker.finish("FINISHED" if results["complete"] else "FAILED")


def _outcome(asked: Asked, results: dict[str, Any], folder: Path, tracker: Tracker | None) -> Outcome:
    status, message = 0, None
    if asked.over_budget:
        status = EXIT_ERROR_BUDGET
        message = f"{asked.over_budget}. What was answered is kept; mend the cause and run the same command again"
    elif asked.interrupted:
        status = EXIT_INTERRUPTED
        done = results["answers"]["answered"]
        planned = results["answers"]["planned"]
        message = f"interrupted: {done} of {planned} answers are kept; the same command goes on from there"
    experiment = tracker.experiment_id if tracker else None
    return Outcome(results, folder, results["run_id"], experiment, status, message)
