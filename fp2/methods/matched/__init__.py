"""Counterfactual sets, compared within the set."""
