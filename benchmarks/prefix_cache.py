"""How many tokens of the prompts a server takes from its prefix cache: the questions of a battery about some images.

    vllm serve MODEL --port 8000 --enable-prompt-tokens-details       # in another terminal, another environment
    python benchmarks/prefix_cache.py --base-url http://localhost:8000/v1 --id MODEL data.n_pairs=0

The run asks every question of the battery about each image, into an empty store of its own. `cached_share` is what the
server reports (`serving` in results.json; null if it reports nothing). `limit` is what a cache of whole prompts could
reach where the questions about an image differ in a negligible part: all but the first question about each image.
A cache that works in blocks of tokens stays below it. Further words go to the run (`data=...`, `probe=...`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
QUICK = ("report=none", "tracking=none", "analysis=quick")


def measure(base_url: str, model: str, images: int, words: list[str]) -> dict[str, Any]:
    """Run once; return what the server reported, and the limit."""
    with tempfile.TemporaryDirectory(prefix="fp2-prefix-") as folder:
        where = [f"paths.root={folder}", f"paths.state={folder}/state", f"data.limit={images}"]
        server = ["model=openai_compat", f"model.base_url={base_url}", f"model.id={model}"]
        command = [sys.executable, str(ROOT / "launch.py"), *server, *QUICK, *where, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (path,) = Path(folder).rglob("results.json")
        results = json.loads(path.read_text(encoding="utf-8"))
    serving, answers = results["serving"], results["answers"]
    names = ("prompt_tokens", "cached_tokens", "cached_share")
    told = {name: serving.get(name) for name in names}
    return {
        "answers": answers["answered"],
        "failed": answers["failed"],
        **told,
        "limit": 1 - images / answers["planned"],
    }


def main() -> int:
    """Measure, print one line or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", help="address of the server; without one nothing is measured")
    parser.add_argument("--id", help="the model's name on the server")
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    if not given.base_url or not given.id:
        reason = "no server is named (--base-url, --id)"
        print(json.dumps({"benchmark": "prefix_cache", "skipped": reason}) if given.json else reason)
        return 0 if given.json else 2
    found = {"benchmark": "prefix_cache", **measure(given.base_url, given.id, given.images, given.words)}
    if given.json:
        print(json.dumps(found))
    else:
        share = "not reported" if found["cached_share"] is None else f"{found['cached_share']:.1%}"
        print(
            f"{found['answers']} answers; from the cache: {share} of the prompts' tokens (at most {found['limit']:.1%})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
