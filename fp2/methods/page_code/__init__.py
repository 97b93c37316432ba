"""The published numbers of the Fingerprint² page: the questions, conditions and scorers of the code that made them."""
