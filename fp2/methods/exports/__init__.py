"""Results and answers of runs in the formats of others: tables, model cards, ML-BOM, Every Eval Ever, logs."""
