"""The numbers of a run by the rule of the Fingerprint² page, beside ours (`analysis.published=true`)."""

from __future__ import annotations

from fp2.extension import SupplementEntry

PUBLISHED = SupplementEntry(
    "published",
    f"{__name__}.published:Published",
    f"{__name__}.published:PublishedSection",
    fits=lambda job, tables: job.config.analysis.published,
)
