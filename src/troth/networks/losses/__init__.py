"""Losses: outputs and labels → the loss of each example (`train.loss`)."""
