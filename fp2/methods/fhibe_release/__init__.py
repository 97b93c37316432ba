"""FHIBE as a data set, from the user's own copy, and its form, in which the drawn people are kept too."""
