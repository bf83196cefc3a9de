"""Step many clients as one matrix.

`plan` measures and chooses how clients step and where their state lies; `engine` takes
a cohort through the phases of its clients; `vmap` lifts, traces (`trace`) and compiles;
`batches` gathers the data; `population` stores client state in memory or in a file.
"""
