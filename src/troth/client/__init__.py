"""One client of a federation, written for a single flat vector.

`client` combines a solver and a personalizer into a client. Every other folder holds
one kind of part: solvers, personalizers, regularizers, optimizers, schedules and makers
of adversarial inputs.
"""
