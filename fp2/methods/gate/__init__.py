"""Conditions on finished runs, for continuous integration: an exit status, JUnit XML, Markdown."""
