"""`task=gras_published`: the GRAS analysis of answers that the authors' inference scripts wrote. No model is asked."""

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
    TraitTemplates,
    digest,
    facts,
    nearest,
    read_options,
    sha256_file,
    traits_of,
)
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

if TYPE_CHECKING:
    import pandas as pd

    from fp2.extension import Config, DenseAnswers, Trait, TraitList

NAME = "gras_published"
ANSWERS, TRAITS = "answers", "traits"
OUTCOME = "p_yes_first_token"
SUPPLIED = "The answers were supplied, not asked here: P(Yes) is read from files of the authors' inference scripts."
MISSING = "the inference files have no number for it"


@dataclass(frozen=True)
class PublishedOptions(GrasOptions):
    """The options of the analysis, and `model`: whose files are read; None if they are of one model.

    On the command line, `all` makes a run of each model.
    """

    model: str | None = None


class PublishedAnswers(GrasAnalysis, Collects[GrasOptions]):
    """GRAS from the probabilities in a folder of inference files."""

    options: PublishedOptions
    name = NAME
    Options = PublishedOptions
    requires = replace(GrasAnalysis.requires, opens_images=False)

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
        return super().check(inputs)

    def collect(self, inputs: Inputs) -> Collected:
        """Return the probabilities of the chosen model's files as dense answers."""
        from fp2.extension import RunTables

        files, listed = self._files(inputs.config)
        model = chosen_model(files, self.options.model)
        files = [file for file in files if file.model == model]
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
            probes=[
                {"id": name, "label": name, "text": text} for name, text in _texts(answers.templates).items()
            ],
            facts={"battery": facts(TraitTemplates(asked, _texts(answers.templates)))},
            notes=[SUPPLIED, *asked.notes, *notes],
            response_set=source,
        )  # fmt: skip

    @staticmethod
    def _files(config: Config) -> tuple[list[InferenceFile], TraitList]:
        """Return the inference files, and the list of traits."""
        given = {name: path for name, path in config.task.files.items() if path}
        for name in given:
            if name not in (ANSWERS, TRAITS):
                raise Fp2Error(f"unknown file {name!r}", where="task.files", fix=nearest(name, [ANSWERS, TRAITS]))
        if ANSWERS not in given:
            fix = "Add task.files.answers=FOLDER"
            raise Fp2Error("there are no answers", where=f"task={config.task.name}", fix=fix)
        listed = traits_of(None, given.get(TRAITS))
        words = [trait.word for trait in listed.traits]
        return find_inference_files(Path(given[ANSWERS]).expanduser(), words, f"task.files.{ANSWERS}"), listed


def _texts(templates: Sequence[str]) -> dict[str, str]:
    """Return template -> what is known of its text: which one of the script it is."""
    return {name: f"template {number} of the inference script" for number, name in enumerate(templates, 1)}


def _dense(people: pd.DataFrame, traits: tuple[Trait, ...], values: NDArray[np.float32], source: str) -> DenseAnswers:
    """Return probabilities (images, traits, templates) as the answers of a run; `source` is the digest of the files."""
    import pandas as pd

    from fp2.extension import DenseAnswers

    images, subjects = (people[name].to_numpy(dtype=object) for name in ("image_id", "subject_id"))
    templates = tuple(f"T{number}" for number in range(1, values.shape[2] + 1))
    columns = {name: np.full(values.shape, np.nan, dtype=np.float32) for name in YES_NO_NUMBERS} | {OUTCOME: values}
    questions = [
        {
            "question_id": f"{template}_{trait.word}", "probe": template, "template": template, "trait": trait.word,
            "polarity": trait.polarity, "valence": trait.valence, "text": "", "kind": "yes_no",
            "question_key": digest([NAME, template, trait.word]),
        }
        for trait in traits for template in templates
    ]  # fmt: skip
    return DenseAnswers(
        images, subjects, np.array([digest([NAME, source, image]) for image in images], dtype=object), traits,
        templates, columns, np.zeros(values.shape, dtype=bool), np.where(np.isnan(values), 0, -1).astype(np.int32),
        (MISSING,), pd.DataFrame(questions).astype({"valence": "float64"}),
    )  # fmt: skip
