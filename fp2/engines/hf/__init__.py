"""Models of transformers, in this process."""
