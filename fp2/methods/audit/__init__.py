"""Audits: the passport commits to every answer, and `fp2 audit` recomputes its numbers and asks the model again."""
