"""The bias fingerprint as a protocol: six probes, scored answers, disparities between groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp2.config import ANALYSIS_OPTIONS
from fp2.data.derived import FIRST_REGION
from fp2.protocols.base import Requirements
from fp2.protocols.fingerprint.comparison import GroupComparison
from fp2.protocols.fingerprint.published import check_published

if TYPE_CHECKING:
    from fp2.config import Config
    from fp2.probes.battery import Battery


class Fingerprint(GroupComparison):
    """The default protocol. Batteries about two people and counterfactual sets have special cases of their own."""

    name = "fingerprint"
    requires = Requirements(takes_analysis=ANALYSIS_OPTIONS, takes_samples=True)

    def check_battery(self, battery: Battery, config: Config) -> None:
        """Raise for the page's rule without its probes or scorer."""
        if config.analysis.published:
            check_published(config)

    def attributes(self, config: Config) -> set[str]:
        """Return the region that the page's rule groups people by."""
        return {FIRST_REGION} if config.analysis.published else set()
