"""Batteries: fixed sets of questions, one YAML file each."""
