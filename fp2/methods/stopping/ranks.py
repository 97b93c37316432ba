"""The rule `order`: a run asks no further once its order relative to finished runs is certain.

Waves and storage are those of `certain`. What is decided follows from the seed, the stored answers and the finished
runs that are named; where none is named, the config gets the ids of those that were chosen, for a rerun.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fp2.extension import (
    LOOKS,
    Fp2Error,
    GroupComparison,
    Inputs,
    LoggedRun,
    RunTables,
    database_file,
    describe_questions,
    describe_scorers,
    local_salt,
    logged_cuts,
    read_run,
    scored,
    shareable,
    summaries,
    tracking_uri,
    variant_identity,
)
from fp2.methods.several_runs.profiles import OrderTest, order_tests, resampled_profiles
from fp2.methods.several_runs.shared import NOTHING_SHARED, same_probes, shared_lines
from fp2.methods.stopping.certain import Certain
from fp2.methods.stopping.looks import OPEN, StoppingLooks
from fp2.methods.stopping.sequential import nominal_levels
from fp2.methods.stopping.standing import PairKey, Standing, is_tested, take_standings

AGAINST = "answers.against"
MOST_RUNS = 40
"""Finished runs that are compared without being named."""
LEAST_RESAMPLES, RESOLUTION = 1999, 4
"""Resamples of a test: at least so many, and so many at the smallest nominal level."""


@dataclass(frozen=True, kw_only=True)
class OrderLooks(StoppingLooks):
    """The looks so far.

    Attributes
    ----------
    against : mapping
        The finished runs: id -> name.
    margin : float
        Differences that are closer count as equivalent.
    standings : mapping
        What is decided of each finished run and cut.
    """

    against: Mapping[str, str]
    margin: float
    standings: Mapping[PairKey, Standing] = field(default_factory=dict)


class Order(Certain):
    """The storage of the answers that are called for (see `fp2.ask.storage.Storage`)."""

    supplement: ClassVar = "fp2.methods.stopping.ranks_block:OrderStopping"
    refuses: ClassVar[tuple[str, ...]] = ("analysis.looks", "shard")
    looks: OrderLooks

    def __init__(self, protocol: GroupComparison, inputs: Inputs, storage: Any) -> None:
        super().__init__(protocol, inputs, storage)
        config, battery = inputs.config, inputs.battery
        assert battery is not None
        self._min_subjects = config.analysis.min_subjects
        results = {
            "run_id": "",
            "probes": describe_questions(battery),
            "scorers": describe_scorers(inputs.scorers),
            "analysis": {"primary": self.looks.primary},
            "stopping": {},
            "variant": variant_identity(config.variant),
            "dataset_digest": inputs.dataset_digest,
            "response_set": storage.response_set,
        }
        self._run = LoggedRun(results, inputs.people, None, {c.name: c for c in logged_cuts(config, inputs.people)})
        self._wave_of_key = self._rows_by_key()
        runs = self._named(config.answers.against) if config.answers.against is not None else self._listed()
        self._finished = {run.run_id: run for run in runs}
        config.answers.against = [*self._finished]  # what is logged names them, and a rerun compares with the same
        keys = [(run_id, cut.name) for run_id in self._finished for cut in inputs.cuts]
        self._last = {
            run_id: _last_wave(run, self.looks.primary, self._wave_of_key) for run_id, run in self._finished.items()
        }
        self.looks = OrderLooks(
            **vars(self.looks),
            against={run_id: run.name for run_id, run in self._finished.items()},
            margin=inputs.scorers[self.looks.primary].smallest_effect if self.looks.primary in inputs.scorers else 0.0,
            standings=dict.fromkeys(keys, Standing()),
        )
        if not keys:
            self.looks = replace(self.looks, now=len(self.looks.at))
            inputs.progress.note(
                "answers.stop=order: no finished run can be compared with this one: everything is asked"
            )

    @staticmethod
    def recall(block: Mapping[str, Any]) -> OrderLooks:
        """Return the looks of a logged run from its block."""
        names = ("now", "spending", "alpha", "smallest_share", "groups", "primary", "margin")
        standings = {(order.pop("run_id"), order.pop("cut")): Standing(**order) for order in map(dict, block["orders"])}
        against = {run["run_id"]: run["name"] for run in block["against"]}
        stated = {name: block[name] for name in names}
        return OrderLooks(at=tuple(block["at"]), against=against, standings=standings, **stated)

    @property
    def facts(self) -> dict[str, Any]:
        """What the analysis of the run needs: its looks, unless it was compared with nothing."""
        return {LOOKS: self.looks} if self._finished else {}

    @property
    def progress(self) -> str:
        """How many orders are decided, in words."""
        standings = self.looks.standings.values()
        decided = sum(standing.decided != OPEN for standing in standings)
        if not standings:
            return "compared with no run"
        return f"look {self._decided_at} of {len(self.looks.at)}: {decided} of {len(standings)} orders decided"

    def expected_answers(self, ratio: float) -> int | None:
        """Return None: a group difference of this run does not say when its order is decided."""
        return None

    def next_wave(self) -> bool:
        """Decide by the answers of the wave; return whether a further one is to be asked."""
        return bool(self._finished) and super().next_wave()

    def decide(self) -> None:
        """Take the look `now` at the answers of the waves so far."""
        looks, inputs = self.looks, self._inputs
        tables = scored(self._protocol, RunTables(inputs.people, self.answers(), None), inputs)
        tables = tables.keyed(local_salt(Path(inputs.config.paths.state)))
        run = replace(self._run, people=tables.people, scores=tables.scores, values={})
        last = {key: self._last[key[0]] for key in looks.standings}
        tests = {
            key: test
            for key, standing in looks.standings.items()
            if is_tested(looks, standing, last[key]) and (test := self._test(run, *key)) is not None
        }
        standings = take_standings(looks, looks.standings, tests, last)
        over = looks.now == len(looks.at) or all(standing.decided != OPEN for standing in standings.values())
        stopped = dict.fromkeys(self._units, looks.now) if over else {}
        self.looks = replace(looks, standings=standings, last=stopped)

    def _test(self, run: LoggedRun, run_id: str, cut: str) -> tuple[OrderTest, int] | None:
        """Return the test of the order and the number of subjects; None where groups are too small so far.

        None too of a run whose answers are all the same: it hardly answers, and is not ranked.
        """
        runs, looks = [run, self._finished[run_id]], self.looks
        least = max(self._min_subjects, int(runs[1].results["analysis"]["min_subjects"]))
        probes = same_probes(runs, looks.primary)[0]
        rows = shared_lines(runs, runs[0].cuts[cut], looks.primary, probes)
        all_groups = looks.groups[cut] if looks.now < self._last[run_id] else 2
        for values in rows.values:
            if not probes or np.nanmax(values, initial=-np.inf) <= np.nanmin(values, initial=np.inf):
                return None
            if any(rows.n_groups(column, least) < all_groups for column in values.T):
                return None
        smallest = min(nominal_levels(looks.alpha / len(looks.standings), looks.at, looks.spending))
        n = max(LEAST_RESAMPLES, math.ceil(RESOLUTION / smallest))
        seed = self._inputs.config.seed
        drawn = resampled_profiles(rows.values, rows.groups, rows.subjects, rows.images, n, seed, least)
        (test,) = order_tests(*drawn, [(0, 1)], looks.margin)
        return test, rows.n_subjects

    def _named(self, words: Sequence[str]) -> list[LoggedRun]:
        """Return the runs that are named; raise for one that cannot be compared."""
        runs = []
        for word in words:
            runs += self._read([word])
            if (reason := self._reason(runs[-1])) is not None:
                raise Fp2Error(f"it cannot be compared with this run: {reason}", where=f"{AGAINST}={word}")
        if len({run.run_id for run in runs}) < len(runs):
            raise Fp2Error("a run is named twice", where=AGAINST)
        return runs

    def _listed(self) -> list[LoggedRun]:
        """Return the finished runs of the experiment that can be compared, of those with the same answers one."""
        config = self._inputs.config
        path = database_file(tracking_uri(config))
        if not config.tracking.enabled or (path is not None and not path.is_file()):
            return []
        cuts: dict[str, set[str]] = {}
        for row in summaries(config):
            if row["complete"] and row.get("scorer") == self.looks.primary:
                cuts.setdefault(row["run_id"], set()).add(row["cut"])
        ids = [run_id for run_id, of_run in cuts.items() if of_run >= {cut.name for cut in self._inputs.cuts}]
        if len(ids) > MOST_RUNS:
            fix = f"Name some of them: {AGAINST}=[RUN, ...]"
            raise Fp2Error(f"{len(ids)} finished runs are too many to be compared with", where=AGAINST, fix=fix)
        runs = sorted(self._read(ids, suppress=True), key=lambda run: run.results["answers"].get("not_asked", 0))
        one_each = {str(run.results["response_set"]): run for run in reversed(runs) if self._reason(run) is None}
        return list(one_each.values())

    def _read(self, words: Sequence[str], *, suppress: bool = False) -> list[LoggedRun]:
        """Return runs by id or folder; those that cannot be read are left out where errors are suppressed."""
        runs = []
        with tempfile.TemporaryDirectory(prefix="fp2-order-") as scratch:
            for word in words:
                try:
                    runs.append(read_run(word, self._inputs.config, Path(scratch)))
                except Fp2Error:
                    if not suppress:
                        raise
        return runs

    def _reason(self, run: LoggedRun) -> str | None:
        """Return why a finished run cannot be compared with this one, or None."""
        ours, theirs, primary = self._run, run, self.looks.primary
        if not theirs.results["complete"]:
            return "it is not finished"
        if theirs.results["response_set"] == ours.results["response_set"]:
            return "it has the same model and questions, and so the answers of this run"
        shown = [{**run.results["variant"], "name": ""} for run in (ours, theirs)]
        for differ, reason in (
            (ours.probes != theirs.probes, "it has other questions"),
            (ours.results["dataset_digest"] not in ("", theirs.results["dataset_digest"]), "it is about other data"),
            (shown[0] != shown[1], "it has another image variant"),
            (
                any(theirs.cuts.get(name) != cut for name, cut in ours.cuts.items()),
                "it has other cuts",
            ),
            (theirs.primary != primary, f"its primary scorer is {theirs.primary}"),
            (ours.scorers.get(primary) != theirs.scorers.get(primary), f"it has another version of {primary}"),
        ):
            if differ:
                return reason
        if _last_wave(theirs, primary, self._wave_of_key) == 0:
            return NOTHING_SHARED
        return None

    def _rows_by_key(self) -> dict[tuple[str, str], int]:
        """Return the wave of every image and subject by their salted keys."""
        people = self._inputs.people
        keyed = shareable(people, local_salt(Path(self._inputs.config.paths.state)))
        pairs = zip(people["subject_id"], people["image_id"], strict=True)
        keys = zip(keyed["image_id"], keyed["subject_id"], strict=True)
        return {key: self._waves.wave[pair] for key, pair in zip(keys, pairs, strict=True)}


def _last_wave(run: LoggedRun, scorer: str, of_wave: Mapping[tuple[str, str], int]) -> int:
    """Return the last wave with an image and subject that a finished run was asked about; 0 without any."""
    return max((of_wave.get(key, 0) for key in run.wide(scorer).index), default=0)
