"""The runs of `tests/commands/test_runs.py`."""

from commands.test_runs import runs  # noqa: F401
