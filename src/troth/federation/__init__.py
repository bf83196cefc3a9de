"""The rounds of one federation, or of several federations that are trained together.

`rounds` has the loop over rounds. `sampling` and `samplers` choose the clients of each
round. `newcomers` trains models for clients that join after training. `stacked` trains
several federations together.
"""
