"""The published methods, built from the rooms before them."""
