"""Train many clients at once; each client is one row of a matrix.

`plan` measures and chooses how steps are computed and where client state is stored.
`local_training` runs the training phases of a cohort. `vmap` lifts functions of one
client over many, traces them (`trace`) and compiles them. `batches` gathers the data,
and `population` stores client state.
"""
