"""The bias fingerprint, attention priority and counterfactual sets."""
