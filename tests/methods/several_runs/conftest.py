"""The invented results of `tests/report`."""

from report.conftest import _both, hostile_results, other_results, results  # noqa: F401
