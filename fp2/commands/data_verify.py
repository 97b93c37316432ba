"""`fp2 data verify`: check the files of a data set, count its groups, find rows derived from people that it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from fp2.compose import load_config
from fp2.config import Config
from fp2.errors import Fp2Error
from fp2.progress import Progress

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.data.base import Dataset
    from fp2.data.validate import Findings

_MOST_GROUPS = 40  # an attribute with more values is not counted by itself


def verify(overrides: Sequence[str], *, pixels: bool, newer: Path | None, ids_to: Path | None) -> int:
    """Print the findings; return 0 if there is no error, else 1.

    Parameters
    ----------
    pixels : bool
        Whether images are decoded, which finds damaged and repeated images (digests are kept for the runs).
    newer : Path, optional
        The folder of a newer release: subjects and images that it lacks are counted.
    ids_to : Path, optional
        Where to write the ids that the newer release lacks, one per line.
    """
    from fp2.data.load import configured_source, load_configured
    from fp2.data.validate import check_files

    config = load_config(overrides)
    progress = Progress()
    dataset = load_configured(config, progress)
    _summary(dataset)
    findings = check_files(dataset.image_files())
    if pixels:
        _decode(config, dataset, findings, progress)
    _report(findings)
    _groups(config, dataset.people)
    ok = not findings.errors
    if newer is not None:
        _compare(config, dataset, newer, ids_to, progress)
    source = configured_source(config)
    if source.has_withdrawals and source.lists_everyone:  # a table of face crops does not list everybody
        ok &= _derived(config, dataset.people)
    print("no errors were found" if ok else "errors were found")
    return 0 if ok else 1


def _summary(dataset: Dataset) -> None:
    people = dataset.people
    pairs = people.loc[people["n_people"] > 1, "image_id"].nunique()
    most = people.groupby("subject_id")["image_id"].nunique().max()
    form = f", {dataset.settings['form']}" if "form" in dataset.settings else ""
    print(f"{dataset.name}{form}: release {dataset.release or 'not named'}")
    print(
        f"{people['image_id'].nunique()} images of {people['subject_id'].nunique()} subjects, at most "
        f"{most} per subject; {pairs} images of two people (excluded from single-person probes)"
    )
    for note in dataset.notes:
        if note not in dataset.schema_lines:  # those were reported while the data were read
            print(f"note: {note}")


def _decode(config: Config, dataset: Dataset, findings: Findings, progress: Progress) -> None:
    from fp2.data.pixels import PixelIndex
    from fp2.data.validate import check_pixels
    from fp2.store.rows import ResponseStore

    files = dataset.image_files()
    paths = [file.path for file in files]
    with (
        ResponseStore(Path(config.paths.store)) as store,
        progress.count_up("Reading the images", len(set(paths))) as read,
    ):
        found = PixelIndex(store.connection).digest_many(paths, read, verify=config.verify_inputs)
    check_pixels(dataset.people, files, found, findings)


def _report(findings: Findings) -> None:
    read = "decoded" if findings.decoded else "headers only"
    print(f"{findings.n_files} files, {findings.n_bytes / 1e9:.2f} GB, {read}")
    for line in findings.lines():
        print(line)


def _groups(config: Config, people: pd.DataFrame) -> None:
    """Print the counts of the cuts' groups; those of small groups are suppressed."""
    from fp2.cuts import group_sizes

    smallest = config.report.suppress_below
    table = Table(title=f"groups (counts below {smallest} subjects are suppressed)")
    for name in ("cut", "group", "subjects", "images"):
        table.add_column(name)
    for cut, groups in group_sizes(people, _cuts_to_count(asdict(config.cut), people)).items():
        for group, size in groups.items():
            small = size["n_subjects"] < smallest
            shown = (f"<{smallest}", "–") if small else (str(size["n_subjects"]), str(size["n_images"]))
            table.add_row(cut, group, *shown)
    Console().print(table)


def _cuts_to_count(spec: Mapping[str, object], people: pd.DataFrame) -> tuple[Cut, ...]:
    """Return the config's cuts; where the data lack their attributes, one per attribute with few values."""
    from fp2.cuts import Cut, resolve_cuts
    from fp2.tables import ATTRIBUTE_PREFIX, attribute_columns

    names = attribute_columns(people)
    try:
        return resolve_cuts(spec, names)
    except Fp2Error:
        n_values = {name: people[ATTRIBUTE_PREFIX + name].explode().nunique() for name in names}
        return tuple(Cut(name, (name,)) for name in names if 1 < n_values[name] <= _MOST_GROUPS)


def _compare(config: Config, dataset: Dataset, newer: Path, ids_to: Path | None, progress: Progress) -> None:
    """Count the subjects and images of this release that the newer one lacks."""
    from fp2.data.load import configured_source, load_configured

    if not configured_source(config).has_withdrawals:
        what = f"--newer compares releases, which data={config.data.name} does not have"
        raise Fp2Error(what, fix="Use a data set with releases: data=fhibe data.root=PATH")
    other = load_configured(replace(config, data=replace(config.data, root=newer)), progress)
    subjects, images = (
        sorted(set(dataset.people[name]) - set(other.people[name])) for name in ("subject_id", "image_id")
    )
    print(f"{len(subjects)} subjects and {len(images)} images are not in {other.release or newer.name}")
    if ids_to is not None:
        ids_to.write_text("".join(f"{line}\n" for line in (*subjects, *images)), encoding="utf-8")
        ids_to.chmod(0o600)
        print(f"their ids were written to {ids_to}")
    if subjects or images:
        print(f"then: fp2 purge --absent data={config.data.kind} data.root={newer}")


def _derived(config: Config, people: pd.DataFrame) -> bool:
    """Print whether anything here was derived from people that this release lacks; return whether nothing was."""
    from fp2.runs.purge import purge
    from fp2.runs.purge_selection import Absent

    kind = config.data.kind
    found = purge(config, lambda salt, known: Absent.from_release(kind, people, salt), dry=True)
    if not found.anything:
        print("nothing was derived from subjects or images that this release lacks")
        return True
    print(
        f"ERROR {found.people} subjects or their images are not in this release, and there are rows derived from them "
        f"({found.store.get('answers', 0)} stored answers, {len(found.runs)} runs): fp2 purge --absent data={kind} "
        f"data.root={config.data.root}"
    )
    return False
