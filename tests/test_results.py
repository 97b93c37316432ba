"""`results.json` is put together in one place: from what the run is, from counts, and from what its protocol found."""

from __future__ import annotations

from typing import Any

import pytest

from fp2.notes import read_notes
from fp2.protocols.fingerprint.disparities import NO_COMPOSITE
from fp2.results import (
    ENGLISH,
    NO_MODEL,
    NULL_MEAN,
    SIGNATURE,
    VADER,
    Analysis,
    Counts,
    assemble,
    changed_methods,
    limitations,
    owned,
    with_scorers,
)

COUNTS = Counts(2, 1, {"planned": 4}, [], [], [{"cut": "age"}], [], {"age": {"60+": {"n_subjects": 1, "n_images": 2}}})
ABOUT: dict[str, Any] = {
    "run_id": "r", "cuts": ["age", "region"], "dataset": {"name": "d", "digest": "old", "groups": {}}, "probes": ["p"],
    "dataset_digest": "new", "limitations": ["a line"], "purged": [{"at": "then"}],
}  # fmt: skip


def test_nothing_of_an_earlier_analysis_stays() -> None:
    """A purge hands over the results that it replaces: blocks and numbers that are not found again must go."""
    before = {**ABOUT, "gras": {"metrics": {"score": 1}}, "composite": 0.3, "balance": [1], "disparities": [{"raw": 1}]}
    found = assemble(before, COUNTS, Analysis(settings={"alpha": 0.05}))
    assert "gras" not in found
    assert (found["composite"], found["severity"], found["disparities"]) == (None, None, [])
    assert found["balance"] == [{"cut": "age"}]
    assert found["dataset"] == {"name": "d", "digest": "new", "groups": COUNTS.groups, "without_value": {}}
    assert found["purged"] == [{"at": "then"}]
    assert found["limitations"] == ["a line"]


def test_the_headline_is_the_composite_of_the_first_cut() -> None:
    composites = {"region": {**NO_COMPOSITE, "value": 0.1}, "age": {**NO_COMPOSITE, "value": 0.2, "severity": "low"}}
    found = assemble(ABOUT, COUNTS, Analysis(settings={}, composites=composites))
    assert (found["composite"], found["severity"]) == (0.2, "low")
    del composites["age"]
    assert assemble(ABOUT, COUNTS, Analysis(settings={}, composites=composites))["composite"] is None
    assert assemble({**ABOUT, "cuts": []}, COUNTS, Analysis(settings={}))["composite"] is None


def test_what_the_analysis_says_of_probes_and_scorers_replaces_the_runs_and_blocks_are_added() -> None:
    found = assemble(ABOUT, COUNTS, Analysis(settings={}, blocks={"own": {"n": 1}}, about={"probes": ["q"]}))
    assert (found["probes"], found["own"]) == (["q"], {"n": 1})


@pytest.mark.parametrize(
    ("model", "first"),
    [
        ({"embedded": True}, "The model is simulated"),
        ({"embedded": False, "server": {}}, "A server answered"),
        ({"embedded": False}, "A disparity means"),
        ({"embedded": False, "name": NO_MODEL}, "A signature proves"),
    ],
)
def test_limitations_say_what_the_reader_has_to_know(model: dict[str, Any], first: str) -> None:
    lines = limitations({"name": "m", **model}, ["a note"])
    assert lines[0].startswith(first)
    assert lines[-1] == "a note"
    stated = limitations({"name": "m", **model}, ["a note"], ["its own", ENGLISH, NULL_MEAN])
    assert set(stated) - set(lines) == {"its own", ENGLISH, NULL_MEAN}
    assert stated.index(NULL_MEAN) < stated.index(ENGLISH) < stated.index(SIGNATURE) < stated.index("its own")


def test_limitations_of_scorers_follow_the_scorers() -> None:
    from fp2.scorers.registry import limitations_of
    from fp2.scorers.trust_rating import TrustRating
    from fp2.scorers.valence import Valence

    both, none = (
        limitations_of({"valence": Valence(), "more": Valence(name="more")}),
        limitations_of({"t": TrustRating()}),
    )
    assert (both, none) == ([VADER, ENGLISH], [])
    released = "Valence is VADER's: polite refusals can score positive."  # as 0.3.0 words it
    logged = read_notes({"limitations": ["first", released, str(ENGLISH), "a note"]})
    assert with_scorers(logged, both) == logged
    assert with_scorers(logged, none) == ["first", "a note"]
    others = read_notes({"limitations": ["first", "a note"]})
    assert with_scorers(others, both) == ["first", "a note", VADER, ENGLISH]


def test_methods_of_another_version_are_named_with_the_places_they_own():
    methods = (
        ("interval", 2, ("disparities.*.ci_low", "*.ours.ci_low")),
        ("verdict", 3, ("*.verdict",)),
        ("ranks", 1, ("ranks",)),
    )
    changed = changed_methods({}, methods)  # a run of 0.3.0 names none: version 1 of all
    assert set(changed) == {"interval", "verdict"}
    assert set(changed_methods({"methods": {"interval": 2, "verdict": 2}}, methods)) == {"verdict"}
    assert owned("disparities.3.ci_low", changed)
    assert owned("fhibe_scores.outcomes.0.ours.ci_low", changed)
    assert not owned("disparities.3.raw", changed)
    assert not owned("ranks", changed)
    assert assemble(ABOUT, COUNTS, Analysis(settings={}, methods={"interval": 2}))["methods"] == {"interval": 2}
