"""Labels that people give to answers of a run, and disparities corrected for the scorer's error.

`command` serves the page on which answers are labelled, `sample` draws them and keeps the labels, `table` reads them
into a run, `measurement_error` is the block of its results, with the estimates of `correction`.
"""

from __future__ import annotations

from fp2.extension import LABELS, SupplementEntry

MEASUREMENT_ERROR = SupplementEntry(
    "measurement_error",
    "fp2.methods.labels.measurement_error:MeasurementErrors",
    "fp2.methods.labels.section:MeasurementErrorSection",
    fits=lambda job, tables: LABELS in tables.others,
)
