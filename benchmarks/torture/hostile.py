"""Hostile inputs by the thousand: whatever is read from outside is accepted or refused in one line, never a crash."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.torture.project import Row, Yard

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30),
    st.sampled_from(["", "null", "1/0", "../..", "a\x00b", "${oc.env:HOME}", "[", "x" * 5000, "!!python/object:os"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
)
KEYS = (
    "seed", "shard", "data.limit", "cut.by", "analysis.alpha", "analysis.severity", "probe.select", "answers.attempts",
    "paths.seed_stores", "model.truth", "scorer", "variant.kind", "model.id", "engine.batch_size", "analysis.adjust",
)  # fmt: skip


def hostile(yard: Yard) -> Iterator[Row]:
    """Yield a row for each kind of input."""
    with tempfile.TemporaryDirectory(dir=yard.folder) as folder:
        scratch = Path(folder)
        for name, share, strategy, read in _inputs(scratch, yard):
            row = Row(f"hostile {name}")
            _tried(row, yard.times(share, 40), strategy, read)
            yield row


def _tried(row: Row, times: int, strategy: Any, read: Callable[[Any], None]) -> None:
    from fp2.errors import Fp2Error

    @settings(
        max_examples=times, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def once(value: Any) -> None:
        try:
            read(value)
            row.add("accepted")
        except Fp2Error as error:
            row.add("refused in one line", ["more than one line"] if "\n" in str(error) else [])
        except Exception as error:
            row.add("crashed", [f"{row.fault}: {type(error).__name__}: {str(error)[:200]} for {value!r:.300}"])

    once()


def _inputs(scratch: Path, yard: Yard) -> list[tuple[str, int, Any, Callable[[Any], None]]]:
    """Return (name, how often, strategy, reader) of each kind of input."""
    project = yard.project()
    if project.run().status != 0:
        raise SystemExit("an undisturbed run failed")
    folder = project.bench.run_folders()[0]
    key = project.bench.root / "state" / "keys" / "passport_key.pub.pem"
    passport, results = (
        json.loads((folder / "passport.json").read_text()),
        json.loads((folder / "results.json").read_text()),
    )
    cells = st.lists(st.lists(st.text(max_size=12), min_size=1, max_size=5), max_size=6)
    return [
        ("overrides", 800, st.tuples(st.sampled_from(KEYS), VALUES), lambda pair: _config(*pair)),
        ("configs of a logged run", 2200, st.tuples(st.sampled_from(KEYS), VALUES), lambda pair: _logged(*pair)),
        (
            "tables of images (CSV)",
            2000,
            st.one_of(cells, st.binary(max_size=400)),
            lambda body: read_table(scratch, body),
        ),
        ("lexicons (YAML)", 2000, st.one_of(VALUES, st.binary(max_size=300)), lambda body: read_lexicon(scratch, body)),
        ("passports", 1500, _changed(passport), lambda value: read_passport(scratch, value, key)),
        ("results of a run", 1000, _changed(results), lambda value: read_run(scratch, value)),
        ("image files", 500, st.binary(max_size=400), lambda body: read_image(scratch, body)),
    ]


def _changed(value: Any) -> Any:
    """Return values with one key replaced by anything, raw bytes, or any JSON value."""
    one = st.tuples(st.sampled_from(sorted(value)), VALUES).map(lambda pair: {**value, pair[0]: pair[1]})
    return st.one_of(one, VALUES, st.binary(max_size=300))


def _written(path: Path, value: Any) -> Path:
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def _config(key: str, value: Any) -> None:
    from fp2.compose import load_config

    load_config([f"{key}={value if isinstance(value, str) else json.dumps(value)}"])


@cache
def _plain() -> dict[str, Any]:
    from fp2.compose import load_config

    return asdict(load_config(["model=planted"]))


def _logged(key: str, value: Any) -> None:
    from fp2.compose import from_plain

    plain = deepcopy(_plain())
    *path, last = key.split(".")
    node = plain
    for part in path:
        node = node[part]
    node[last] = value
    from_plain(plain)


def read_table(scratch: Path, body: Any) -> None:
    from fp2.data.readers.table import load_table

    path = scratch / "people.csv"
    lines = "file,person,gender\n" + "\n".join(map(",".join, body)) if isinstance(body, list) else body
    path.write_bytes(lines.encode("utf-8", "surrogatepass") if isinstance(lines, str) else lines)
    load_table(path, {"image": "file", "subject": "person", "gender": "gender"})


def read_lexicon(scratch: Path, body: Any) -> None:
    from fp2.scorers.lexicon import load_lexicon

    path = scratch / "lexicon.yaml"
    path.write_bytes(body if isinstance(body, bytes) else yaml.safe_dump(body).encode())
    load_lexicon(str(path))


def read_passport(scratch: Path, value: Any, key: Path) -> None:
    from fp2.errors import Fp2Error
    from fp2.report.verify import verify_passport

    outcome = verify_passport(_written(scratch / "passport.json", value), [key])
    if not outcome.ok:
        raise Fp2Error(outcome.failures[0])


def read_run(scratch: Path, value: Any) -> None:
    from fp2.runs.reader import read_results

    _written(scratch / "results.json", value)
    read_results(scratch)


def read_image(scratch: Path, body: bytes) -> None:
    from fp2.data.pixels import digest_image
    from fp2.errors import Fp2Error

    path = scratch / "image.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    if (found := digest_image(path)).error:
        raise Fp2Error(found.error)
