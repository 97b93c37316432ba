"""The rule `certain` for GRAS: a trait is asked no further in a template once its rows in it are decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fp2.extension import NOT_ASKED, Asks, Config, Inputs, nested, plural
from fp2.extension import Question as AskedQuestion
from fp2.methods.dense.answers import DenseAnswers
from fp2.methods.gras.answers import GrasAnswers
from fp2.methods.gras.decisions import (
    COMPOSITE,
    DIFFERENT,
    NAMES,
    OPEN,
    ROWS,
    Intervals,
    Question,
    TraitLooks,
    critical_values,
)
from fp2.methods.gras.group_sums import IMAGES, SUBJECTS
from fp2.methods.gras.grouping import group_answers, group_images
from fp2.methods.gras.options import WIDTHS, GrasOptions
from fp2.methods.gras.pairs import PairTests
from fp2.methods.gras.resampling import TraitTests
from fp2.methods.stopping.block import ORDER, headline
from fp2.methods.stopping.decisions import FUTILITY, expected_share
from fp2.methods.stopping.estimates import median_unbiased
from fp2.methods.stopping.looks import SPENDING
from fp2.methods.stopping.waves import AskedInWaves, check_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from fp2.extension import Cut

Protocol = TypeVar("Protocol", bound=Asks[Any])
RULE = "certain"
ESTIMATES = (
    "repeated_ci: of the largest difference of two group means, simultaneous over all looks and rows. corrected_gap: "
    "the clearest difference, median-unbiased in the stagewise order (Tsiatis, Rosner and Mehta 1984) where it ended "
    "the questions."
)


class GrasCertain(AskedInWaves):
    """The storage of the answers that are called for."""

    def __init__(self, protocol: Asks[GrasOptions], inputs: Inputs, storage: Any) -> None:
        super().__init__(inputs, storage)
        self._options = options = protocol.options
        people = inputs.people
        images, subjects = (people[name].to_numpy(dtype=object) for name in ("image_id", "subject_id"))
        attributes = group_images(images, subjects, people, inputs.cuts, options.min_subjects).attributes
        traits, templates, _ = storage.grid
        self.looks = TraitLooks(
            at=self._waves.at,
            alpha=options.alpha,
            smallest_effect=options.least_effect,
            width=WIDTHS[options.outcome],
            groups=tuple(len(attribute.groups) for attribute in attributes),
            subjects=tuple(min(attribute.sizes[group][1] for group in attribute.groups) for attribute in attributes),
            questions=tuple((trait, template) for trait in traits for template in templates),
        )

    @staticmethod
    def added_to(protocol: Protocol, config: Config) -> Protocol:
        """Return the protocol; raise for settings that the rule does not go with."""
        check_settings(config)
        return protocol

    @staticmethod
    def recall(results: Mapping[str, Any]) -> TraitLooks:
        """Return the looks of a logged run from its results."""
        block, of_traits = results["stopping"], results["gras"]
        words = [trait["word"] for trait in of_traits["traits"]]
        questions = tuple((word, template) for word in words for template in of_traits["templates"])
        looked = zip(questions, np.ravel(block["last"]).tolist(), strict=True)
        names = ("now", "alpha", "smallest_effect", "width", "composite_p", "composite_look")
        code = {name: number for number, name in enumerate(NAMES)}
        cuts, rows = results["cuts"], [block["rows"][cut] for cut in results["cuts"]]
        return TraitLooks(
            at=tuple(block["at"]),
            questions=questions,
            last={question: look for question, look in looked if look},
            groups=tuple(block["groups"][cut] for cut in cuts),
            subjects=tuple(block["subjects"][cut] for cut in cuts),
            decided=np.array([[code[name] for name in np.ravel(row["decided"])] for row in rows]),
            look=np.array([np.ravel(row["look"]) for row in rows]),
            composite=code[block["composite"]],
            **{name: block[name] for name in names},
        )

    def unit_of(self, question: AskedQuestion) -> Question:
        """Return trait and template."""
        return question.trait, question.template

    @property
    def progress(self) -> str:
        """How many rows are decided, in words."""
        decided = 0 if self.looks.decided is None else int((self.looks.decided != OPEN).sum())
        further = plural(len(self.asked_further), "question")
        rows = f"{decided} of {self.looks.n_rows} rows decided"
        return f"look {self._decided_at} of {len(self.looks.at)}: {rows}; {further} asked further"

    def expected_answers(self, ratio: float) -> int:
        """Return about how many answers are asked where the clearest gap beyond the smallest effect has this size.

        `ratio` is in minimum detectable effects. A question waits for its rows of all attributes: more may be asked.
        """
        level = ROWS * self.looks.alpha / self.looks.n_rows
        return round(expected_share(ratio, self._waves, level) * int(self._storage.n_planned))

    def answers(self) -> DenseAnswers:
        """Return all planned answers; one that was not called for counts as not asked, stored or not."""
        answers: DenseAnswers = self._storage.answers()
        limits = self.looks.limits.reshape(answers.errors.shape[1:])
        later = self._row_wave[:, None, None] > limits
        reasons = tuple(dict.fromkeys((*answers.reasons, NOT_ASKED)))
        errors = np.where(later, reasons.index(NOT_ASKED), answers.errors).astype(np.int32)
        columns = {
            name: np.where(later, np.float32(np.nan), values).astype(np.float32)
            for name, values in answers.columns.items()
        }
        return replace(answers, columns=columns, cached=answers.cached & ~later, errors=errors, reasons=reasons)

    def decide(self) -> None:
        """Take the look `now` at the answers of the waves so far."""
        asked = self.answers().where(self._row_wave <= self.looks.now)
        tests = _pair_tests(GrasAnswers.of(asked), self._inputs.people, self._inputs.cuts, self._options, self.looks)
        self.looks = self.looks.after(tests)


def _pair_tests(
    answers: GrasAnswers, people: pd.DataFrame, cuts: Sequence[Cut], options: GrasOptions, looks: TraitLooks
) -> PairTests:
    grouping = group_answers(answers, people, cuts, options)
    tests = TraitTests(answers, grouping, options, IMAGES if grouping.one_image_each else SUBJECTS)
    return PairTests.of(tests, max(options.permutations, looks.permutations))


def shared_images(answers: DenseAnswers) -> DenseAnswers:
    """Return the answers about the images that every trait was asked about in every template."""
    not_asked = answers.absent().get("not_asked")
    return answers if not_asked is None else answers.where(np.asarray(~not_asked.any(axis=(1, 2))))


def stopping_block(
    answers: DenseAnswers, people: pd.DataFrame, cuts: Sequence[Cut], options: GrasOptions, looks: TraitLooks
) -> dict[str, Any]:
    """Return the block `stopping`: the rule, what was decided when, intervals, what was asked and saved.

    Nested lists are in the order of traits and templates of the block `gras`.
    """
    asked = ~answers.absent().get("not_asked", np.zeros(answers.errors.shape, dtype=bool))
    tests = _pair_tests(GrasAnswers.of(answers.where(np.asarray(asked.any(axis=(1, 2))))), people, cuts, options, looks)
    rows, shape = looks.intervals(tests), answers.errors.shape[1:]
    corrected = _corrected(rows, tests, looks)
    decided = np.full(rows.gap.shape, OPEN) if looks.decided is None else looks.decided
    look = np.zeros(rows.gap.shape, dtype=int) if looks.look is None else looks.look
    names = [cut.name for cut in cuts]
    numbers = {"gap": rows.gap, "repeated_ci_low": rows.low, "repeated_ci_high": rows.high, "corrected_gap": corrected}
    counts = Counter(decided.ravel().tolist())
    return {
        "rule": RULE,
        "order": ORDER,
        "estimates": ESTIMATES,
        "spending": SPENDING,
        "at": list(looks.at),
        "now": looks.now,
        "alpha": looks.alpha,
        "shares": {"rows": ROWS, "composite": COMPOSITE},
        "smallest_effect": looks.smallest_effect,
        "width": looks.width,
        "futility": FUTILITY,
        "n_permutations": max(options.permutations, looks.permutations),
        "groups": dict(zip(names, looks.groups, strict=True)),
        "subjects": dict(zip(names, looks.subjects, strict=True)),
        "shared_images": len(shared_images(answers).image_ids),
        "last": np.array([looks.last.get(question, 0) for question in looks.questions]).reshape(shape).tolist(),
        "rows": {
            name: {
                "decided": np.array(NAMES)[decided[a]].reshape(shape).tolist(),
                "look": look[a].reshape(shape).tolist(),
                **{key: nested(values[a].reshape(shape)) for key, values in numbers.items()},
            }
            for a, name in enumerate(names)
        },
        "composite": NAMES[looks.composite],
        "composite_look": looks.composite_look,
        "composite_p": looks.composite_p,
        "headline": {
            **headline(int(asked.sum()), asked.size, looks.now, {NAMES[code]: n for code, n in sorted(counts.items())}),
            "composite": NAMES[looks.composite],
        },
    }


def _corrected(rows: Intervals, tests: PairTests, looks: TraitLooks) -> np.ndarray:
    """Return the clearest differences, corrected where `different` was decided at the last look at the question.

    The bounds of the looks before are those at which it would have been.
    """
    corrected, limits = rows.clearest.copy(), looks.limits
    if looks.decided is None or looks.look is None:
        return corrected
    criticals = [critical_values(tests, looks.at, k, looks.alpha)[0][:, 0] for k in range(1, looks.now + 1)]
    ended = (looks.decided == DIFFERENT) & (looks.look == limits) & np.isfinite(rows.error) & (rows.error > 0)
    for a, q in np.argwhere(ended).tolist():
        now, error = int(limits[q]), float(rows.error[a, q])
        fractions = looks.at[:now]
        bounds = [
            min(float(criticals[k][a]), 9.0) + looks.smallest_effect / (error * (fractions[-1] / t) ** 0.5)
            for k, t in enumerate(fractions[:-1])
        ]
        corrected[a, q] = max(0.0, error * median_unbiased(float(rows.clearest[a, q]) / error, fractions, bounds))
    return corrected
