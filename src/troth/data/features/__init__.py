"""How missing values are filled in and features standardized, before training."""
