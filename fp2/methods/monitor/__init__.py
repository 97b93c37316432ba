"""A finished run whose model may change without a word: some of its questions are asked again, and again."""
