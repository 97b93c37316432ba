"""Commands that keep a project in order: checks of data, store and environment, pins, lists, packages of one's own."""
