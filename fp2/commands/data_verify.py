"""`fp2 data verify`: check the files of a data set, count its groups, find rows derived from people that it lacks."""

from __future__ import annotations

from collections.abc import Sequence
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

    from fp2.data.check import Findings
    from fp2.data.dataset import Dataset
    from fp2.data.fhibe.load import PictureFile


def verify(overrides: Sequence[str], *, pixels: bool, newer: Path | None, ids_to: Path | None) -> int:
    """Print the findings; return 0 if there is no error, else 1.

    Parameters
    ----------
    pixels : bool
        Whether images are decoded, which finds damaged and repeated images (their digests are stored for later runs).
    newer : Path, optional
        The folder of a newer release: subjects and images that it lacks are counted.
    ids_to : Path, optional
        Where to write the ids that the newer release lacks, one a line.
    """
    from fp2.data.check import check_files

    config = load_config(overrides)
    progress = Progress()
    dataset, files = _load(config, progress)
    _summary(config, dataset)
    findings = check_files(files)
    if pixels:
        _decode(config, dataset, files, findings, progress)
    _report(findings)
    _groups(config, dataset.people)
    ok = not findings.wrong
    if newer is not None:
        _compare(config, dataset, newer, ids_to, progress)
    if config.data.kind == "fhibe":
        ok &= _derived(config, dataset.people)
    print("no errors found" if ok else "errors were found: see BAD above")
    return 0 if ok else 1


def _load(config: Config, progress: Progress) -> tuple[Dataset, Sequence[PictureFile]]:
    """Return the whole data set and the files of its images."""
    if config.data.kind == "fhibe":
        from fp2.data.fhibe.configured import open_configured

        loaded = open_configured(config, progress)
        return loaded.dataset, loaded.files
    from fp2.data.check import files_of
    from fp2.data.load import load_configured

    dataset = load_configured(config, progress)
    return dataset, files_of(dataset.people)


def _summary(config: Config, dataset: Dataset) -> None:
    from fp2.data.check import most_images

    people = dataset.people
    pairs = people.loc[people["n_people"] > 1, "image_id"].nunique()
    form = f", {dataset.settings['form']}" if "form" in dataset.settings else ""
    print(f"{dataset.name}{form}: release {dataset.release or 'not named'}")
    print(
        f"{people['image_id'].nunique()} images of {people['subject_id'].nunique()} people, at most "
        f"{most_images(people)} per person; {pairs} images of two people (not used by single-person probes)"
    )
    if config.data.kind != "fhibe":  # those of a release were reported while it was loaded
        for note in dataset.notes:
            print(f"note: {note}")


def _decode(
    config: Config, dataset: Dataset, files: Sequence[PictureFile], findings: Findings, progress: Progress
) -> None:
    from fp2.data.check import check_pixels
    from fp2.data.pixels import PixelIndex
    from fp2.store.responses import ResponseStore

    paths = [file.path for file in files]
    with (
        ResponseStore(Path(config.paths.store)) as store,
        progress.count_up("Reading the images", len(set(paths))) as read,
    ):
        found = PixelIndex(store.connection).digest_many(paths, read, verify=config.verify_inputs)
    check_pixels(dataset.people, files, found, findings)


def _report(findings: Findings) -> None:
    how = "decoded" if findings.decoded else "headers only"
    print(f"{findings.n_files} files, {findings.n_bytes / 1e9:.2f} GB, {how}")
    for line in findings.lines():
        print(line)


def _groups(config: Config, people: pd.DataFrame) -> None:
    from fp2.data.check import cuts_to_count, group_lines

    smallest = config.report.suppress_below
    table = Table(title=f"groups (counts below {smallest} people are not shown)")
    for name in ("cut", "group", "people", "images"):
        table.add_column(name)
    for line in group_lines(people, cuts_to_count(asdict(config.cut), people), smallest):
        table.add_row(*line)
    Console().print(table)


def _compare(config: Config, dataset: Dataset, newer: Path, ids_to: Path | None, progress: Progress) -> None:
    """Count the subjects and images of this release that the newer one lacks."""
    from fp2.data.check import absent_ids

    if config.data.kind != "fhibe":
        raise Fp2Error("--newer compares FHIBE releases", fix="Add data=fhibe data.root=PATH")
    other, _ = _load(replace(config, data=replace(config.data, root=str(newer))), progress)
    subjects, images = absent_ids(dataset.people, other.people)
    name = other.release or newer.name
    print(f"{len(subjects)} people and {len(images)} images are not in {name}")
    if ids_to is not None:
        ids_to.write_text("".join(f"{line}\n" for line in (*subjects, *images)), encoding="utf-8")
        ids_to.chmod(0o600)
        print(f"their ids were written to {ids_to}")
    if subjects or images:
        print(f"to remove what was derived from them: fp2 purge --absent data=fhibe data.root={newer}")


def _derived(config: Config, people: pd.DataFrame) -> bool:
    """Print whether anything here was derived from people that this release lacks; return whether nothing was."""
    from fp2.runs.purge import purge
    from fp2.runs.purge_selection import Absent

    if config.data.form not in ("auto", "downsampled", "fullres"):
        return True  # a table of face crops does not list all people
    found = purge(config, lambda salt, known: Absent.from_release("fhibe", people, salt), dry=True)
    if not found.anything:
        print("nothing stored here is derived from people or images that this release lacks")
        return True
    print(
        f"BAD {found.people} people or their images are not in this release, and rows derived from them are stored "
        f"({found.store.get('answers', 0)} stored answers, {len(found.runs)} runs): fp2 purge --absent data=fhibe "
        f"data.root={config.data.root}"
    )
    return False
