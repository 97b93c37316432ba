"""How well the scorers agree with labelled answers: precision, recall, F1 and coverage on a gold set."""
