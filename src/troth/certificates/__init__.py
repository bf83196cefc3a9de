"""Certificates by randomized smoothing: a classifier in, proven radii out.

The only view of a model is `classify`: inputs [b, …] → scores [b, classes]. `smoothing`
has the settings, `lattice` draws noise, `sampling` counts votes, `stopping` decides
when there are enough, `bounds` turns counts into radii, and `certify` combines these.
`ledger` stores certificates, and `curves` summarizes them.
"""
