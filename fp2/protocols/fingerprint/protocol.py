"""The bias fingerprint as a protocol: six probes, scored answers, disparities between groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fp2.config import ANALYSIS_OPTIONS
from fp2.data.derived import FIRST_REGION
from fp2.errors import Fp2Error
from fp2.protocols.base import Requirements
from fp2.protocols.fingerprint.comparison import GroupComparison

if TYPE_CHECKING:
    from fp2.config import Config
    from fp2.probes.battery import Battery

VALENCE = "valence"
PAGE_PROBES = ("occupation", "education", "trust", "lifestyle", "neighbourhood")
"""The probes of the composite of the Fingerprint² page. It shows a sixth, authority, that its composites leave out."""


class Fingerprint(GroupComparison):
    """The default protocol. Batteries about two people and counterfactual sets have special cases of their own."""

    name = "fingerprint"
    requires = Requirements(takes_analysis=ANALYSIS_OPTIONS, takes_samples=True, takes_stop=True)

    def check_battery(self, battery: Battery, config: Config) -> None:
        """Raise for the page's rule without its probes or scorer."""
        if not config.analysis.published:
            return
        where, rule = "analysis.published", "the rule of the Fingerprint² page"
        if not set(PAGE_PROBES) & set(config.probe.select or config.probe.probes):
            fix = "Use probe=fingerprint, or analysis.published=false"
            raise Fp2Error(f"{rule} is about probes that this battery lacks", where=where, fix=fix)
        if VALENCE not in config.scorer:
            fix = "Use scorer=default or scorer=valence"
            raise Fp2Error(f"{rule} needs the scorer valence", where=where, fix=fix)

    def attributes(self, config: Config) -> set[str]:
        """Return the region that the page's rule groups people by."""
        return {FIRST_REGION} if config.analysis.published else set()
