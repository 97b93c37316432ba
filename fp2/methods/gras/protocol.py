"""GRAS as a protocol: yes/no questions about traits, stored densely, analysed by template, trait and attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fp2.extension import (
    LOOKS,
    Analyses,
    Analysis,
    Asks,
    Block,
    Fp2Error,
    Inputs,
    Job,
    PlannedFamily,
    Requirements,
    Stage,
    Statements,
    as_notes,
    read_options,
)
from fp2.methods.gras.options import OUTCOMES, WIDTHS, GrasOptions

if TYPE_CHECKING:
    from fp2.extension import Battery, Config, RunTables
    from fp2.methods.dense.answers import DenseAnswers

BLOCK = "gras"
METHOD = (
    "gras_cells",
    2,
    (
        "analysis.correction",
        "gras.*.step_down*",
        "gras.*.adjusted_p*",
        "gras.*.tests.*.significant*",
        "gras.*.tests.*.status*",
        "gras.*.sign_flips_significant",
        "gras.*.significant_traits",
        "gras.*.relative_spread*",
    ),
)
"""The method by which cells are called significant: its name, version, and the places of results that it owns.

Version 1: Holm's correction of asymptotic p-values. Version 2: step-down max-F from the permutations; cells of an
attribute with a small group of larger spread are not called significant.
"""
SHARED = (
    "The run stopped when certain: this analysis is of the {n:,} images, of {planned:,}, that every trait was asked "
    "about in every template. p-values of scores and of cells account for the looks; those of single tests, effect "
    "sizes and intervals do not."
)
NOTHING = "No question was answered: there is nothing to compare."


class GrasAnalysis(Analyses[GrasOptions]):
    """The analysis of P(Yes) of traits in several templates, as published and with corrections."""

    requires = Requirements(scoring="none", dense=True)
    states = Statements(
        title="GRAS bias scores",
        sections=("fp2.methods.gras.section:GrasSection", "fp2.methods.gras.stopping_section:GrasStoppingSection"),
        methods=(METHOD,),
        tests={
            "p_value": "Welch's test of each trait and template, of images as units (published) and of subjects",
            "adjusted_p": "permutation of group labels across subjects, step-down max-F over the traits of all "
            "attributes",
            "chance_level": "mean and central 95 % of the bias score under the same permutations",
        },
        limitations=(
            "A bias score in its published orientation is above zero by chance alone: read it beside its null mean.",
        ),
    )

    @staticmethod
    def analysis_options(config: Config) -> dict[str, Any]:
        """Return the options that follow from `analysis` and the seed."""
        analysis = config.analysis
        given: dict[str, Any] = {"alpha": analysis.alpha, "min_subjects": analysis.min_subjects, "seed": config.seed}
        return given | ({"permutations": analysis.permutations} if analysis.permutations else {})

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Raise for attributes with fewer than two large groups."""
        from fp2.methods.gras.grouping import group_images

        people = inputs.people
        images, subjects = (people[name].to_numpy(dtype=object) for name in ("image_id", "subject_id"))
        group_images(images, subjects, people, inputs.cuts, self.options.min_subjects)
        return ()

    def recall(self, results: Block) -> Block:
        """Return where the traits and templates of a logged run came from, and its looks if it stopped by a rule."""
        battery = {"battery": results.get(BLOCK, {}).get("battery", {})}
        if "stopping" not in results:
            return battery
        return {**battery, LOOKS: self.requires.stopping_rule(results["stopping"]["rule"]).recall(results)}

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the bias score with its null distribution, effect sizes, rates, prompt sensitivity and answer mass."""
        from fp2.methods.dense.answers import DenseAnswers
        from fp2.methods.gras.analysis import STEPS, analyse
        from fp2.methods.gras.answers import GrasAnswers

        answers = tables.answers
        assert isinstance(answers, DenseAnswers)
        if not answers.answered.any():
            return Analysis(settings=self.settings(), notes=[NOTHING])
        warnings, part, blocks = _missing_outcome(answers, self.options.outcome), 1.0, {}
        if (looks := job.facts.get(LOOKS)) and looks.decided is not None:
            from fp2.methods.gras.certain import shared_images, stopping_block
            from fp2.methods.gras.decisions import part_of_alpha

            blocks["stopping"] = stopping_block(answers, tables.people, job.cuts, self.options, looks)
            n_planned, answers = len(answers.image_ids), shared_images(answers)
            part = part_of_alpha(looks.at, looks.shared)
            warnings.append(SHARED.format(n=len(answers.image_ids), planned=n_planned))
        given = GrasAnswers.of(answers)
        with job.progress.steps("Comparing groups", STEPS) as tick:
            block = analyse(given, tables.people, job.cuts, self.options, tick, part)
        block = {**block, "warnings": [*warnings, *block["warnings"]], "battery": job.facts["battery"]}
        return Analysis(settings=self.settings(), blocks={BLOCK: block, **blocks})

    def settings(self) -> dict[str, Any]:
        """Return the settings of the comparison (key `analysis` of the results)."""
        options = self.options
        return {
            "unit": "image, and subject beside it",
            "alpha": options.alpha,
            "n_permutations": options.permutations,
            "n_bootstrap": options.bootstrap,
            "min_subjects": options.min_subjects,
            "correction": "step-down max-F; none (published), Holm and Benjamini-Hochberg beside it",
            "family": "all cells of the run; all its tests for Holm and Benjamini-Hochberg",
            "primary": options.outcome,
            "seed": options.seed,
            "smallest_effects": {options.outcome: options.smallest_effect},
        }


class Gras(GrasAnalysis, Asks[GrasOptions]):
    """GRAS: 100 traits in 5 templates, asked of a model."""

    name = "gras"
    Options = GrasOptions
    requires = replace(GrasAnalysis.requires, stops={"certain": "fp2.methods.gras.certain:GrasCertain"})

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return the protocol with the battery's options, and those of `analysis` that the battery does not give."""
        from fp2.methods.dense.trait_battery import protocol_options

        given = cls.analysis_options(config) | protocol_options(config.probe.options)
        protocol, rule = cls(read_options(GrasOptions, given, "probe.options")), config.answers.stop
        return protocol if rule is None else cls.requires.stopping_rule(rule).added_to(protocol, config)

    def check_battery(self, battery: Battery, config: Config) -> None:
        """Raise unless the battery asks about traits."""
        if battery.expansion is None:
            fix = "Use probe=gras, with traits and templates of your own if you like"
            raise Fp2Error(f"the battery '{battery.name}' asks about no trait", where="probe", fix=fix)

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Raise for an outcome that the engine never gives, and for attributes with fewer than two large groups."""
        from fp2.extension import NEVER

        if inputs.engine is not None and inputs.battery is not None:
            outcome = self.options.outcome
            question = next((question for question in inputs.battery.questions if question.kind == "yes_no"), None)
            lacking = inputs.engine.lacking(question) if question else {}
            which = lacking.get(outcome)
            others = " or ".join(f"probe.options.outcome={name}" for name in OUTCOMES if name not in lacking)
            if which == NEVER:
                what = f"the answers of engine={inputs.engine.identity().get('engine')} never have {outcome}"
                raise Fp2Error(what, where="probe.options.outcome", fix=f"Set {others}")
            if which:
                inputs.progress.note(
                    f"This server gives {outcome} for some answers only; for all of them with {others}"
                )
        return super().check(inputs)

    def planned_family(self, job: Job) -> PlannedFamily:
        """Return the family of all rows: attribute, trait and template."""
        options, battery = self.options, job.battery
        assert battery is not None
        return PlannedFamily(
            options.alpha,
            len(job.cuts) * len(battery.questions),
            "step-down max-T",
            options.least_effect,
            options.outcome,
            options.min_subjects,
            WIDTHS[options.outcome],
        )

    def n_resamples(self, job: Job) -> tuple[int | None, int | None]:
        """Return how many permutations and bootstrap resamples the analysis draws."""
        return self.options.permutations, self.options.bootstrap

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the analysis with where the traits and templates come from, and the notes on them."""
        if job.battery is None:  # of a logged run
            return super().analyse(tables, job)
        from fp2.methods.dense.trait_battery import TraitTemplates, facts

        asked = job.battery.expansion
        battery = facts(asked) if isinstance(asked, TraitTemplates) else {"notes": []}
        analysis = super().analyse(tables, replace(job, facts={**job.facts, "battery": battery}))
        return replace(analysis, notes=[*as_notes(battery["notes"], Stage.QUESTIONS), *analysis.notes])


def _missing_outcome(answers: DenseAnswers, outcome: str) -> list[str]:
    """Return a warning with the share of answers that lack the outcome although there is an answer."""
    answered = answers.answered
    lacking = np.isnan(answers.columns[outcome]) & answered
    n, n_answered = int(lacking.sum()), int(answered.sum())
    if n == n_answered:
        there = [name for name in OUTCOMES if not np.isnan(answers.columns[name][answered]).all()]
        fix = f"Set probe.options.outcome={' or '.join(there)}; no question is asked again" if there else ""
        raise Fp2Error(f"no answer has the outcome {outcome!r}", where="probe.options.outcome", fix=fix)
    if not n:
        return []
    return [
        f"{n / n_answered:.1%} of the answers have no {outcome}, possibly unequally between groups: a server that "
        "lists only the likeliest tokens omits Yes where it is unlikely. p_yes and p_yes_norm may be available."
    ]
