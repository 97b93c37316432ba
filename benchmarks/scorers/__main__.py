"""Compare the scorers with labelled answers and print a table; `docs/scorers.json` has the numbers of the held answers.

`python -m benchmarks.scorers` measures the default scorers on every file of `benchmarks/scorers/gold`; overrides such
as `scorer.refusal.lexicon_file=refusal` measure others, `--scorer FILE.yaml` scorers of your own, such as a classifier
or a judge (`benchmarks.scorers.own`). `--errors NAME` prints the answers that a scorer reads otherwise than they are
labelled. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.scorers.measure import MAPPED, Agreement, Gold, Share, agreement, read_gold
from benchmarks.scorers.own import own_scorers
from fp2.compose import load_config
from fp2.errors import Fp2Error
from fp2.scorers.base import Scorer
from fp2.scorers.labels import LabelScale
from fp2.scorers.registry import build_scorers
from fp2.stats.core.numeric import finite

GOLD = Path(__file__).parent / "gold"


def is_held(path: Path) -> bool:
    """Whether answers are evaluated only, and nothing is built on them: the files `held2.jsonl`, `held3.jsonl`, ..."""
    return path.stem.startswith("held")


def main(words: Sequence[str] | None = None) -> int:
    """Run the comparison; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scorers", description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="files of labelled answers (*.jsonl), and overrides of scorers")
    parser.add_argument("--errors", metavar="NAME", help="print the answers on which this scorer and the labels differ")
    parser.add_argument("--scorer", metavar="FILE", type=Path, help="measure the scorers in this YAML file instead")
    parser.add_argument("--store", metavar="FILE", type=Path, help="where what their models return is kept")
    parser.add_argument("--json", action="store_true", help="print the last line only")
    args = parser.parse_args(words)
    files = [Path(word) for word in args.overrides if word.endswith(".jsonl")] or sorted(GOLD.glob("*.jsonl"))
    try:
        words = [word for word in args.overrides if not word.endswith(".jsonl")]
        with own_scorers(args.scorer, args.store) if args.scorer else nullcontext(default_scorers(words)) as measured:
            found = measure(files, measured)
    except Fp2Error as error:
        print(error, file=sys.stderr)
        return 2
    if not args.json:
        print(table(found))
    for gold, agreements in found.values():
        for one in agreements:
            if one.scorer == args.errors:
                print("\n".join(error_line(gold, one, row) for row in one.wrong))
    agreed = {name: {one.scorer: numbers(one) for one in agreements} for name, (_, agreements) in found.items()}
    print(json.dumps(agreed, allow_nan=False))
    return 0


def default_scorers(overrides: Sequence[str]) -> dict[str, tuple[Scorer, LabelScale]]:
    """Return the default scorers, changed by `overrides`, with how they are read."""
    config = load_config(overrides)
    scorers = build_scorers({name: spec for name, spec in config.scorer.items() if name in MAPPED})
    return {name: (scorers[name], MAPPED[name]) for name in MAPPED if name in scorers}


def measure(
    files: Sequence[Path], scorers: Mapping[str, tuple[Scorer, LabelScale]]
) -> dict[str, tuple[Gold, list[Agreement]]]:
    """Return the labelled answers and the agreement of every scorer, for each file by its name."""
    golds = {path.stem: read_gold(path) for path in files}
    return {
        stem: (gold, [agreement(name, scorer, gold, mapped) for name, (scorer, mapped) in scorers.items()])
        for stem, gold in golds.items()
    }


def table(found: dict[str, tuple[Gold, list[Agreement]]]) -> str:
    """Return the agreement as a Markdown table, a row for each file, scorer and class."""
    lines = [
        "| answers | scorer | class | n | precision | recall | F1 | F1 where both | coverage |",
        "|---|---|--:|--:|---|---|---|--:|---|",
    ]
    for half, (_, agreements) in found.items():
        for one in agreements:
            summary = f"**{one.f1[0]:.2f}** ({one.f1[1]:.2f} to {one.f1[2]:.2f}) | {one.f1_covered:.2f}"
            covered = percent(one.coverage)
            if one.labelled_coverage.n < one.n:
                covered += f"; of labelled {percent(one.labelled_coverage)}"
            for value, (precision, recall) in one.classes.items():
                cells = f"{share(precision)} | {share(recall)} | {summary} | {covered}"
                name = f"{value:+d}" if value else "0"
                lines.append(f"| {half} | `{one.scorer}` | {name} | {recall.n} | {cells} |")
                summary, covered = " | ", ""
    return "\n".join(lines)


def share(one: Share) -> str:
    """Return a proportion with its interval."""
    return f"{one.value:.2f} ({one.interval[0]:.2f} to {one.interval[1]:.2f})" if one.n else "-"


def percent(one: Share) -> str:
    """Return a proportion in per cent."""
    return f"{100 * one.value:.0f} % of {one.n}" if one.n else "-"


def numbers(one: Agreement) -> dict[str, Any]:
    """Return the agreement as JSON values; a number that is not defined is None."""
    f1, f1_low, f1_high = map(finite, one.f1)
    return {
        "n": one.n,
        "f1": f1,
        "f1_low": f1_low,
        "f1_high": f1_high,
        "f1_covered": finite(one.f1_covered),
        "r": finite(one.r),
        "same": finite(one.same),
        "coverage": finite(one.coverage.value),
        "labelled_coverage": finite(one.labelled_coverage.value),
        "classes": {
            str(value): {
                "n": recall.n,
                "precision": finite(precision.value),
                "precision_interval": [*map(finite, precision.interval)],
                "recall": finite(recall.value),
                "recall_interval": [*map(finite, recall.interval)],
            }
            for value, (precision, recall) in one.classes.items()
        },
    }


def error_line(gold: Gold, agreement: Agreement, row: int) -> str:
    """Return an answer with its label, and what the scorer's class is read from."""
    label = gold.labels[agreement.label][row]
    return f"{gold.ids[row]} {gold.probes[row]} [{label:+.0f}] {gold.texts[row]!r}"


if __name__ == "__main__":
    sys.exit(main())
