"""The parts of `benchmarks/prefix_sharing.py`: checkpoints, questions, the naive loop, the arithmetic limit, others."""
