"""The figures of a run: the bias fingerprint (radar), group means (heatmap), disparities against chance (intervals).

All read `results.json` as it is; groups below the reporting minimum are blanked first. Matplotlib loads on first use.
"""

from __future__ import annotations

from fp2.report.figures.disparity_intervals import intervals
from fp2.report.figures.fingerprint import radar
from fp2.report.figures.group_means import heatmap

__all__ = ["heatmap", "intervals", "radar"]
