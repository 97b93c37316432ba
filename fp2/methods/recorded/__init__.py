"""Answers that exist already: read from files in several forms, matched to what a run plans, and written again."""
