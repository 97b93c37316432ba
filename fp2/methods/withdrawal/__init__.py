"""The purge: what was derived from people who withdrew, an image or a release is removed, and certified."""
