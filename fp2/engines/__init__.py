"""Engines: the software that runs a model. `base` is the interface; each sub-package is one engine."""
