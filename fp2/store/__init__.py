"""The response store: content-addressed, crash-safe, shared by all runs."""
