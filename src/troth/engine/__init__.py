"""Step many clients as one matrix.

`plan` measures and chooses how clients step and where their state lies;
`local_training` takes a cohort through its phases; `vmap` lifts, traces (`trace`) and
compiles; `batches` gathers the data; `population` stores client state.
"""
