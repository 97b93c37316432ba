"""Fingerprint² Bench: groups that a vision-language model describes differently, by how much, with what uncertainty."""

__version__ = "0.3.0"
