"""What was answered: content-addressed, crash-safe, shared by every run."""
