"""Config groups of the plug-in; `fp2` finds them by the entry point `fp2.conf`."""
