"""Training of the models that ship with the package. Not part of the package itself."""
