"""FHIBE (Xiang et al. 2025): bias analyses of scores, open questions, zero-shot labels, narrow vision tasks."""
