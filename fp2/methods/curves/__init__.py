"""The specification curve: one claim under other choices of the analysis.

`choices` lists the specifications and makes their values, `estimators` and `panel` test them with joint permutations,
`curves` puts the tests of a claim together, `supplement` is the block.
"""

from __future__ import annotations

from fp2.extension import SupplementEntry

MULTIVERSE = SupplementEntry(
    "multiverse",
    "fp2.methods.curves.supplement:Multiverse",
    "fp2.methods.curves.section:MultiverseSection",
    fits=lambda job, tables: job.config.analysis.multiverse,
)
