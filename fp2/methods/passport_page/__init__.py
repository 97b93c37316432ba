"""A passport as a page to read, in HTML or PDF."""
