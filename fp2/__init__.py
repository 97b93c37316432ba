"""Fingerprint² Bench: which groups does a vision-language model describe differently, by how much, how surely."""

__version__ = "0.3.0"
