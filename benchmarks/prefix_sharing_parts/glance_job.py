"""Runs inside an environment that has glance-vlm: a job in JSON on standard input, the times in JSON on the last line.

The settings are glance's own for its cached path (`prefix_cache`, 16 suffixes a batch), with the checkpoint in the
place of the model that its device table names, in float32.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    """Ask one image twice: the first time to warm up."""
    import os

    job = json.load(sys.stdin)
    os.environ["GLANCE_ROOT"] = tempfile.mkdtemp(prefix="glance_")
    import torch
    from glance.backends.base import Statement
    from glance.backends.vlm_hf import VlmBackend
    from glance.config import load_config
    from glance.images import LoadedImage
    from PIL import Image

    torch.set_num_threads(job["threads"])
    tier = {"id": job["checkpoint"], "revision": "main", "dtype": "float32", "image_token_budget": 1280}
    overrides = {"vlm": {"prefix_cache": True}, "models": {"tier_override": "local", "vlm_tiers": {"local": tier}}}
    backend = VlmBackend(load_config(None, overrides), device="cpu")
    path = Path(job["picture"])
    with Image.open(path) as opened:
        picture = opened.convert("RGB")
    statements = [Statement(text=text, candidate="") for text in job["texts"]]

    def ask(name: str, asked: list[Statement]) -> tuple[float, float, int]:
        image = LoadedImage("img0", picture, name, picture.width, picture.height, "PNG", str(path))
        started = time.perf_counter()
        scores = backend.score_statements([image], None, asked)
        return time.perf_counter() - started, scores.timing_ms["prefix"] / 1000, scores.usage.image_tokens

    ask("warm-up", statements[:2])
    seconds, prefix, tokens = ask("timed", statements)
    found = {"prefix_seconds": prefix, "other_seconds": seconds - prefix, "image_tokens": tokens}
    print(json.dumps({**found, "version": version("glance-vlm"), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
