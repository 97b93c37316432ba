"""Inputs that atheris derives from valid ones, guided by the branches they take; left out where it is not installed.

`python -m benchmarks.torture.fuzz FOLDER SECONDS` is the process that the part starts: libFuzzer ends its process.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.torture.hostile import read_image, read_lexicon, read_passport, read_run, read_table
from benchmarks.torture.project import Row, Yard

READERS: tuple[Callable[[Path, bytes], None], ...] = (
    read_table, read_lexicon, lambda scratch, body: read_passport(scratch, body, scratch / "key.pem"), read_run,
    read_image,
)  # fmt: skip
"""The first byte of an input chooses the reader."""
MODULES = (
    "fp2.data.readers.table", "fp2.scorers.lexicon", "fp2.report.verify", "fp2.runs.reader", "fp2.data.pixels",
)  # fmt: skip


def fuzz(yard: Yard) -> Iterator[Row]:
    """Yield one row: so many inputs in so many seconds, and those that ended otherwise than in one line."""
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: left out, atheris is not installed (pip install atheris)", file=sys.stderr)
        return
    row = Row("inputs derived by atheris: tables of images, lexicons, passports, results, image files")
    scratch = yard.folder / "fuzz"
    _seeds(yard, scratch)
    command = [sys.executable, "-m", "benchmarks.torture.fuzz", str(scratch), str(yard.times(300, 5))]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    counted = re.search(r"Done (\d+) runs", done.stderr)
    row.tries = int(counted[1]) if counted else 0
    row.outcomes["accepted, or refused in one line"] = row.tries
    if done.returncode or not counted:
        row.broken.append(f"exit status {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    yield row


def _seeds(yard: Yard, scratch: Path) -> None:
    """Write valid inputs of each reader: what is changed byte by byte."""
    import fp2

    project = yard.project()
    if project.run().status != 0:
        raise SystemExit("an undisturbed run failed")
    folder = project.bench.run_folders()[0]
    (scratch / "seeds").mkdir(parents=True)
    shutil.copy(project.bench.root / "state" / "keys" / "passport_key.pub.pem", scratch / "key.pem")
    lexicon = Path(fp2.__file__).parent / "scorers" / "lexicons" / "refusal.yaml"
    image = next(project.bench.pictures.rglob("*.png"))
    files = (project.bench.table, lexicon, folder / "passport.json", folder / "results.json", image)
    for number, path in enumerate(files):
        (scratch / "seeds" / path.name).write_bytes(bytes([number]) + path.read_bytes())
    project.remove()


def main(folder: str, seconds: str) -> None:
    """Read inputs until the time is over; an exception other than the user's error ends it with a status."""
    import atheris

    from fp2.errors import Fp2Error

    with atheris.instrument_imports(include=["fp2"]):
        for module in MODULES:
            importlib.import_module(module)
    scratch = Path(folder)

    def one(data: bytes) -> None:
        if data:
            try:
                READERS[data[0] % len(READERS)](scratch, data[1:])
            except Fp2Error as error:
                if "\n" in str(error):
                    raise AssertionError("more than one line") from error

    limits = [f"-max_total_time={seconds}", "-max_len=20000", "-timeout=30", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/", f"{folder}/seeds"], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
