"""Optimizers: steps of a parameter vector along a gradient (`train.optimizer`)."""
