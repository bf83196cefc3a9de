"""The constant schedule."""


def constant() -> float:
    """Keep the learning rate constant."""
    return 1.0
