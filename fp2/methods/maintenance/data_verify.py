"""`fp2 data verify`: check the files of a data set, count its groups, find rows derived from people that it lacks.

Image files are checked before a model is asked: their sizes and annotations, and repeated images.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from fp2.extension import (
    WITHDRAWAL,
    Config,
    Fp2Error,
    Output,
    Progress,
    choices,
    first_few,
    in_number,
    load,
    load_config,
)

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Cut, Dataset, ImageFile, PixelDigest


@dataclass
class Findings:
    """What was found: `errors` have to be fixed, `warnings` should be known; both map a message to image ids.

    `n_files` and `n_bytes` count the files that were read; `decoded` says whether their pixels were.
    """

    errors: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    warnings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    n_files: int = 0
    n_bytes: int = 0
    decoded: bool = False

    def lines(self) -> list[str]:
        """Return one line per message, with the first few image ids."""
        problems = [
            *(("ERROR", *item) for item in self.errors.items()),
            *(("warning", *i) for i in self.warnings.items()),
        ]
        return [
            in_number(len(ids), f"{level} {len(ids)} {message}") + f": {first_few(ids)}"
            for level, message, ids in problems
            if ids
        ]


def check_files(files: Sequence[ImageFile]) -> Findings:
    """Check every image's file, header and annotation file; no pixel is decoded."""
    findings = Findings(n_files=len(files))
    for file in files:
        try:
            n_bytes = file.path.stat().st_size
        except OSError:
            findings.errors["[image|images] missing"].append(file.image_id)
            continue
        findings.n_bytes += n_bytes
        size = _header_size(file.path)
        if size is None:
            findings.errors["[image|images] cannot be read"].append(file.image_id)
        elif file.size is not None and size != file.size:
            findings.errors["[image|images] of another size than stated"].append(file.image_id)
        if file.annotation is not None and not file.annotation.is_file():
            findings.warnings["annotation [file|files] missing"].append(file.image_id)
    return findings


def check_pixels(
    people: pd.DataFrame, files: Sequence[ImageFile], pixels: Mapping[Path, PixelDigest], findings: Findings
) -> None:
    """Add what decoded pixels show: damage behind an intact header, and the same pixels under several ids."""
    findings.decoded = True
    subjects = people.groupby("image_id")["subject_id"].agg(frozenset).to_dict()
    damaged_ids = {image_id for ids in findings.errors.values() for image_id in ids}
    same: dict[str, list[str]] = defaultdict(list)
    for file in files:
        pixel_digest = pixels[file.path]
        if pixel_digest.sha256 is not None:
            same[pixel_digest.sha256].append(file.image_id)
        elif file.image_id not in damaged_ids:
            findings.errors["[image|images] cannot be decoded"].append(file.image_id)
    for ids in same.values():
        if len(ids) > 1:
            is_one_subject = len({subjects[image_id] for image_id in ids}) == 1
            findings.warnings[
                "[image|images] repeated " + ("for one subject" if is_one_subject else "for several subjects")
            ] += ids


def _header_size(path: Path) -> tuple[int, int] | None:
    """Return the image's (width, height) by its EXIF orientation, or None if it is not an image."""
    from fp2.extension import image_file

    try:
        with image_file(path) as image:
            # Reading the EXIF data of a PNG that has none would decode the whole image.
            exif = image.getexif() if image.format != "PNG" or "exif" in image.info else {}
            turned = exif.get(0x0112, 1) in (5, 6, 7, 8)  # orientations that swap width and height
            return (image.height, image.width) if turned else image.size
    except Exception:  # decoders raise many kinds; each means that this is not a readable image
        return None


_MOST_GROUPS = 40  # an attribute with more values is not counted by itself


def verify(
    overrides: Sequence[str], *, pixels: bool, newer: Path | None, ids_to: Path | None, as_json: bool = False
) -> int:
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
    from fp2.extension import PixelIndex, ResponseStore, configured_source, load_configured

    with Output(as_json) as out:
        config = load_config(overrides)
        progress = Progress()
        dataset = load_configured(config, progress)
        counted, cuts = _cuts_to_count(config, dataset.people)
        people = dataset.people
        pairs = people.loc[people["n_people"] > 1, "image_id"].nunique()
        most_images = people.groupby("subject_id")["image_id"].nunique().max()
        form = f", {dataset.settings['form']}" if "form" in dataset.settings else ""
        about = {"data": dataset.name, "release": dataset.release}
        out.say(f"{dataset.name}{form}: release {dataset.release or 'not named'}", **about)
        images, subjects = (int(people[key].nunique()) for key in ("image_id", "subject_id"))
        out.say(
            f"{images} images of {subjects} subjects, at most {most_images} per subject; {pairs} images of two people "
            "(excluded from single-person probes)",
            images=images,
            subjects=subjects,
            most_images=int(most_images),
            pairs=int(pairs),
            notes=list(dataset.notes),
        )
        for note in dataset.notes:
            if note not in dataset.schema_lines:  # those were reported while the data were read
                out.say(f"note: {note}")
        findings = check_files(dataset.image_files())
        if pixels:
            files = dataset.image_files()
            paths = [file.path for file in files]
            with (
                ResponseStore(Path(config.paths.store)) as store,
                progress.count_up("Reading the images", len(set(paths))) as read,
            ):
                digests = PixelIndex(store.connection).digest_many(paths, read, verify=config.verify_inputs)
            check_pixels(dataset.people, files, digests, findings)
        _report(findings, out)
        _groups(config, counted, cuts, out)
        ok = not findings.errors
        if newer is not None:
            _compare(config, dataset, newer, ids_to, progress, out)
        source = configured_source(config)
        if source.has_withdrawals and source.lists_everyone:  # a table of face crops does not list everybody
            ok &= _derived(config, dataset.people, out)
        out.say("no errors were found" if ok else "errors were found", sound=ok)
        return 0 if ok else 1


