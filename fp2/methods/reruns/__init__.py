"""A logged run repeated from its config, and its numbers compared; or its answers scored again, without a model."""
