"""Attention priority: which of two people in one image is described first, and with more words."""
