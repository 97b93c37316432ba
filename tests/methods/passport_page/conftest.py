"""A passport of the invented results of `tests/report`."""

from report.conftest import _both, results  # noqa: F401
from report.test_verify import key, passport  # noqa: F401
