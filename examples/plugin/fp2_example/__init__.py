"""An example plug-in for Fingerprint² Bench."""
