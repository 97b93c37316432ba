"""What the `fp2` commands do, one file a command."""
