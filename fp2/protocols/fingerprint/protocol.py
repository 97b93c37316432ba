"""The bias fingerprint as a protocol: six probes, scored answers, disparities between groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fp2.config import ANALYSIS_OPTIONS
from fp2.data.derived import FIRST_REGION
from fp2.protocols.base import EvaluationProtocol
from fp2.protocols.fingerprint.attention import Attention
from fp2.protocols.fingerprint.comparison import GroupComparison
from fp2.protocols.fingerprint.matched import Matched
from fp2.protocols.fingerprint.published import check_published

if TYPE_CHECKING:
    import pandas as pd

    from fp2.config import Config
    from fp2.probes.battery import Battery


class Fingerprint(GroupComparison):
    """The default protocol. A battery about two people makes it `Attention`, counterfactual sets make it `Matched`."""

    name = "fingerprint"
    matched = True
    takes_analysis = ANALYSIS_OPTIONS
    takes_samples = True

    def check_analysis(self, config: Config) -> None:
        """Raise for what the base refuses, and for the page's rule without its probes or scorer."""
        super().check_analysis(config)
        if config.analysis.published:
            check_published(config)

    def attributes(self, config: Config) -> set[str]:
        """Return the covariates, and the region that the page's rule groups people by."""
        return super().attributes(config) | ({FIRST_REGION} if config.analysis.published else set())

    def for_battery(self, battery: Battery) -> EvaluationProtocol[Any]:
        """Return `Attention` for a battery about two people."""
        return Attention(self.options) if battery.people == 2 else self

    def for_people(self, people: pd.DataFrame) -> EvaluationProtocol[Any]:
        """Return `Matched` for counterfactual sets."""
        from fp2.cuts import of_sets

        return Matched(self.options) if of_sets(people) else self
