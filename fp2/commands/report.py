"""`fp2 report`: one report on the runs of a sweep, or on any runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fp2.commands.output import Output
from fp2.compose import load_config
from fp2.errors import Fp2Error


def report(words: Sequence[str], overrides: Sequence[str], folder: Path | None = None, as_json: bool = False) -> None:
    """Write the report of the runs that `words` name, and print where it is.

    Parameters
    ----------
    words : sequence of str
        Runs, folders of sweeps, or ids of sweeps.
    overrides : sequence of str
        Where runs are (`paths.*`, `tracking.*`), and `report.*`.
    folder : Path, optional
        Where the files go; by default into `report` in the sweep's folder, or in a new output folder.

    Raises
    ------
    Fp2Error
        If no run is named, one cannot be read, or the report cannot be written.
    """
    from fp2.progress import Progress
    from fp2.runs.sweep_report import make_report, places_of

    if not words:
        fix = "Give the folder of a sweep, its id, or runs: fp2 report RUN RUN"
        raise Fp2Error("no run is named", where="fp2 report", fix=fix)
    block, made = make_report(words, load_config(overrides), folder, Progress())
    with Output(as_json) as out:
        for one in block["missing"]:
            out.say(f"missing      {one['run']}: {one['reason']}")
        out.say(missing=block["missing"])
        for name, path in places_of(made).items():
            out.path(name, path)
