"""Models behind a server with an OpenAI-compatible interface."""
