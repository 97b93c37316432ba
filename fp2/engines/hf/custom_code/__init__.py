"""Checkpoints with model code of their own, behind the interface of a model of transformers."""
