"""Who answers: real models through transformers, and a simulator with known truth."""
