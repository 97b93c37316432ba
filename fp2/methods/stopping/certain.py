"""The rule `certain` for protocols that compare groups on scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fp2.extension import (
    NOT_ASKED,
    Config,
    Fp2Error,
    GroupComparison,
    Inputs,
    Question,
    RowAnswers,
    RunTables,
    comparison_of,
    fingerprint,
    plural,
    scored,
    shares,
)
from fp2.methods.stopping.decisions import expected_share, take_look
from fp2.methods.stopping.looks import OPEN, SPENDING, Decision, StoppingLooks
from fp2.methods.stopping.waves import REFUSED, WHERE, AskedInWaves, check_settings

CORRECTIONS = ("holm", "bonferroni")


class Certain(AskedInWaves):
    """A probe is asked no further once its rows are decided, and the composites."""

    supplement: ClassVar = "fp2.methods.stopping.block:Stopping"
    refuses: ClassVar[tuple[str, ...]] = REFUSED
    """Settings that do not go with the rule."""

    def __init__(self, protocol: GroupComparison, inputs: Inputs, storage: Any) -> None:
        super().__init__(inputs, storage)
        assert inputs.battery is not None
        self._protocol = protocol
        names = [name for name in inputs.scorers for _ in range(len(set(self._units)) * len(inputs.cuts))]
        comparison = self._comparison = comparison_of(inputs.config, len(inputs.battery.probes), len(inputs.cuts))
        if comparison.correction not in CORRECTIONS:
            fix = "Fewer probes, cuts or scorers make a smaller family"
            raise Fp2Error(f"it is not made for {comparison.correction}", where=WHERE, fix=fix)
        of_tests = shares([*names, *[comparison.primary] * len(inputs.cuts)], comparison)
        smallest, self._primary_share = min(of_tests), of_tests[-1]
        self.looks = StoppingLooks(
            at=self._waves.at,
            asked=self._waves.asked,
            now=1,
            spending=SPENDING,
            alpha=comparison.alpha,
            smallest_share=smallest,
            primary=comparison.primary,
            groups={cut.name: self._waves.groups.get(cut.name, 0) for cut in inputs.cuts},
        )

    @classmethod
    def added_to(cls, protocol: GroupComparison, config: Config) -> GroupComparison:
        """Return the protocol with the rule's supplement; raise for settings that the rule does not go with."""
        check_settings(config, cls.refuses)
        if config.analysis.correction not in CORRECTIONS:
            fix = f"Set analysis.correction={CORRECTIONS[0]}, or leave {WHERE} out"
            raise Fp2Error(f"it does not go with {WHERE}", where="analysis.correction", fix=fix)
        supplements = (*protocol.options.supplements, cls.supplement)
        return type(protocol)(replace(protocol.options, supplements=supplements))

    @staticmethod
    def recall(block: Mapping[str, Any]) -> StoppingLooks:
        """Return the looks of a logged run from its block."""
        rows = {(row["probe"], row["scorer"], row["cut"]): _recalled(row) for row in block["rows"]}
        composites = {row["cut"]: _recalled(row) for row in block["composites"]}
        last = {probe["probe"]: probe["look"] for probe in block["probes"]}
        names = ("now", "spending", "alpha", "smallest_share", "groups")
        return StoppingLooks(
            at=tuple(block["at"]),
            last=last,
            rows=rows,
            composites=composites,
            primary=block.get("primary", ""),
            **{name: block[name] for name in names},
        )

    def unit_of(self, question: Question) -> str:
        """Return the probe."""
        return question.probe

    @property
    def progress(self) -> str:
        """How many rows are decided, in words."""
        awaited = self.looks.awaited.values()
        decided = sum(decision.decided != OPEN for decision in awaited)
        further = plural(len(self.asked_further), "probe")
        rows = f"{decided} of {len(awaited)} rows decided"
        return f"look {self._decided_at} of {len(self.looks.at)}: {rows}; {further} asked further"

    def expected_answers(self, ratio: float) -> int | None:
        """Return about how many answers are asked where the clearest gap beyond the smallest effect has this size.

        `ratio` is in minimum detectable effects. A probe waits for all its rows, so that more may be asked.
        """
        share = expected_share(ratio, self._waves, self.looks.alpha * self._primary_share)
        return round(share * int(self._storage.n_planned))

    def answers(self) -> RowAnswers:
        """Return one row per planned answer; one that was not called for counts as not asked, stored or not."""
        frame = self._storage.answers().frame
        limits = frame["probe"].map({probe: self.limit(probe) for probe in set(self._units)})
        waves = [self._waves.wave[key] for key in zip(frame["subject_id"], frame["image_id"], strict=True)]
        not_asked = np.array(waves) > limits.to_numpy()
        empty = {
            "text": None,
            "numbers": None,
            "status": "error",
            "error": NOT_ASKED,
            "attempts": 0,
            "seconds": 0.0,
            "tokens": 0,
            "cached": False,
        }
        frame = frame.copy()
        for name, value in empty.items():
            frame.loc[not_asked, name] = value
        return RowAnswers(frame)

    def decide(self) -> None:
        """Take the look `now` at the answers of the waves so far."""
        looks, inputs = self.looks, self._inputs
        tables = scored(self._protocol, RunTables(inputs.people, self.answers(), None), inputs)
        assert tables.scores is not None
        comparison = replace(looks, running=True).settings(self._comparison, inputs.config.analysis.permutations)
        compared = fingerprint(
            tables.scores,
            inputs.people,
            inputs.cuts,
            inputs.scorers,
            replace(comparison, n_bootstrap=0),
            inputs.config.analysis.severity,
        )
        self.looks = take_look(looks, compared.disparities, compared.composites, dict.fromkeys(self._units))


def _recalled(row: Mapping[str, Any]) -> Decision:
    return Decision(row["look"], row["decided"], row["p_values"], row.get("raw"), row.get("n_subjects"))
