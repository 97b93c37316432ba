"""Secondary analyses of every comparison: pairs of groups, missing answers, and the agreement of scorers."""

from __future__ import annotations

from fp2.extension import SupplementEntry

PAIRWISE = SupplementEntry("pairwise", f"{__name__}.pairwise:Pairwise", f"{__name__}.pairwise:PairwiseSection", order=1)
MISSING = SupplementEntry("missing", f"{__name__}.missing:Missing", f"{__name__}.missing:MissingSection", order=2)
SCORER_AGREEMENT = SupplementEntry(
    "scorer_agreement",
    f"{__name__}.scorer_agreement:ScorerAgreement",
    f"{__name__}.scorer_agreement_section:ScorerAgreementSection",
    order=5,
)
