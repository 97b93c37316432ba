"""Config groups, found by the entry point `fp2.conf`."""
