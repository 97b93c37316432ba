"""The drawn people, the simulator with effects of known size, and what was planted in the bundled model."""
