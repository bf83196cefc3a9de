"""Train many clients at once, as rows of one matrix.

`plan` measures and chooses how clients step and where their state is stored.
`local_training` takes a cohort through its phases. `vmap` lifts functions of one client
over many, traces them (`trace`) and compiles them. `batches` gathers the data, and
`population` stores client state.
"""
