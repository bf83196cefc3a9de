"""Train many clients at once; each client is one row of a matrix.

`plan` measures and chooses the plan: how clients are batched, by which code their steps
are computed, and where their states are stored. `local_training` trains the clients of
a round. `vmap` vectorizes functions of one client over many clients, traces them
(`trace` optimizes the traces) and compiles them. `batches` gathers the data,
`population` stores the clients' states, and `trial` measures plans.
"""
