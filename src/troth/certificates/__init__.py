"""Certificates by randomized smoothing: a classifier in, proven radii out.

The only view of a model is `classify`: images [b, …] → scores [b, classes]. `smoothing`
holds the settings, `sampling` counts votes, `stopping` decides when there are enough,
`bounds` turns counts into radii, `certify` does all of it; `ledger` stores
certificates, `curves` summarizes them.
"""
