"""How FHIBE's authors look for bias: pairwise disparities, error modelling, error patterns, open questions, CLIP."""
