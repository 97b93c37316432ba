"""`results.json`: everything a run found, in one documented, finite, path-free object that reports read.

Its parts come from three places: what the run is (`about`: model, data, config), what follows from counting its tables
(`Counts`), and what its protocol found in them (`Analysis`). A purge and a rescoring replace the last two. Two such
objects are compared by `differences`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Literal, NotRequired, Protocol, TypedDict, TypeGuard, overload

from fp2 import __version__
from fp2.notes import Note, NoteKind, Stage, as_notes, logged
from fp2.text import plural

SCHEMA_VERSION = 1
Block = Mapping[str, Any]
"""A part of the results that one protocol or supplement makes: finite JSON values."""
Results = dict[str, Any]
"""The content of `results.json`: the keys of `ABOUT`, `HISTORY` and `Counts`, and the blocks of the protocol."""
Row = dict[str, Any]
"""A disparity row (`docs/results.md`), with the columns that supplements add."""


class Probe(TypedDict):
    """What was asked, or the outcome of a task."""

    id: str
    label: str
    text: str
    choices: NotRequired[list[list[str]]]


class ScorerFacts(TypedDict):
    """A scorer, or the metric of a task; `model` is the identity of a model that it asks."""

    name: str
    version: str
    higher_is_better: bool
    value_range: list[float]
    smallest_effect: float
    lexicon: Block | None
    model: NotRequired[Block]


class BalanceRow(TypedDict):
    """The association of an attribute of a cut with another attribute, over subjects with both labels.

    `counts` are subjects by `rows` and `columns`, None where a cell has 1 to 9; `as_of_first_run` marks an entry that
    was taken over from the first run, because the tables lack one of its attributes.
    """

    cut: str
    attribute: str
    other: str
    n_subjects: int
    cramers_v: float | None
    confounded: bool
    rows: list[str]
    columns: list[str]
    counts: list[list[float | None]]
    as_of_first_run: NotRequired[bool]


class GroupRow(TypedDict):
    """A group of a disparity; `eligible`: whether it is compared."""

    group: str
    n_subjects: int
    n_images: int
    mean: float | None
    sd: float | None
    eligible: bool
    suppressed: NotRequired[bool]


class ComparedRow(TypedDict):
    """A row of `disparities` with what reports read of it; runs of earlier versions lack some columns."""

    probe: str
    scorer: str
    cut: str
    status: str
    verdict: str
    n_subjects: int
    significant: bool | None
    raw: float | None
    null_mean: float | None
    null_p95: float | None
    ci_low: float | None
    ci_high: float | None
    p_value: float | None
    adjusted_p: float | None
    worst_group: str | None
    best_group: str | None
    groups: list[GroupRow]
    shrunken: NotRequired[float | None]
    pair_gap: NotRequired[float | None]
    hedges_g: NotRequired[float | None]
    answer_d: NotRequired[float | None]
    mde80: NotRequired[float | None]
    smallest_effect: NotRequired[float | None]
    selected_ci_low: NotRequired[float | None]
    selected_ci_high: NotRequired[float | None]
    holds_under_refusals: NotRequired[bool | None]


class FrequentAnswer(TypedDict):
    """A distinct answer to a probe, and how often it was given."""

    probe: str
    text: str
    count: int


class Composite(TypedDict):
    """The composite of a cut with what reports read of it; `value` is None where there is none."""

    value: float | None
    null_mean: float | None
    severity: str | None
    excess: NotRequired[float | None]
    p_value: NotRequired[float | None]
    adjusted_p: NotRequired[float | None]
    magnitude: NotRequired[float | None]
    magnitude_low: NotRequired[float | None]
    magnitude_high: NotRequired[float | None]
    groups: NotRequired[list[str]]
    probes: NotRequired[list[str]]


class Summary(TypedDict):
    """A run in one cut, for the leaderboard (`fp2.report.leaderboard`); runs of earlier versions lack some keys."""

    model: str
    dataset: str
    cut: str
    composite: float | None
    chance: float | None
    excess: float | None
    p_value: float | None
    severity: str | None
    n_subjects: int
    n_probes: int
    complete: bool
    calibration: bool
    without_effects: NotRequired[bool]
    created: str
    run_id: str
    variant: NotRequired[str | None]
    refused: NotRequired[float | None]
    magnitude: NotRequired[float | None]
    scorer: NotRequired[str]


class RunResults(Protocol):
    """What readers see of `results.json`: the types of the keys that every run has; other keys are blocks (`Block`)."""

    @overload
    def __getitem__(self, key: Literal["disparities"], /) -> Sequence[ComparedRow]: ...
    @overload
    def __getitem__(self, key: Literal["composites"], /) -> Mapping[str, Composite]: ...
    @overload
    def __getitem__(self, key: Literal["probes"], /) -> Sequence[Probe]: ...
    @overload
    def __getitem__(self, key: Literal["scorers"], /) -> Sequence[ScorerFacts]: ...
    @overload
    def __getitem__(self, key: Literal["balance"], /) -> Sequence[BalanceRow]: ...
    @overload
    def __getitem__(self, key: Literal["answers_by_group", "refusal_rates", "diversity"], /) -> Sequence[Block]: ...
    @overload
    def __getitem__(self, key: Literal["cuts"], /) -> Sequence[str]: ...
    @overload
    def __getitem__(self, key: Literal["n_images", "n_subjects"], /) -> int: ...
    @overload
    def __getitem__(self, key: Literal["complete"], /) -> bool: ...
    @overload
    def __getitem__(self, key: Literal["run_id", "created", "config_hash", "response_set"], /) -> str: ...
    @overload
    def __getitem__(self, key: str, /) -> Any: ...
    def __contains__(self, key: object, /) -> bool:
        """Return whether the results have a key: runs of earlier versions lack some."""

    @overload
    def get(self, key: str, /) -> Any: ...
    @overload
    def get(self, key: str, default: Any, /) -> Any: ...


DIFFERENCE = NoteKind(
    "difference",
    Stage.RUN,
    "A disparity means that the model's answers differ between groups in these images; it does not say why.",
)()
VADER = NoteKind(
    "vader",
    Stage.SCORERS,
    "Valence is VADER's compound score: polite refusals can score positive, and some occupation words carry valence.",
)()
NULL_MEAN = NoteKind(
    "null_mean", Stage.RUN, "A raw max-min gap is above zero by chance alone; read it beside its null mean."
)()
ENGLISH = NoteKind("english", Stage.SCORERS, "Lexicons and the valence scorer are for English answers.")()
SIGNATURE = NoteKind(
    "signature",
    Stage.RUN,
    "A signature proves the origin and integrity of these results, not that the measurement is valid.",
)()
LIMITATIONS = (DIFFERENCE, VADER, NULL_MEAN, ENGLISH, SIGNATURE)
"""In the order of reading; some hold for the runs of some protocols and scorers, which state them."""
SERVED = NoteKind(
    "served",
    Stage.RUN,
    "A server answered: its weights cannot be verified; what it reported of itself is in `model.server`.",
)()
SUPPLIED = NoteKind(
    "supplied",
    Stage.RUN,
    "The answers were supplied, not asked here: the model, the questions, the images and the settings are those that "
    "their source states. `model.supplied` has the digest of the file.",
)()
LOOKED_AT = NoteKind(
    "earlier_looks",
    Stage.RUN,
    lambda n: (
        f"These answers were analysed in {plural(n, 'earlier run')} with other settings; p-values do not account for "
        "that."
    ),
)
EMBEDDED = NoteKind(
    "embedded",
    Stage.RUN,
    "The model is simulated, or effects were planted in it on purpose: the run is a positive control, not a finding "
    "about people.",
)()
WITHOUT_EFFECTS = NoteKind(
    "without_effects",
    Stage.RUN,
    "The model is simulated, without planted effects: the run is not a finding about people.",
)()
NO_MODEL = "nobody asked"
"""The model's name in results without a model; reports do not show it."""


