"""Reports: figures, dashboard, terminal, leaderboard and the signed passport. Nothing is computed here."""
