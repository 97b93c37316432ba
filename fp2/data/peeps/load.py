"""The drawn people as a data set: built once per machine into a cache, then read like any FHIBE release."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from fp2.data.dataset import Dataset
from fp2.data.fhibe.load import load_fhibe
from fp2.data.peeps.build import MANIFEST, Progress, build_peeps
from fp2.data.peeps.spec import PeepsSpec

NOTE = (
    "these people are drawings (Open Peeps by Pablo Stanley, CC0); region is shown by a backdrop pattern only; "
    "what is found about them is about the model and the drawings, never about people"
)


def ensure_peeps(cache_dir: Path, spec: PeepsSpec, progress: Progress | None = None) -> Path:
    """Return the root folder of the drawn people of `spec` in `cache_dir`, drawing them first if they are not there.

    They are drawn into a folder of another name that is renamed when complete, under a lock: an interrupted or
    simultaneous run leaves nothing half done. The folder's name has the digest of the spec and the generator.

    Raises
    ------
    Fp2Error
        As `build_peeps`.
    """
    folder = cache_dir / spec.folder()
    root = folder / f"{spec.release}_downsampled_public"
    if (root / MANIFEST).is_file():
        return root
    cache_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(cache_dir / f"{folder.name}.lock"):
        if (root / MANIFEST).is_file():
            return root
        building = cache_dir / f".{folder.name}.building"
        for left_over in (building, folder):
            shutil.rmtree(left_over, ignore_errors=True)
        try:
            build_peeps(building, spec, progress)
            building.rename(folder)
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            raise
    return root


def load_peeps(cache_dir: Path, spec: PeepsSpec | None = None, progress: Progress | None = None) -> Dataset:
    """Return the drawn people as a data set named `peeps` or `peeps_twins`; see `ensure_peeps`."""
    spec = spec or PeepsSpec()
    loaded = load_fhibe(ensure_peeps(cache_dir, spec, progress))
    return replace(loaded, name=spec.name, notes=(NOTE, *loaded.notes))
