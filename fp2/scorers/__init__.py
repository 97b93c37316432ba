"""Scorers: one file per dimension; every score is a function of the answer's text only."""
