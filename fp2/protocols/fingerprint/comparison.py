"""The base of protocols that score each answer and compare groups of subjects.

The fingerprint, attention, matched sets and FHIBE's questions derive from `GroupComparison`, and add blocks of their
own to the disparities and the supplements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from fp2.ask.labels import LABELS, check_labels
from fp2.data.derived import check_covariates
from fp2.data.group_sizes import small_groups
from fp2.errors import Fp2Error
from fp2.notes import Note
from fp2.protocols.base import Asks, Inputs, Job, PlannedFamily, Statements
from fp2.protocols.fingerprint.disparities import Disparities, fingerprint
from fp2.protocols.fingerprint.family import shares
from fp2.protocols.fingerprint.settings import (
    LOOKS,
    ComparedRun,
    ComparisonSettings,
    comparison_of,
    looks_of,
    too_few_permutations,
    with_columns,
)
from fp2.protocols.fingerprint.supplements import SupplementEntry, of_packages
from fp2.protocols.row_methods import ROW_METHODS, ROW_TESTS
from fp2.results import NULL_MEAN, Analysis, Block
from fp2.tables import NOT_ASKED

if TYPE_CHECKING:
    import pandas as pd

    from fp2.ask.answers import RunTables
    from fp2.config import Config
    from fp2.results import Method


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions:
    """`probe.options`: import paths of further supplements (`package.module:Name`)."""

    supplements: tuple[str, ...] = ()

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}


class GroupComparison(Asks[Any]):
    """Scores are compared between groups; supplements are secondary analyses of the same tables.

    Attributes
    ----------
    supplements : tuple of SupplementEntry or None
        Those of the protocol itself, besides those of packages; a run has the ones that fit it. None: it has none.
    """

    Options = ComparisonOptions
    states = Statements(methods=ROW_METHODS, tests=ROW_TESTS, limitations=(NULL_MEAN,))
    supplements: ClassVar[tuple[SupplementEntry, ...] | None] = ()

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return the protocol; one whose run stops by a rule has the rule's supplement."""
        protocol, rule = super().from_config(config), config.answers.stop
        return protocol if rule is None else cls.requires.stopping_rule(rule).added_to(protocol, config)

    def recall(self, results: Block) -> Block:
        """Return the looks of a logged run that stopped by a rule."""
        if "stopping" not in results:
            return {}
        return {LOOKS: self.requires.stopping_rule(results["stopping"]["rule"]).recall(results["stopping"])}

    def supplement_entries(self) -> list[SupplementEntry]:
        """Return what supplements a run may have: those of the protocol and of method packages, and of the config."""
        entries = () if self.supplements is None else (*self.supplements, *of_packages())
        return [*sorted(entries, key=lambda entry: entry.order), *map(SupplementEntry.of, self.options.supplements)]

    def section_targets(self, results: Block | None = None) -> tuple[str, ...]:
        """Return the import paths of the report sections, and of those of the supplements whose block is there."""
        present = [entry for entry in self.supplement_entries() if results is None or entry.name in results]
        return (*self.states.sections, *(entry.section for entry in present if entry.section))

    def all_methods(self) -> tuple[Method, ...]:
        """Return the methods of the comparison and of its supplements."""
        return (*self.states.methods, *(method for entry in self.supplement_entries() for method in entry.methods))

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Return which cuts have too few subjects; raise for covariates and labels that do not fit, and for looks."""
        check_covariates(inputs.config.analysis.adjust, inputs.people)
        check_labels(inputs.config, inputs.scorers)
        looks_of(inputs.config)
        return self._small_groups(inputs.people, inputs)

    def n_resamples(self, job: Job) -> tuple[int | None, int | None]:
        """Return how many permutations and bootstrap resamples are drawn for each cut."""
        comparison = self._comparison(job)
        return comparison.n_permutations, comparison.n_bootstrap

    def planned_family(self, job: Job) -> PlannedFamily | None:
        """Return the family of rows and composites, as `corrected` divides alpha over it."""
        if not job.scorers:
            return None
        comparison, n_cuts = self._comparison(job), len(job.cuts)
        if comparison.primary not in job.scorers:
            fix = f"Choose from {', '.join(job.scorers)}"
            raise Fp2Error(f"no scorer is called {comparison.primary!r}", where="analysis.primary", fix=fix)
        assert job.battery is not None
        n = n_cuts * len(job.battery.probes)
        tests = [name for name in job.scorers for _ in range(n + n_cuts * (name == comparison.primary))]
        size = round(1 / dict(zip(tests, shares(tests, comparison), strict=True))[comparison.primary])
        primary = job.scorers[comparison.primary]
        low, high = primary.value_range
        return PlannedFamily(
            comparison.alpha,
            size,
            comparison.correction,
            primary.smallest_effect,
            comparison.primary,
            comparison.min_subjects,
            high - low,
        )

    def _comparison(self, job: Job) -> ComparisonSettings:
        assert job.battery is not None
        settings = comparison_of(job.config, len(job.battery.probes), len(job.cuts), matched=self.requires.within_sets)
        looks = job.facts.get(LOOKS)
        return looks.settings(settings, job.config.analysis.permutations) if looks else settings

    def _small_groups(self, people: pd.DataFrame, job: Job) -> list[Note]:
        """Return which cuts have too few subjects; nothing of counterfactual sets."""
        if self.requires.within_sets:
            return []
        return small_groups(people, job.cuts, job.config.analysis.min_subjects)

    def own_blocks(self, run: ComparedRun) -> dict[str, Block]:
        """Return the blocks of this protocol, besides the supplements."""
        return {}

    def _run(self, tables: RunTables, job: Job) -> ComparedRun:
        """Return the tables of a run, whose groups are not compared yet."""
        from fp2.ask.answers import RowAnswers

        assert job.battery is not None
        assert tables.scores is not None
        assert isinstance(tables.answers, RowAnswers)
        return ComparedRun(
            job.config,
            job.battery,
            tables.answers.frame,
            tables.scores,
            tables.people,
            job.cuts,
            job.scorers,
            self._comparison(job),
            labels=tables.others.get(LABELS),
        )

    def later_block(self, name: str, tables: RunTables, job: Job, disparities: Sequence[Block]) -> Block | None:
        """Return the block of the supplement `name` of a logged run, whose rows are `disparities`."""
        entry = next((entry for entry in self.supplement_entries() if entry.name == name), None)
        if entry is None:
            return None
        supplement = entry.load()
        with job.progress.steps(f"Computing the block {name}", supplement.n_steps(job.config, len(job.cuts))) as tick:
            return supplement.block(replace(self._run(tables, job), disparities=disparities, tick=tick))

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Compare the groups on every score, and return every block that applies."""
        run, comparison, n_cuts = self._run(tables, job), self._comparison(job), len(job.cuts)
        supplements = {entry.name: entry.load() for entry in self.supplement_entries() if entry.fits(job, tables)}
        n_steps = n_cuts + sum(supplement.n_steps(job.config, n_cuts) for supplement in supplements.values())
        with job.progress.steps("Comparing groups", n_steps) as tick:
            compared = Disparities([], {}, [])
            if not self.requires.within_sets:  # by design a subject is in several groups there
                bounds = job.config.analysis.severity
                compared = fingerprint(run.scores, run.people, run.cuts, run.scorers, comparison, bounds, tick)
                if (run.answers["error"] == NOT_ASKED).any():
                    compared = compared.of_asked(run.answers[run.answers["error"] != NOT_ASKED], run.people, run.cuts)
            run = replace(run, disparities=compared.disparities, tick=tick)
            blocks, disparities = self.own_blocks(run), compared.disparities
            for name, supplement in supplements.items():
                if (block := supplement.block(run)) is not None:
                    blocks[name] = block
                    disparities = with_columns(disparities, supplement.columns(block))
        return Analysis(
            settings=comparison.describe(job.scorers),
            blocks=blocks,
            disparities=disparities,
            composites=compared.composites,
            coverage=compared.coverage,
            notes=[
                *(self._small_groups(tables.people, job) if compared.disparities else ()),
                *too_few_permutations(compared.disparities, comparison, blocks),
                *([] if comparison.looks is None else [comparison.looks.note()]),
            ],
        )
