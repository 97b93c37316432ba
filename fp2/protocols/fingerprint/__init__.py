"""The bias fingerprint: probes, scored answers, disparities between groups, and secondary analyses."""
