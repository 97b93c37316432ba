"""Several runs: their distances, their leaderboard with rank intervals, and the report that a sweep ends with."""
