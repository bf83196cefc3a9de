"""No schedule."""


def constant() -> float:
    """The learning rate stays as it is."""
    return 1.0
