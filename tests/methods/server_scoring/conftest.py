"""Images to ask about, for the tests of scoring by servers."""

from checkpoint_fixtures import tasks

__all__ = ["tasks"]
