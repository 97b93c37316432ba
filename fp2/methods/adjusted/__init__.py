"""Linear models of subject means: disparities with covariates held constant, and the interactions of intersections."""

from __future__ import annotations

from fp2.extension import SupplementEntry

INTERSECTIONS = SupplementEntry(
    "intersections",
    f"{__name__}.intersections:Intersections",
    f"{__name__}.intersections:IntersectionsSection",
    (("interaction", 2, ("intersections.tests*", "intersections.family", "intersections.n_permutations")),),
    lambda job, tables: any(len(cut.by) > 1 for cut in job.cuts),
    order=3,
)
ADJUSTED = SupplementEntry(
    "adjusted",
    f"{__name__}.disparities:AdjustedDisparities",
    f"{__name__}.disparities:AdjustedSection",
    fits=lambda job, tables: bool(job.config.analysis.adjust),
    order=4,
)
