"""Models that ship with the package, and the truth planted in them."""
