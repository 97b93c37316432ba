"""What an answer says: one file a dimension, every score a pure function of the answer's text."""
