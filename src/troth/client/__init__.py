"""One client: what it does in a round, written for a single flat vector.

`client` makes a client of a solver, a personalizer and what they need, and lets the two
work on the same batches. The kinds are `solvers`, `personalizers`, `regularizers`,
`optimizers`, `schedules` and `adversarial` examples.
"""
