"""How groups are compared: the settings of the comparison, and the interface of a supplement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fp2.notes import Note, NoteKind, Stage
from fp2.plugins import DECLARED_LOOKS, load
from fp2.stats.rows import DisparityRow, PanelSettings

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.cuts import Cut
    from fp2.probes.battery import Battery
    from fp2.results import Method
    from fp2.scorers.base import Scorer

Row = tuple[str, str, str, DisparityRow]
"""Probe, scorer, cut, and the row."""
RowKey = tuple[str, str, str]
"""Probe, scorer, cut."""
LOOKS = "looks"
"""The fact of a job that its run stopped by a rule: its `Looks`."""
STEP_DOWN = "step-down max-T"
"""Replaces Holm's correction in families of more than `fp2.stats.adjustment.LARGE_FAMILY` rows."""
TOO_FEW_PERMUTATIONS = NoteKind(
    "too_few_permutations",
    Stage.ANALYSIS,
    "With {n} permutations the smallest adjusted p-value of {tests} is {smallest:.3g}, above {alpha:g}: no row can be "
    "significant. {remedy}.",
)
"""Part of every warning of `too_few_permutations`."""
MOST_PERMUTATIONS = 10_000_000
"""More are not advised."""


class Looks(Protocol):
    """Looks at data that grow (`analysis.looks`): what takes the place of a row's p-values and level at one of them."""

    def at_probe(self, probe: str) -> Looks:
        """Return the looks at the rows of a probe."""
        ...

    def applied_to(self, rows: Sequence[Row], composites: Mapping[str, dict[str, Any]]) -> list[DisparityRow]:
        """Return the rows with repeated p-values in place of their own, and set `repeated_p` of the composites."""
        ...

    def columns(self, key: RowKey, row: DisparityRow, unadjusted: DisparityRow) -> Mapping[str, float | None]:
        """Return the columns of a corrected row beside those of `DisparityRow`."""
        ...

    def repeated(self, p: float | None) -> float | None:
        """Return the repeated p-value of a p-value at this look."""
        ...

    def level(self, alpha: float) -> float:
        """Return the nominal level of this look, where `alpha` is spent over all of them."""
        ...

    def stated(self) -> dict[str, object]:
        """Return the looks as `results.json` states them."""
        ...

    def note(self) -> Note:
        """Return the limitation that says which look a run is."""
        ...


def looks_of(config: Config) -> Looks | None:
    """Return the declared looks of a config, None without any; raise Fp2Error if they are out of range."""
    if (declared := config.analysis.looks) is None:
        return None
    looks: Looks = load(DECLARED_LOOKS, "declared", "analysis.looks")(declared)
    return looks


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings(PanelSettings):
    """The settings of the comparison: the `analysis` config resolved, and the seed."""

    correction: str
    family: str
    primary: str
    looks: Looks | None = None

    def describe(self, scorers: Mapping[str, Scorer]) -> dict[str, object]:
        """Return the settings as `results.json` holds them (key `analysis`)."""
        names = ("alpha", "n_permutations", "n_bootstrap", "min_subjects", "correction")
        return {
            "unit": "subject",
            **{name: getattr(self, name) for name in names},
            "family": self._family(scorers),
            "primary": self.primary,
            "seed": self.seed,
            "smallest_effects": {name: scorer.smallest_effect for name, scorer in scorers.items()},
            **({} if self.looks is None else {"looks": self.looks.stated()}),
        }

    def _family(self, scorers: Mapping[str, Scorer]) -> str:
        """Return the family and what is controlled over it, as one sentence."""
        rate = {"bh": "false discovery rate", "by": "false discovery rate"}.get(self.correction, "family-wise error")
        if self.correction == "none":
            return f"none: every row is tested at {self.alpha:g} by itself"
        text = f"all rows and composites of the run; {rate} at most {self.alpha:g} over all of them"
        if self.family == "scorer" and self.primary in scorers and len(scorers) > 1:
            text += (
                f". Weighted Holm correction: alpha/2 = {self.alpha / 2:g} for the rows and composites of the primary "
                f"scorer ({self.primary}), alpha/2 for those of the other scorers"
            )
        return f"{text}. Other blocks, such as missing answers, are families of their own"


def comparison_of(config: Config, n_probes: int, n_cuts: int, *, matched: bool = False) -> ComparisonSettings:
    """Return the settings of the comparison; the number of permutations follows the size of the family.

    By default 10 m / alpha for the m rows of one scorer, and enough for the smallest share of alpha. Counterfactual
    sets (`matched`) keep Holm's correction in a large family too, because outcomes that are known for different sets
    share no permutations.
    """
    from fp2.stats.adjustment import LARGE_FAMILY, default_permutations

    analysis = config.analysis
    family = n_probes * n_cuts * (len(config.scorer) if analysis.family == "run" else 1)
    # a row of another scorer than the primary one has this share of alpha
    scorers = len(config.scorer) if analysis.family == "scorer" else 1
    smallest = max(1, 2 * (scorers - 1)) * family / analysis.alpha
    # Holm needs permutations in proportion to the family
    large = analysis.correction == "holm" and family > LARGE_FAMILY and not matched
    return ComparisonSettings(
        alpha=analysis.alpha,
        correction=STEP_DOWN if large else analysis.correction,
        family=analysis.family,
        primary=config.primary_scorer,
        min_subjects=analysis.min_subjects,
        n_permutations=analysis.permutations
        or max(default_permutations(1 if large else family, analysis.alpha), 0 if large else math.ceil(smallest)),
        n_bootstrap=analysis.bootstrap,
        seed=config.seed,
        looks=looks_of(config),
    )


