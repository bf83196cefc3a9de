"""Imputation of missing values and standardization of features, before training."""