def _report(findings: Findings, out: Output) -> None:
    how = "decoded" if findings.decoded else "headers only"
    counts = [{message: len(ids) for message, ids in kind.items()} for kind in (findings.errors, findings.warnings)]
    size = {"files": findings.n_files, "bytes": findings.n_bytes, "decoded": findings.decoded}
    out.say(f"{findings.n_files} files, {findings.n_bytes / 1e9:.2f} GB, {how}", **size)
    out.say(errors=counts[0], warnings=counts[1])
    for text in findings.lines():
        out.say(text)


def _groups(config: Config, counted: pd.DataFrame, cuts: Sequence[Cut], out: Output) -> None:
    """Print the counts of the cuts' groups; those of small groups are suppressed."""
    from fp2.extension import cut_notes, group_sizes

    smallest = config.report.suppress_below
    table = Table(title=f"groups (counts below {smallest} subjects are suppressed)")
    for name in ("cut", "group", "subjects", "images"):
        table.add_column(name)
    repeats = []
    for cut, groups in group_sizes(counted, cuts).items():
        for group, size in groups.items():
            small = size["n_subjects"] < smallest
            cells = (f"<{smallest}", "–") if small else (str(size["n_subjects"]), str(size["n_images"]))
            table.add_row(cut, group, *cells)
            repeats.append({"cut": cut, "group": group, **(dict.fromkeys(size) if small else size)})
    out.show(table)
    out.say(groups=repeats, suppressed_below=smallest)
    for note in cut_notes(counted, cuts):
        out.say(note)


def _cuts_to_count(config: Config, people: pd.DataFrame) -> tuple[pd.DataFrame, tuple[Cut, ...]]:
    """Return the people and the config's cuts; where the data lack their attributes, one for each with few values."""
    from fp2.extension import ATTRIBUTE_PREFIX, Cut, attribute_columns, with_cuts

    try:
        return with_cuts(people, config)
    except Fp2Error:
        if config.cut.name not in choices("cut"):  # the user's own
            raise
        names = attribute_columns(people)
        n_values = {name: people[ATTRIBUTE_PREFIX + name].explode().nunique() for name in names}
        return people, tuple(Cut(name, (name,)) for name in names if 1 < n_values[name] <= _MOST_GROUPS)


def _compare(
    config: Config, dataset: Dataset, newer: Path, ids_to: Path | None, progress: Progress, out: Output
) -> None:
    """Count the subjects and images of this release that the newer one lacks."""
    from fp2.extension import configured_source, folder_option, load_configured, with_releases

    if not configured_source(config).has_withdrawals:
        problem = f"--newer compares releases, which data={config.data.name} does not have"
        raise Fp2Error(problem, fix=f"Use a data set with releases: data={'|'.join(with_releases())}")
    option = folder_option(type(config.data))
    if option is None:
        problem = f"--newer names a folder, and data={config.data.name} has no option for one"
        raise Fp2Error(problem, fix="Choose the newer release by the options of the data set, without --newer")
    other = load_configured(replace(config, data=replace(config.data, **{option: newer})), progress)
    subjects, images = (
        sorted(set(dataset.people[name]) - set(other.people[name])) for name in ("subject_id", "image_id")
    )
    lacks = {"subjects": len(subjects), "images": len(images)}
    out.say(f"{len(subjects)} subjects and {len(images)} images are not in {other.release or newer.name}", newer=lacks)
    if ids_to is not None:
        ids_to.write_text("".join(f"{id_line}\n" for id_line in (*subjects, *images)), encoding="utf-8")
        ids_to.chmod(0o600)
        out.say(f"their ids were written to {ids_to}")
    if subjects or images:
        out.say(f"then: fp2 purge --absent data={config.data.name} data.{option}={newer}")


def _derived(config: Config, people: pd.DataFrame, out: Output) -> bool:
    """Print whether anything here was derived from people that this release lacks; return whether nothing was."""
    from fp2.extension import folder_option

    derived = load(WITHDRAWAL, "absent", "fp2 data verify")(config, people)
    if not derived["runs"] and not derived["rows"]:
        out.say("nothing was derived from subjects or images that this release lacks")
        return True
    option = folder_option(type(config.data))
    folder = f" data.{option}={getattr(config.data, option)}" if option else ""
    out.say(
        f"ERROR {derived['people']} subjects or their images are not in this release, and there are rows derived from "
        f"them ({derived['answers']} stored answers, {derived['runs']} runs): "
        f"fp2 purge --absent data={config.data.name}{folder}",
        derived={name: derived[name] for name in ("people", "answers", "runs")},
    )
    return False
