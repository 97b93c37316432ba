"""What several logged runs share: probes, and the rows of the same subjects and images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fp2.extension import KEYS, Fp2Error, LoggedRun, distinct_names

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut


def short_names(runs: Sequence[LoggedRun]) -> list[str]:
    """Return a name for each run; runs with the same name have the start of their id appended."""
    return distinct_names([(run.name, run.run_id) for run in runs])


NOTHING_SHARED = (
    "the runs share no image of a subject, but their data set or some subjects (keys are salted with a secret of each "
    "machine: runs of different machines or state folders never match)"
)


@dataclass(frozen=True)
class SharedLines:
    """The rows (image and group) that all runs have, for one cut.

    values (K, n, m): runs, rows, probes, NaN = missing; groups, subjects, images (n,).
    """

    values: NDArray[np.float64]
    groups: NDArray[np.object_]
    subjects: NDArray[np.object_]
    images: NDArray[np.object_]

    @property
    def n_subjects(self) -> int:
        """Subjects that are in a group of the cut in every run."""
        return len(np.unique(self.subjects.astype(str)))

    @property
    def n_images(self) -> int:
        """Images of those subjects."""
        return len(np.unique(self.images.astype(str)))

    def n_groups(self, values: NDArray[np.float64], minimum: int) -> int:
        """Return the number of groups in which at least `minimum` subjects have a value, of values (n,)."""
        known = np.isfinite(values)
        pairs = set(zip(self.groups[known], self.subjects[known], strict=True))
        sizes = np.unique([group for group, _ in pairs], return_counts=True)[1] if pairs else np.zeros(0)
        return int((sizes >= minimum).sum())


def shared_lines(runs: Sequence[LoggedRun], cut: Cut, scorer: str, probes: Sequence[str]) -> SharedLines:
    """Return the scores of all runs for the same subjects and images.

    A row is included if every run has this image of this subject in this group. Of runs that stopped early, only what
    all of them were asked about counts.
    """
    from fp2.extension import memberships, with_present_values

    keys = [*KEYS, "group"]
    # a purge may have removed the last person with a selected value
    table, *other_members = (
        memberships(run.people, with_present_values(run.people, cut)).drop_duplicates() for run in runs
    )
    for other in other_members:
        table = table.merge(other, on=keys)
    if table.empty:
        raise Fp2Error(NOTHING_SHARED, where=f"cut {cut.name}")
    index = list(zip(table["image_id"], table["subject_id"], strict=True))
    values = np.stack([run.wide(scorer).reindex(list(index))[list(probes)].to_numpy(dtype="float64") for run in runs])
    columns = [table[name].to_numpy(dtype=object) for name in ("group", "subject_id", "image_id")]
    stopped = [_asked(run, scorer, index, probes) for run in runs if STOPPING in run.results]
    if stopped:
        asked = np.logical_and.reduce(stopped)
        values[:, ~asked] = np.nan
        kept = asked.any(axis=1)
        values, columns = values[:, kept], [column[kept] for column in columns]
    return SharedLines(values, *columns)


STOPPING = "stopping"
"""The block of a run that stopped early (`answers.stop`)."""


def _asked(run: LoggedRun, scorer: str, index: Sequence[tuple[str, str]], probes: Sequence[str]) -> NDArray[np.bool_]:
    """Return which questions of probes were asked about the (image, subject) pairs, (n, m)."""
    if run.scores is None:
        return np.asarray(run.wide(scorer).reindex(list(index))[list(probes)].notna().to_numpy())
    rows = run.scores[run.scores["scorer"] == scorer]
    counts = rows.groupby([*KEYS, "probe"]).size().unstack("probe").reindex(list(index)).reindex(columns=list(probes))
    return np.asarray(counts.notna().to_numpy())


def asked_people(run: LoggedRun) -> pd.DataFrame:
    """Return the people of a run; of one that stopped early those whom it was asked about."""
    if STOPPING not in run.results or run.scores is None:
        return run.people
    return run.people.merge(run.scores[KEYS].drop_duplicates())


def n_people(run: LoggedRun) -> int:
    """Return how many subjects a run was asked about."""
    return int(asked_people(run)["subject_id"].nunique())


def are_independent(runs: Sequence[LoggedRun]) -> bool:
    """Whether two runs are about different subjects: they share no key, and their data sets differ.

    Keys of one data set that was salted on two machines do not match either; its digest is the same.
    """
    first, second = (set(run.people["subject_id"]) for run in runs)
    digests = [run.results.get("dataset_digest") for run in runs]
    return not first & second and (None in digests or digests[0] != digests[1])


def same_probes(runs: Sequence[LoggedRun], scorer: str) -> tuple[list[str], list[str]]:
    """Return the probes that all runs asked with the same text and scored, and those that only some of them did.

    Probes that the scorer scores in none of the runs are in neither.
    """
    scored = [set(run.wide(scorer).columns) for run in runs]
    probes = dict.fromkeys(
        probe for run in runs for probe in run.probes if any(probe in run_read for run_read in scored)
    )
    same = [
        probe
        for probe in probes
        if all(run.probes.get(probe) == runs[0].probes.get(probe) for run in runs)
        and all(probe in run_read for run_read in scored)
    ]
    return same, [probe for probe in probes if probe not in same]
