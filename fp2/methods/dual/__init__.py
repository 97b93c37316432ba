"""Dual encoders (CLIP, SigLIP, SigLIP 2), which compare images with texts."""
