"""The data set that a config names, whichever kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from fp2.errors import Fp2Error

if TYPE_CHECKING:
    from fp2.config import Config, DataConfig
    from fp2.data.dataset import Dataset
    from fp2.progress import Progress


def load_configured(config: Config, progress: Progress) -> Dataset:
    """Return the data set of `config.data`, whole: nobody is left out or sampled yet.

    Raises
    ------
    Fp2Error
        As the reader of its kind.
    """
    data = config.data
    if data.kind in ("peeps", "peeps_twins"):
        return _peeps(config, progress)
    if data.kind == "fhibe":
        from fp2.data.fhibe.configured import open_configured

        return open_configured(config, progress).dataset
    image_root = Path(data.image_root).expanduser() if data.image_root else None
    if data.kind == "table":
        from fp2.data.table import load_table

        return load_table(Path(str(data.path)).expanduser(), _columns(data), image_root)
    root = Path(str(data.root)).expanduser()
    if data.kind == "hf":
        from fp2.data.hf_local import load_hf

        cache = Path(config.paths.data) / "hf"
        with progress.counter("Writing out the pictures (once)") as written:
            return load_hf(root, _columns(data), cache, split=data.split, tick=written)
    if data.kind == "folder":
        from fp2.data.folders import load_folders

        return load_folders(root, data.attribute)
    from fp2.data import face_sets

    if data.kind == "utkface":
        return face_sets.load_utkface(root)
    return (face_sets.load_gras if data.kind == "gras" else face_sets.load_fairface)(root, image_root)


def _peeps(config: Config, progress: Progress) -> Dataset:
    from fp2.data.peeps.load import load_peeps
    from fp2.data.peeps.spec import PeepsSpec

    data = config.data
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


def _columns(data: DataConfig) -> dict[str, str]:
    if not isinstance(data.columns, Mapping) or "image" not in data.columns:
        raise Fp2Error(
            f"data={data.name} needs to know which column holds the pictures",
            where="data.columns",
            fix="Add data.columns={image: COLUMN, subject: COLUMN, ATTRIBUTE: COLUMN}",
        )
    return {str(name): str(column) for name, column in data.columns.items()}
