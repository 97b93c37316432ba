"""Data sets: people in images with their attributes; samples, stimuli and image variants."""
