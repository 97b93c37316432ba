"""The Python blocks of README and docs run, those of a page one after the other in one namespace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pytest
from annotated_types import Ge
from bench import REPOSITORY
from PIL import Image
from test_docs import PAGES

import fp2
from fp2.data.base import DataOptions

QUICK = (
    "analysis.permutations=99", "analysis.bootstrap=20", "analysis.min_subjects=3", "report=none", "tracking=none",
    "engine.device=cpu",
)  # fmt: skip
DRAWN = ("data.n_subjects=15", "data.images_per_subject=1", "data.n_pairs=0")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


class Told:
    """A model of the reader's: it answers by the brightness of an image."""

    def ask(self, image: Image.Image, question: str) -> str:
        return "A happy person." if np.asarray(image).mean() > 200 else "A sad person."


def names_of(page: str) -> dict[str, Any]:
    """Return what the text around the blocks of a page takes as given."""
    if page == "extending":
        return {"dataclass": dataclass, "Annotated": Annotated, "Ge": Ge, "DataOptions": DataOptions}
    people = pd.DataFrame({"image": [f"{k}.png" for k in range(24)], "gender": ["f", "m"] * 12})
    if page == "gras":
        keys = {"attribute": "gender", "trait": ["kind", "cruel"] * 2, "template": [1, 1, 2, 2]}
        means = {"group": "f", "polarity": ["positive", "negative"] * 2, "group_mean": 0.6, "overall_mean": 0.5}
        return {
            "p_values": pd.DataFrame({**keys, "p_value": [0.01, 0.2, 0.3, 0.4]}),
            "means": pd.DataFrame({**keys, **means}),
        }
    if page == "recorded":
        table = people[["image"]].assign(question="trust", text="8/10. An honest person.")
        table.to_csv("answers.csv", index=False)
        return {"fp2": fp2, "people": people, "table": table}
    if page != "python":
        return {}
    from transformers import AutoModelForImageTextToText, AutoProcessor

    from fp2.methods.peeps.planted.engine import PlantedEngine
    from fp2.methods.peeps.planted.truth import load_truth

    folder = REPOSITORY / "fp2/models/peeps_vlm"
    values = np.tile([0.2, 0.4, 0.3, 0.1], 10)
    return {
        "my_model": Told(),
        "model": AutoModelForImageTextToText.from_pretrained(folder),
        "processor": AutoProcessor.from_pretrained(folder),
        "engine": PlantedEngine(load_truth({"seed": 1})),
        "is_polite": lambda text: float("please" in text),
        "values": values,
        "groups": np.repeat(["a", "b"], 20),
        "subjects": np.repeat(np.arange(20), 2),
    }


@pytest.fixture
def runs(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> list[fp2.api.Run]:
    """Take less data for every evaluation, and keep what it returns."""
    monkeypatch.chdir(own_root)
    (own_root / "photographs").mkdir()
    found: list[fp2.api.Run] = []
    evaluate = fp2.evaluate

    def quick(*, overrides: tuple[str, ...] = (), **given: Any) -> fp2.api.Run:
        data = given.get("data", "peeps")
        if isinstance(data, pd.DataFrame) and len(data) == 2:  # the first rows of a table of the reader's
            parts = [data.assign(**{name: f"{k}" + data[name] for name in ("image", "subject")}) for k in range(8)]
            given["data"] = pd.concat(parts, ignore_index=True)
            for name in given["data"]["image"]:
                Image.new("RGB", (8, 8), "white").save(own_root / "photographs" / name)
        more = DRAWN if isinstance(data, str) else ()
        probes = "trust,lifestyle,education" if "data" in given else "trust"  # a radar needs three
        select = () if "probes" in given else (f"probe.select=[{probes}]",)
        found.append(evaluate(**given, overrides=[*overrides, *QUICK, *more, *select], progress=False))
        return found[-1]

    monkeypatch.setattr(fp2, "evaluate", quick, raising=False)
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run(page: Path, runs: list[fp2.api.Run]) -> None:
    names: dict[str, Any] = {**names_of(page.stem), "__name__": __name__}
    written = blocks(page)
    for place, block in enumerate(written):
        exec(compile(block, f"{page.name}, block {place + 1}", "exec", dont_inherit=True), names)
    assert sum(block.count("fp2.evaluate(") for block in written) == len(runs)
    for run in runs:
        assert run.complete
        assert run.results["answers"]["answered"] > 0
