"""Losses: functions of outputs and labels with one value per example (`train.loss`)."""
