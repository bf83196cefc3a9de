"""Solvers: how a client trains the shared model in a round (`[solver]`)."""
