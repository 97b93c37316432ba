"""Stop when certain (`answers.stop=certain`): ask in waves, and about no probe further once its rows are decided."""
