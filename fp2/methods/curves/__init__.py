"""The specification curve: one claim under other choices of the analysis.

`choices` lists the specifications, `outcomes` makes their values, `curves` tests them, `supplement` is the block.
"""

from __future__ import annotations

from fp2.extension import SupplementEntry

MULTIVERSE = SupplementEntry(
    "multiverse",
    "fp2.methods.curves.supplement:Multiverse",
    "fp2.methods.curves.section:MultiverseSection",
    fits=lambda job, tables: job.config.analysis.multiverse,
)
