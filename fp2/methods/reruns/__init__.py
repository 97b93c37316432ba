"""A logged run repeated from its config, and its numbers compared; a share of its answers asked again."""
