"""Public data sets that are label files over pictures, and local Hugging Face data sets."""
