"""`task=gras_published`: GRAS from what its authors' scripts wrote: answers, or else tests. No model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from fp2.extension import (
    YES_NO_NUMBERS,
    Collected,
    Collects,
    Fp2Error,
    Inputs,
    check_names,
    digest,
    no_scores,
    read_options,
    score_tables,
    sha256_file,
)
from fp2.methods.dense.trait_battery import TraitTemplates, facts, traits_of
from fp2.methods.gras.inference_files import (
    ALL,
    MODEL,
    InferenceFile,
    chosen_model,
    find_inference_files,
    read_probabilities,
)
from fp2.methods.gras.options import GrasOptions
from fp2.methods.gras.protocol import GrasAnalysis
from fp2.methods.gras.published_tests import BLOCK, BiasAnalysis, find_bias_analyses, published_tests

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Analysis, Block, Config, Job, RunTables
    from fp2.methods.dense.answers import DenseAnswers
    from fp2.methods.dense.traits import Trait, TraitList

NAME = "gras_published"
ANSWERS, TRAITS = "answers", "traits"
OUTCOME = "p_yes_first_token"
SUPPLIED = "The answers were supplied, not asked here: P(Yes) is read from files of the authors' inference scripts."
TESTED = "The tests were published, not made here: p-values and group means are read from the authors' files."
MISSING = "the inference files have no number for it"


@dataclass(frozen=True)
class PublishedOptions(GrasOptions):
    """The options of the analysis, and `model`: whose files are read; None if they are of one model.

    On the command line, `all` makes a run of each model.
    """

    model: str | None = None


class PublishedAnswers(GrasAnalysis, Collects[GrasOptions]):
    """GRAS from the probabilities in a folder of inference files; without any, from the published tests in it."""

    options: PublishedOptions
    name = NAME
    Options = PublishedOptions
    requires = replace(GrasAnalysis.requires, opens_images=False)
    states = replace(
        GrasAnalysis.states,
        sections=(*GrasAnalysis.states.sections, "fp2.methods.gras.published_section:PublishedTestsSection"),
    )

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """Return the protocol with the options of the task, and those of `analysis` that it does not give."""
        where = "task.options"
        given = {name: value for name, value in config.task.options.items() if value is not None}
        options = read_options(PublishedOptions, {**cls.analysis_options(config), **given}, where)
        if options.outcome != OUTCOME:
            fix = f"Set it to {OUTCOME}"
            raise Fp2Error(f"the inference files hold no {options.outcome}", where=f"{where}.outcome", fix=fix)
        return cls(options)

    def sweep(self, config: Config) -> tuple[str, Sequence[str]] | None:
        """Return the models of the files if all are to be analysed."""
        if self.options.model != ALL:
            return None
        files, _ = self._files(config)
        return MODEL, list(dict.fromkeys(file.model for file in files))

    def check(self, inputs: Inputs) -> Sequence[str]:
        """Raise for missing or unusable files, and for attributes with fewer than two large groups."""
        files, _ = self._files(inputs.config)
        chosen_model(files, self.options.model)
        return () if isinstance(files[0], BiasAnalysis) else super().check(inputs)

    def collect(self, inputs: Inputs) -> Collected:
        """Return the probabilities of the chosen model's files as dense answers."""
        from fp2.extension import RunTables

        every, listed = self._files(inputs.config)
        model = chosen_model(every, self.options.model)
        tests = [file for file in every if isinstance(file, BiasAnalysis) and file.model == model]
        if tests:
            block, test_notes = published_tests(tests, listed.traits, self.options)
            return Collected(
                tables=score_tables(inputs.people, no_scores()),
                model={"name": tests[0].model},
                facts={BLOCK: block},
                notes=[TESTED, *listed.notes, *test_notes],
                response_set=digest(sorted(sha256_file(file.path) for file in tests)),
            )
        files = [file for file in every if isinstance(file, InferenceFile) and file.model == model]
        images, words = inputs.people["image_id"].tolist(), [trait.word for trait in listed.traits]
        with inputs.progress.steps("Reading the inference files", len(files)) as tick:
            values, notes = read_probabilities(files, images, words, tick)
        there = np.flatnonzero(~np.isnan(values).all(axis=(0, 2)))
        asked = replace(listed, traits=tuple(listed.traits[place] for place in there))
        if absent := len(listed.traits) - len(asked.traits):
            notes.append(f"{absent} of the {len(listed.traits)} listed traits have no inference file")
        source = digest(sorted(sha256_file(file.path) for file in files))
        answers = _dense(inputs.people, asked.traits, values[:, there], source)
        return Collected(
            tables=RunTables(inputs.people, answers, None),
            model={"name": model},
            probes=[{"id": name, "label": name, "text": text} for name, text in _texts(answers.templates).items()],
            facts={"battery": facts(TraitTemplates(asked, _texts(answers.templates)))},
            notes=[SUPPLIED, *asked.notes, *notes],
            response_set=source,
        )

    def recall(self, results: Block) -> Block:
        """Return the published tests, or where the traits and templates of a logged run came from."""
        return {BLOCK: results[BLOCK]} if BLOCK in results else super().recall(results)

    def analyse(self, tables: RunTables, job: Job) -> Analysis:
        """Return the published tests as they are, or the analysis of the answers."""
        from fp2.extension import Analysis

        if BLOCK not in job.facts:
            return super().analyse(tables, job)
        untouched = dict.fromkeys(("n_permutations", "n_bootstrap"))
        settings = {**self.settings(), "unit": "image", "correction": "none (published)", **untouched}
        return Analysis(settings=settings, blocks={BLOCK: job.facts[BLOCK]})

    @staticmethod
    def _files(config: Config) -> tuple[Sequence[InferenceFile | BiasAnalysis], TraitList]:
        """Return the inference files, or else the published tests, and the list of traits."""
        given = {name: path for name, path in config.task.files.items() if path}
        check_names(given, (ANSWERS, TRAITS), "unknown file", "task.files")
        if ANSWERS not in given:
            fix = "Add task.files.answers=FOLDER"
            raise Fp2Error("there are no answers", where=f"task={config.task.name}", fix=fix)
        listed = traits_of(None, given.get(TRAITS))
        words, folder = [trait.word for trait in listed.traits], Path(given[ANSWERS]).expanduser()
        files = find_inference_files(folder, words, f"task.files.{ANSWERS}") or find_bias_analyses(folder)
        if not files:
            fix = (
                "An inference file is MODEL_TRAIT_SET.csv with the columns img, yes_prob_0, yes_prob_1, ...; a file of "
                "tests MODEL_ATTRIBUTE_bias_analysis.csv"
            )
            what = "there is no inference file in this folder, and no file of tests"
            raise Fp2Error(what, where=f"task.files.{ANSWERS}={folder}", fix=fix)
        return files, listed


