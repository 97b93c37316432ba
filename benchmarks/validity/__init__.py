"""Does the inference hold? Error rates, coverage, bias and power by simulation, on data like ours.

`python -m benchmarks.validity` runs every study, resumes where it was stopped, and writes the report.
"""
