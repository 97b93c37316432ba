"""Programs that run in an environment of their own and import nothing of this package."""
