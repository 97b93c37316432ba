"""FHIBE's CLIP analysis: zero-shot labels."""
