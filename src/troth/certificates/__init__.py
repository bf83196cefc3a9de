"""Certificates by randomized smoothing: a classifier in, proven radii out.

All that is seen of a model is `classify`: images [b, …] → scores [b, classes].
"""
