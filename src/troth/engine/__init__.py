"""Train many clients at once, as rows of one matrix.

`plan` measures and chooses how steps are computed and where client state is stored.
`local_training` runs the training phases of a cohort. `vmap` lifts functions of one
client over many, traces them (`trace`) and compiles them. `batches` gathers the data,
and `population` stores client state.
"""