def _texts(templates: Sequence[str]) -> dict[str, str]:
    """Return template -> what is known of its text: which one of the script it is."""
    return {name: f"template {number} of the inference script" for number, name in enumerate(templates, 1)}


def _dense(people: pd.DataFrame, traits: tuple[Trait, ...], values: NDArray[np.float32], source: str) -> DenseAnswers:
    """Return probabilities (images, traits, templates) as the answers of a run; `source` is the digest of the files."""
    import pandas as pd

    from fp2.methods.dense.answers import DenseAnswers

    images, subjects = (people[name].to_numpy(dtype=object) for name in ("image_id", "subject_id"))
    templates = tuple(f"T{number}" for number in range(1, values.shape[2] + 1))
    columns = {name: np.full(values.shape, np.nan, dtype=np.float32) for name in YES_NO_NUMBERS} | {OUTCOME: values}
    questions = [
        {
            "question_id": f"{template}_{trait.word}",
            "probe": template,
            "template": template,
            "trait": trait.word,
            "polarity": trait.polarity,
            "valence": trait.valence,
            "text": "",
            "kind": "yes_no",
            "question_key": digest([NAME, template, trait.word]),
        }
        for trait in traits
        for template in templates
    ]
    return DenseAnswers(
        images,
        subjects,
        np.array([digest([NAME, source, image]) for image in images], dtype=object),
        traits,
        templates,
        columns,
        np.zeros(values.shape, dtype=bool),
        np.where(np.isnan(values), 0, -1).astype(np.int32),
        (MISSING,),
        pd.DataFrame(questions).astype({"valence": "float64"}),
    )
