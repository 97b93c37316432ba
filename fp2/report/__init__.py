"""What a reader is given: figures, dashboard, terminal table, leaderboard and the signed passport. Never computes."""
