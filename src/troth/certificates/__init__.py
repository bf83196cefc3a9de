"""Certify classifiers by randomized smoothing.

A certificate has a radius: no change of the input below the radius changes the
prediction. The model is a function `classify`: inputs [b, …] → scores [b, classes]. It
classifies noisy copies of an input, and each predicted class is a vote. `smoothing` has
the settings, `lattice` draws noise, `sampling` collects votes, `stopping` decides when
there are enough votes, and `bounds` computes the radius from them. `certify` combines
these. `ledger` stores certificates, and `curves` summarizes them.
"""
