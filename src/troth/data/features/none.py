"""No statistics are fitted."""


def none() -> None:
    """Leave inputs unchanged; refuse missing values."""
