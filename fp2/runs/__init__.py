"""Runs: their inputs and outputs; logged runs are read, compared, recomputed, rescored and purged."""
