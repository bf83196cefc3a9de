"""Regularizers: distances of a personal model from the shared one (`[regularizer]`)."""