Method = tuple[str, int, tuple[str, ...]]
"""A method whose numbers can differ between versions of fp2: its name, its version (1 in 0.3.0), and the places in
`results.json` that it owns, as shell patterns of dotted places: `disparities.*.p_value`."""


def changed_methods(before: Block, methods: Sequence[Method]) -> dict[str, tuple[str, ...]]:
    """Return the methods whose version differs from that in the results `before`, with the places they own."""
    logged = before.get("methods") or {}
    return {name: targets for name, version, targets in methods if logged.get(name, 1) != version}


def owned(place: str, changed: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a dotted place in results is owned by a changed method."""
    return any(fnmatchcase(place, pattern) for patterns in changed.values() for pattern in patterns)


def looked_notes(about: Block) -> list[Note]:
    """Return the limitation that the answers were analysed before (`earlier_looks` of `about`), or nothing."""
    return [LOOKED_AT(n=n)] if (n := about.get("earlier_looks")) else []


@dataclass(frozen=True)
class Counts:
    """What follows from counting the tables of a run: the keys of `results.json` with these names.

    `groups` (cut -> group -> subjects and images) and `without_value` (cut -> subjects in no group) stand under
    `dataset`.
    """

    n_images: int
    n_subjects: int
    answers: Mapping[str, int]
    answers_by_group: Sequence[Block]
    refusal_rates: Sequence[Block]
    balance: Sequence[BalanceRow]
    diversity: Sequence[Block]
    groups: Mapping[str, Mapping[str, Mapping[str, int]]]
    without_value: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Analysis:
    """What a protocol found in the tables of a run.

    Attributes
    ----------
    settings : mapping
        How groups were compared (key `analysis`).
    blocks : mapping
        Block name -> block: finite JSON values. Two keys of a block are read by everything: `metrics` (flat name ->
        number) is logged to MLflow, and `headline` (a small mapping) goes into the passport.
    disparities : list of dict
        One row per probe, scorer and cut (`docs/results.md`).
    composites : mapping
        Cut -> composite of the primary scorer; empty where the protocol has none.
    coverage : list of dict
        Images with a value per group and outcome.
    notes : sequence of str
        Limitations that follow from the tables (`fp2.notes`).
    about : mapping
        Keys of `ABOUT` that follow from the analysis (`probes`, `scorers`); they replace the run's.
    methods : mapping
        Name -> version of the methods behind the numbers; the pipeline adds those of the protocol.
    """

    settings: Block
    blocks: Mapping[str, Block] = field(default_factory=dict)
    disparities: list[Row] = field(default_factory=list)
    composites: Mapping[str, Block] = field(default_factory=dict)
    coverage: Sequence[Block] = ()
    notes: Sequence[str] = ()
    about: Block = field(default_factory=dict)
    methods: Mapping[str, int] = field(default_factory=dict)


ABOUT = (
    "schema_version", "fp2_version", "severity_bounds", "title", "run_id", "created", "complete", "config_hash",
    "response_set", "dataset_digest", "model", "architecture", "dataset", "variant", "probes", "scorers", "cuts",
    "serving", "limitations", "earlier_looks",
)  # fmt: skip
"""Keys that say what a run is."""
HISTORY = ("purged", "rescored_from")
"""Keys that say what became of it."""
PROSE = (
    "dropped", "family", "fit", "limitations", "meaning", "method", "notes", "reason", "warnings", "why",
)  # fmt: skip
"""Keys, at any depth, of sentences for the reader; later versions may word them differently."""
DEFINITIONS = ("features", "metrics")
"""Keys, at any depth, of mappings from names to definitions for the reader, where their values are sentences."""


def about_run(severity_bounds: Mapping[str, float], run_id: str, config_hash: str, cuts: Sequence[str]) -> Results:
    """Return what a new run says of itself, whether it asked or scored stored answers: versions, bounds, ids, time."""
    return {
        "schema_version": SCHEMA_VERSION,
        "fp2_version": __version__,
        "severity_bounds": dict(severity_bounds),
        "run_id": run_id,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config_hash": config_hash,
        "cuts": list(cuts),
    }


def assemble(about: Block, counts: Counts, analysis: Analysis) -> Results:
    """Return `results.json`.

    Parameters
    ----------
    about : mapping
        What the run is: the keys of `ABOUT`, and those of `HISTORY` that apply; others are dropped, so that no block
        of an earlier analysis stays. A mapping, not a class: after a purge or rescoring it is the logged results of
        any version, and a class would list the keys of `ABOUT` a second time.
    counts : Counts
        What follows from counting the tables.
    analysis : Analysis
        What the protocol found. The composite and severity of the run are those of its first cut; a partial run has no
        severity.
    """
    composites = {cut: dict(row) for cut, row in analysis.composites.items()}
    if not about.get("complete", True):  # which answers are missing depends on the order of asking
        composites = {cut: {**row, "severity": None} for cut, row in composites.items()}
    first = composites.get(about["cuts"][0], {}) if about["cuts"] else {}
    about = {**about, **analysis.about}
    head = {key: about[key] for key in (*ABOUT, *HISTORY) if key in about and key != "limitations"}
    return {
        **head,
        "dataset": {
            **about["dataset"],
            "digest": about["dataset_digest"],
            "groups": counts.groups,
            "without_value": dict(counts.without_value),
        },
        "n_images": counts.n_images,
        "n_subjects": counts.n_subjects,
        "answers": dict(counts.answers),
        "answers_by_group": list(counts.answers_by_group),
        "refusal_rates": list(counts.refusal_rates),
        "coverage": list(analysis.coverage),
        "balance": list(counts.balance),
        "composite": first.get("value"),
        "severity": first.get("severity"),
        "composites": composites,
        "disparities": analysis.disparities,
        "diversity": list(counts.diversity),
        "analysis": dict(analysis.settings),
        "methods": dict(analysis.methods),
        **logged(as_notes(about["limitations"], Stage.RUN)),
        **analysis.blocks,
    }


def limitations(model: Block, notes: Sequence[Note], stated: Sequence[Note] = ()) -> list[Note]:
    """Return what a reader has to know, `notes` included; `stated`: by the protocol and the scorers of the run."""
    holds = {SIGNATURE, *stated, *([DIFFERENCE] if model["name"] != NO_MODEL else [])}
    return [
        *([WITHOUT_EFFECTS if model.get("without_effects") else EMBEDDED] if model["embedded"] else []),
        *([SERVED] if "server" in model else []),
        *([SUPPLIED] if "supplied" in model else []),
        *(note for note in LIMITATIONS if note in holds),
        *(note for note in stated if note not in LIMITATIONS),
        *notes,
    ]


def with_scorers(notes: Sequence[Note], stated: Sequence[Note]) -> list[Note]:
    """Return logged notes with those of the scorers replaced by what is `stated` by the scorers of another scoring."""
    present = {note.identity for note in stated}
    scorer_notes = [note for note in notes if note.stage is not Stage.SCORERS or note.identity in present]
    logged = {note.identity for note in scorer_notes}
    return scorer_notes + [note for note in stated if note.identity not in logged]


# Numbers come from the same seeds; only the order of floating-point sums may differ between machines.
TOLERANCE = 1e-9


def differences(old: object, new: object, place: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, as dotted places; numbers may differ by `TOLERANCE`.

    Sentences for the reader may be written better by a later version: those under `PROSE`, and the definitions under
    `DEFINITIONS`. They have to be in both; what they say is not compared.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            inside = f"{place}.{key}" if place else str(key)
            before, after = old.get(key), new.get(key)
            if key in old and key in new and key in PROSE and _is_prose(before) and _is_prose(after):
                continue
            if key in DEFINITIONS and _are_definitions(before) and _are_definitions(after):
                yield from (
                    f"{inside}.{name}" for name in {**before, **after} if not (name in before and name in after)
                )
                continue
            yield from differences(before, after, inside)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{place}.{number}")
    elif _is_number(old) and _is_number(new):
        if not equal(old, new):
            yield place
    elif type(old) is not type(new) or old != new:
        yield place


def _is_prose(value: object) -> bool:
    """Whether it is a sentence (not a number or a name), or a list of sentences, which may be empty."""
    return _is_sentence(value) or (isinstance(value, list) and all(map(_is_sentence, value)))


def _are_definitions(value: object) -> TypeGuard[Mapping[str, str]]:
    return isinstance(value, Mapping) and bool(value) and all(map(_is_sentence, value.values()))


def _is_sentence(value: object) -> bool:
    return isinstance(value, str) and " " in value


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(old: float | None, new: float | None) -> bool:
    """Whether two numbers differ by no more than `TOLERANCE`; a missing one equals a missing one only."""
    if old is None or new is None:
        return old is new
    return math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


NESTED = ("groups", "pairs", "p_worst", "p_worst_null", "extreme_pair")
"""Columns of a disparity that hold several values."""


def flat_rows(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the disparities without the columns that hold several values."""
    return [{key: value for key, value in row.items() if key not in NESTED} for row in results["disparities"]]
