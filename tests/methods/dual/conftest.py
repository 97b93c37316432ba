"""Tiny checkpoints and some images, for the tests of engines."""

from checkpoint_fixtures import tasks, tiny_family, tiny_llava, tiny_llava_raw

__all__ = ["tasks", "tiny_family", "tiny_llava", "tiny_llava_raw"]
