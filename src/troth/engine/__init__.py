"""The engine steps many clients as one matrix.

`plan` measures and chooses how; `engine` runs a cohort through the `phase`s of its
clients; `vmap` lifts, traces (`trace`) and compiles; `batches` feeds the data;
`population` keeps clients' state, in memory or in a `rowfile`, as `placement` chooses;
`packing` lays nested state out as flat rows.
"""
