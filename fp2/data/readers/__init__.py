"""Readers for the user's own images and for published face data sets: tables, folders, label lists, Hugging Face."""
