"""Schedules: how the learning rate changes over the rounds (`train.schedule`)."""
