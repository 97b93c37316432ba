"""FHIBE as a data set: its options, its terms of use, and a release that is read once they are acknowledged.

Sony's text of the terms is binding, and this module does not replace it. The terms are acknowledged once per state
folder and recorded with every run, with the date of the terms that this version knows, so that later terms have to be
acknowledged again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fp2.extension import DataOptions, Dataset, DataSource, Fp2Error, LoadContext, Local, Required, artifacts
from fp2.methods.fhibe_release.release import WHOLE_IMAGES, Form

TERMS = "2025-11-05"  # "last updated" of the terms of use that this version knows
RECORD = "fhibe_terms.json"
QUESTION = f"""FHIBE is Sony's data set of consenting people, under its own terms of use (known version: {TERMS}).
Among other things they permit measuring and mitigating bias, and forbid training other models, identifying people,
surveillance and redistribution. Data of people who are not in a newer release have to be deleted (fp2 purge).
Have you accepted these terms, and will you comply with them? [yes/no] """


def acknowledge(state: Path, accept: bool, ask: Callable[[], bool] | None = None) -> dict[str, str]:
    """Return the recorded acknowledgement, and record it first if `accept` is set or the user agrees.

    Parameters
    ----------
    state : Path
        The state folder, which is made readable for its owner only; the record is `fhibe_terms.json`.
    accept : bool
        `data.accept_terms=true`.
    ask : callable, optional
        Asks the user. By default the question is asked on a terminal, and is answered by no elsewhere.

    Returns
    -------
    dict
        `terms` (their date) and `acknowledged` (the time).
    """
    path = state / RECORD
    index = _read(path)
    if index is not None:
        return index
    if not accept and not (ask or _ask)():
        raise Fp2Error(
            f"the terms of use of FHIBE (as of {TERMS}) are not acknowledged",
            where=str(path),
            fix="Read them where you downloaded the data; if you accept them, run once with data.accept_terms=true",
        )
    record = {"terms": TERMS, "acknowledged": datetime.now(UTC).isoformat(timespec="seconds")}
    try:
        state.mkdir(parents=True, exist_ok=True)
        state.chmod(0o700)
        path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    except OSError as error:
        raise Fp2Error(f"the acknowledgement cannot be written: {error.strerror}", where=str(path)) from error
    return record


def _read(path: Path) -> dict[str, str] | None:
    """Return the record of these terms, or None; records of earlier terms and damaged records do not count."""
    record = artifacts.json_object(path)
    if record.get("terms") != TERMS or "acknowledged" not in record:
        return None
    return {"terms": TERMS, "acknowledged": str(record["acknowledged"])}


def _ask() -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(QUESTION, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


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

    @classmethod
    def recognises(cls, dataset: Mapping[str, Any]) -> bool:
        """Return whether the results hold the record of FHIBE's terms of use."""
        return "terms" in (dataset.get("settings") or {})

    def attributes(self) -> list[str]:
        """Return the attributes that the columns of a release give."""
        from fp2.methods.fhibe_release.attributes import AttributeReader
        from fp2.methods.fhibe_release.vocab import DOWNSAMPLED_HEADER

        return list(AttributeReader().read(dict.fromkeys(DOWNSAMPLED_HEADER, "")))

    @property
    def lists_everyone(self) -> bool:
        """Whether whole images are read: the table of face crops lacks the subjects whose face is not shown."""
        return self.options.form in WHOLE_IMAGES

    def load(self, context: LoadContext) -> Dataset:
        """Return the release at `root`."""
        from fp2.methods.fhibe_release.load import read_release
        from fp2.methods.fhibe_release.release import find_release

        chosen = self.options
        release = find_release(chosen.root, chosen.form)
        terms = acknowledge(context.state, chosen.accept_terms)
        fallback = chosen.path.expanduser() if chosen.path else None
        with context.progress.steps("Reading the release", _n_rows(release.table)) as tick:
            dataset = read_release(release, expand_regions=chosen.expand_regions, fallback=fallback, tick=tick)
        if context.remote:
            context.progress.note("FHIBE's images will be sent to another machine: do the terms of use allow that?")
        stated = (
            f"Sony's terms of use of FHIBE, known version {terms['terms']}, acknowledged {terms['acknowledged'][:10]}"
        )
        return replace(dataset, name=chosen.name, settings={**dataset.settings, "terms": terms}, terms=stated)


def _n_rows(path: Path) -> int:
    """Return about how many rows a file has (its lines after the header), 0 where it cannot be read."""
    try:
        with path.open("rb") as handle:
            return max(0, sum(1 for _ in handle) - 1)
    except OSError:
        return 0
