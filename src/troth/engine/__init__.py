"""The engine steps many clients as one matrix.

`plan` measures and chooses how they step and where their state lies; `engine` runs a
cohort through the phases of its clients; `vmap` lifts, traces (`trace`) and compiles;
`batches` feeds the data; `population` keeps clients' state, in memory or in a file.
"""
