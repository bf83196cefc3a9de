"""Trackers: show runs in other programs, such as TensorBoard and MLflow.

A tracker is a function `NAME(run, parent, *, option=…)` that returns a `types.Tracker`,
to which the values of one run are written. A separate process reads the files of the
run and calls the tracker, so that it can neither stop the training nor slow it down.
"""
