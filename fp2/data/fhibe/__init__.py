"""Sony's FHIBE: its vocabularies, releases and annotations, read as a people table."""
