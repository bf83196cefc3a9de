"""Trackers show runs in other programs, such as TensorBoard and MLflow.

A tracker is called as `NAME(run, parent, *, option=…)` and returns a `types.Tracker`,
which writes the values of one run. Trackers work in a separate process that reads the
files of the run, so they can neither stop nor slow training.
"""
