"""Our forms of files of answers, an entry point of the group `fp2.forms` each."""
