"""The prompts of an image share what they have in common: computed once, and texts drafted from earlier answers."""
