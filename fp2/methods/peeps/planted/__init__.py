"""The simulator: answers from planted effects of known size."""
