"""Many ways to analyse the same answers, tested with the same permutations of the subjects.

`panel` tests every outcome under every estimator, and a specification curve as a whole; `estimators` are the three of
them.
"""
