"""Bias analyses of FHIBE (Xiang et al. 2025): scores of any model, open-ended questions, CLIP."""
