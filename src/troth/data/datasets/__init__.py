"""Data sets: one file per data set, with a function that returns `Arrays`."""