@dataclass(frozen=True)
class ComparedRun:
    """The tables of a run after groups were compared.

    Attributes
    ----------
    answers, scores, people : DataFrame
        The answers with their refusal flag, the scores table, the people table.
    disparities : sequence of mappings
        The rows of the fingerprint.
    tick : callable
        Called after each step of a long supplement (`Supplement.n_steps`).
    labels : DataFrame or None
        Labels of some answers (`fp2.ask.labels`).
    """

    config: Config
    battery: Battery
    answers: pd.DataFrame
    scores: pd.DataFrame
    people: pd.DataFrame
    cuts: Sequence[Cut]
    scorers: Mapping[str, Scorer]
    comparison: ComparisonSettings
    disparities: Sequence[Mapping[str, Any]] = ()
    tick: Callable[[], None] = lambda: None
    labels: pd.DataFrame | None = None


class Supplement:
    """A further block of results, made from the tables of a compared run.

    Attributes
    ----------
    name, section, methods
        As of a `SupplementEntry`, of one that has no entry: it is named by its import path in `probe.options`.
    """

    name: ClassVar[str]
    section: ClassVar[str | None] = None
    methods: ClassVar[tuple[Method, ...]] = ()

    def n_steps(self, config: Config, n_cuts: int) -> int:
        """Return how often `block` calls `run.tick`; 0 for what takes a few seconds at most."""
        return 0

    def block(self, run: ComparedRun) -> dict[str, Any] | None:
        """Return the block (finite JSON values), or None where it does not apply."""
        raise NotImplementedError

    def columns(self, block: Mapping[str, object]) -> Mapping[tuple[str, str, str], Mapping[str, object]]:
        """Return columns that the block adds to the disparities: (probe, scorer, cut) -> name -> value."""
        return {}


def with_columns(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[tuple[str, str, str], Mapping[str, object]]
) -> list[dict[str, Any]]:
    """Return the disparities with further columns, None where a row has none."""
    names = dict.fromkeys(name for columns_of_row in columns.values() for name in columns_of_row)
    empty: dict[str, object] = dict.fromkeys(names)
    return [{**row, **empty, **columns.get((row["probe"], row["scorer"], row["cut"]), {})} for row in rows]


def too_few_permutations(
    disparities: Sequence[Mapping[str, Any]], comparison: ComparisonSettings, blocks: Mapping[str, Any] | None = None
) -> list[Note]:
    """Return a warning for each family in which no p-value can be significant after correction.

    Families are those of the disparities, and of the rows of `blocks` that have a `family_size`.
    """
    out = _too_few_for_the_run(disparities, comparison)
    families = []
    for name, block in (blocks or {}).items():
        correction = block.get("correction", comparison.correction)
        n_permutations = block.get("n_permutations", comparison.n_permutations)
        families.append((name, block.get("rows", []), correction, n_permutations))
    for name, rows, correction, n in families:
        family = max((row.get("family_size", 0) for row in rows), default=0)
        steps = {"holm": family, "bonferroni": family, STEP_DOWN: min(family, 1)}.get(correction, 0)
        if (smallest := steps / (n + 1)) > comparison.alpha:
            tests, remedy = f"a family of {family} (block {name})", "Raise analysis.permutations"
            out.append(TOO_FEW_PERMUTATIONS(n=n, tests=tests, smallest=smallest, alpha=comparison.alpha, remedy=remedy))
    return out


def _too_few_for_the_run(disparities: Sequence[Mapping[str, Any]], comparison: ComparisonSettings) -> list[Note]:
    """Return a warning for each scorer whose rows have a share of alpha that no p-value can reach, at this look."""
    levels: dict[str, list[float]] = {}
    for row in disparities:
        if row.get("p_value") is not None:
            levels.setdefault(row["scorer"], []).append(row["family_level"])
    alpha, looks, n, out = comparison.alpha, comparison.looks, comparison.n_permutations, []
    smallest_p = 1 / (n + 1) if looks is None else looks.repeated(1 / (n + 1)) or 0.0
    for scorer, scorer_level in levels.items():
        # where the first step of the correction is
        share = {"holm": scorer_level[0], "bonferroni": scorer_level[0], STEP_DOWN: sum(scorer_level)}.get(
            comparison.correction, alpha
        ) / alpha
        if (smallest := smallest_p / share) > alpha:
            level = alpha * share if looks is None else looks.level(alpha * share)
            remedy = f"Raise analysis.permutations to {math.ceil(1 / level)}"
            if level * MOST_PERMUTATIONS < 1:
                remedy = (
                    "This look spends too little alpha for any number of permutations: declare it later, or "
                    "spending: pocock"
                )
            out.append(TOO_FEW_PERMUTATIONS(n=n, tests=scorer, smallest=smallest, alpha=alpha, remedy=remedy))
    return out
