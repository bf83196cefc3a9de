"""How missing values are filled in and features standardised, before training."""
