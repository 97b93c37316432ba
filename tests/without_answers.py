"""Results of a run that asked no model: a block of its own, no composite and no answers. No test in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut


def results_with(
    blocks: Mapping[str, Any],
    title: str,
    model: str,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the results that the pipeline puts together of these blocks, for people who were asked about nothing."""
    from fp2.ask.answers import RowAnswers, RunTables
    from fp2.results import Analysis, about_run, assemble, limitations
    from fp2.runs.describe import count_tables

    unknown = dict.fromkeys(("revision", "weights_digest", "dtype", "quantisation", "processor"))
    described = {**unknown, "name": model, "id": model, "engine": "none", "embedded": False}
    about = {
        **about_run({"low": 0.02, "moderate": 0.1, "high": 0.25}, "r1", "c" * 64, [cut.name for cut in cuts]),
        "title": title,
        "created": "2026-11-21T09:30:00+00:00",
        "complete": True,
        "response_set": None,
        "dataset_digest": "0" * 64,
        "model": described,
        "dataset": {"name": "mine", "release": None, "settings": {}},
        "variant": {"name": "original", "kind": "original"},
        "probes": [],
        "scorers": [],
        "limitations": limitations(described, ()),
    }
    counts = count_tables(RunTables(people, RowAnswers.none(), None), cuts, [], 0)
    return assemble(about, counts, Analysis(settings=settings, blocks=blocks))
