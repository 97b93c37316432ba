"""FHIBE as a data set: its options, and a release that is read once its terms of use are acknowledged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from fp2.data.base import DataOptions, Dataset, DataSource, LoadContext, Local, Required
from fp2.data.fhibe.release import WHOLE_IMAGES, Form


@dataclass(frozen=True, kw_only=True)
class FhibeOptions(DataOptions):
    """Options of FHIBE.

    Attributes
    ----------
    root : Path
        A folder at, above or just inside the release.
    path : Path, optional
        For full resolution: a processed CSV with the fields that the annotations lack.
    form : str
        What is read: whole images (downsampled, or in full resolution) or face crops.
    expand_regions : bool
        Whether a bare region of ancestry counts for all its subregions (the FHIBE paper's rule).
    accept_terms : bool
        Whether the user accepted the terms of use.
    """

    root: Annotated[Path, Local(), Required("the folder of the release")]
    path: Annotated[Path | None, Local()] = None
    form: Form = "auto"
    expand_regions: bool = False
    accept_terms: Annotated[bool, Local()] = False


class Fhibe(DataSource[FhibeOptions]):
    """Sony's FHIBE, from the user's own copy."""

    Options = FhibeOptions
    has_withdrawals: ClassVar[bool] = True

    @property
    def lists_everyone(self) -> bool:
        """Whether whole images are read: the table of face crops lacks the subjects whose face is not shown."""
        return self.options.form in WHOLE_IMAGES

    def load(self, context: LoadContext) -> Dataset:
        """Return the release at `root`.

        Raises
        ------
        Fp2Error
            If the terms of use are not acknowledged, or as `find_release` and `read_release`.
        """
        from fp2.data.fhibe.load import read_release
        from fp2.data.fhibe.release import find_release
        from fp2.data.fhibe.terms import acknowledge

        chosen = self.options
        release = find_release(chosen.root, chosen.form)
        terms = acknowledge(context.state, chosen.accept_terms)
        fallback = chosen.path.expanduser() if chosen.path else None
        with context.progress.steps("Reading the release", _n_rows(release.table)) as tick:
            dataset = read_release(release, expand_regions=chosen.expand_regions, fallback=fallback, tick=tick)
        if context.remote:
            context.progress.note("FHIBE's images will be sent to another machine: do the terms of use allow that?")
        return replace(dataset, name=chosen.name, settings={**dataset.settings, "terms": terms})


def _n_rows(path: Path) -> int:
    """Return about how many rows a file has (its lines after the header), 0 where it cannot be read."""
    try:
        with path.open("rb") as handle:
            return max(0, sum(1 for _ in handle) - 1)
    except OSError:
        return 0
