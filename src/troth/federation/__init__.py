"""The rounds of a federation, or of several federations at once.

`rounds` is the loop over rounds. `sampling` and `samplers` choose the clients of each
round. `newcomers` makes models for clients that took no part in training. `stacked`
trains several federations together.
"""
