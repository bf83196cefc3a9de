"""Optimizers: how a parameter vector follows a gradient (`train.optimizer`)."""
