"""FHIBE on disk: its vocabularies, its release folder, its annotations."""
