"""The metrics of the narrow tasks: pure functions on arrays; each person of each picture gets a number of their own."""
