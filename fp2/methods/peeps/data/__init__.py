"""Drawn people: invented figures with known cues, rendered and written in FHIBE's own format."""
