"""FHIBE's open-ended questions."""
