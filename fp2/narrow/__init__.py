"""Specialised vision models on pictures of people: FHIBE's eight narrow tasks, with one score a person."""
