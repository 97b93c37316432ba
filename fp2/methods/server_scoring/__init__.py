"""Scoring methods of servers besides that of chat completions: typed decisions, and shares of sampled answers."""
