"""Scorers that ask a model: a language model as judge, a text classifier."""
