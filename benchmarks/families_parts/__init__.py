"""Tiny checkpoints of every image-text-to-text type of transformers, and what the engine may share with each."""
