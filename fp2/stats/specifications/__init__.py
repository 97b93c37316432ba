"""Many ways to analyse the same answers, tested with the same permutations of the subjects.

`panel` tests every outcome under every estimator; `estimators` are the three of them; `curve` tests a specification
curve as a whole.
"""
