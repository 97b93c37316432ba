"""Yes/no questions about traits: their words and templates, and the answers as arrays (dense storage)."""
