"""FHIBE's analyses of scores: benchmark, error models, error patterns."""
