"""Evaluation protocols: how questions are asked about a data set, and how the answers are analysed."""
