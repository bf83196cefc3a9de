"""Partitions: functions from a data set to one list of row numbers per client."""
