"""Models of vLLM, in this process."""
