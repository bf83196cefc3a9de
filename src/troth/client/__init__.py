"""One client of a federation, as functions of a flat parameter vector.

`client` combines a solver (which trains the shared model) and a personalizer (which
trains the client's personal model) into a client. Every folder holds one kind of
method: solvers, personalizers, regularizers, optimizers, schedules of the learning
rate, and methods that make adversarial inputs.
"""
