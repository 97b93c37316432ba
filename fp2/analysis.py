"""What a run's tables say: the same steps when the answers have just come, and when they come from a logged run.

Ids may be salted keys. The order of the ids decides which people a permutation moves, so that p-values of the same
tables under other ids differ within their Monte-Carlo error; sizes do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fp2.config import Config

if TYPE_CHECKING:
    import pandas as pd

    from fp2.cuts import Cut
    from fp2.probes.battery import Battery
    from fp2.protocols.fingerprint import Comparison, Fingerprint
    from fp2.scorers.base import Scorer


@dataclass(frozen=True)
class Findings:
    """The fingerprint, how it was compared, and every further block of results by its name."""

    fingerprint: Fingerprint
    comparison: Comparison
    blocks: dict[str, Any]


def scored(
    answers: pd.DataFrame, people: pd.DataFrame, battery: Battery, scorers: Mapping[str, Scorer]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the answers with their refusal flag, and the scores table: of both people in pictures of two."""
    from fp2.protocols.attention import per_person
    from fp2.protocols.fhibe.vqa_people import against_people
    from fp2.scoring import flag_refusals, score_answers

    flagged = flag_refusals(answers, scorers)
    scores = against_people(score_answers(flagged, scorers), people, scorers)
    return flagged, per_person(scores, people) if battery.people == 2 else scores


def compared(
    config: Config,
    battery: Battery,
    answers: pd.DataFrame,
    scores: pd.DataFrame,
    people: pd.DataFrame,
    cuts: Sequence[Cut],
    scorers: Mapping[str, Scorer],
    tick: Callable[[], None] = lambda: None,
) -> Findings:
    """Compare the groups on every score, and make every block that applies; `tick` is told after each cut.

    `answers` carry their refusal flag; `scores` are what `scored` gives.
    """
    from fp2.cuts import of_sets
    from fp2.prepare import comparison_of
    from fp2.protocols.fingerprint import fingerprint
    from fp2.protocols.registry import Analysed, extra_blocks

    comparison = comparison_of(config, len(battery.probes), len(cuts), of_sets(people))
    found = fingerprint(scores, people, cuts, scorers, comparison, config.analysis.severity, tick)
    blocks = extra_blocks(
        Analysed(config, battery, answers, scores, people, cuts, scorers, comparison, found.disparities)
    )
    return Findings(found, comparison, blocks)
