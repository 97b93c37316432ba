"""What may be shared between the questions about an image, for every image-text-to-text type of transformers.

Each type gets a tiny random checkpoint (`families_parts/build.py`: the library's own config, shrunk, and its own
processor with a tokenizer and a chat template of ours), and the engine's own check finds what it may share
(`families_parts/check.py`). Each type runs in a process of its own with a limit of time and memory.

    python -m benchmarks.families            # all types, into fp2/engines/hf/families.csv
    python -m benchmarks.families llava git  # the rows of some

`equal` means: in float32, the logits are those of one full prompt at a time to 1e-4 of the largest, and the
probabilities to 1e-5; in 16 bits and quantised, they differ by no more than batching explains. Types without a PIL
image processor need torchvision.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
TABLE = Path(__file__).resolve().parents[1] / "fp2" / "engines" / "hf" / "families.csv"
SECONDS, GIGABYTES, TOGETHER = 600, 12, 3


def types() -> list[str]:
    """Return the types of transformers' own mapping."""
    from families_parts.build import auto

    return list(auto("modeling_auto").MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)


def measure(kind: str) -> dict[str, str]:
    """Return the cells of one type, computed in a process of its own."""
    context = multiprocessing.get_context("fork")
    results: Any = context.SimpleQueue()
    process = context.Process(target=_work, args=(kind, results))
    process.start()
    end = time.monotonic() + SECONDS
    while process.is_alive() and results.empty() and time.monotonic() < end:
        process.join(0.1)
    cells: dict[str, str] = {"asked": f"cannot be built: more than {SECONDS} s or {GIGABYTES} GB"}
    if not results.empty():
        cells = results.get()
    process.kill()
    process.join()
    return cells


def _work(kind: str, results: Any) -> None:
    from families_parts.check import cells_of

    resource.setrlimit(resource.RLIMIT_AS, (GIGABYTES << 30, GIGABYTES << 30))
    folder = Path(tempfile.mkdtemp(prefix="fp2-family-"))
    try:
        results.put(cells_of(kind, folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def usable_torchvision() -> None:
    """Let a torchvision whose compiled operators are for another torch be imported: resizing needs none of them."""
    import torch

    register = torch.library.register_fake

    def registered(name: Any, *args: Any, **options: Any) -> Any:
        return (lambda made: made) if str(name).startswith("torchvision::") else register(name, *args, **options)

    torch.library.register_fake = registered
    try:
        __import__("torchvision")
    except ImportError:
        pass
    finally:
        torch.library.register_fake = register


def write(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> None:
    """Put rows into the table, in the place of those of the same types."""
    held: dict[str, dict[str, str]] = {}
    if TABLE.is_file():
        with TABLE.open(newline="", encoding="utf-8") as file:
            held = {row["type"]: row for row in csv.DictReader(file)}
    held |= {row["type"]: row for row in rows}
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ("type", *columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(held[kind] for kind in types() if kind in held)


def main() -> None:
    """Write the rows of all types, or of some."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("types", nargs="*", help="types of models; all by default")
    parser.add_argument("--json", action="store_true", help="print the rows as a JSON object on the last line")
    options = parser.parse_args()
    usable_torchvision()
    import torch
    import transformers
    from families_parts.check import COLUMNS

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for shared in ("accelerate", "bitsandbytes", "fp2.engines.hf.session", "PIL.Image", "transformers.modeling_utils"):
        importlib.import_module(shared)  # once, before the processes are forked
    torch.set_num_threads(1)
    kinds, rows = options.types or types(), []
    with ThreadPoolExecutor(TOGETHER) as pool:
        futures = {pool.submit(measure, kind): kind for kind in kinds}
        for future in as_completed(futures):
            cells = future.result()
            row = {"type": futures[future], **{name: cells.get(name, "") for name in COLUMNS}}
            print(", ".join(f"{name}: {cell}" for name, cell in row.items() if cell), flush=True)
            write([row], COLUMNS)
            rows.append(row)
    if options.json:
        print(json.dumps({"families": rows}))


if __name__ == "__main__":
    main()
