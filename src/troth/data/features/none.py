"""No statistics are fitted."""


def none() -> None:
    """Leave inputs unchanged. Missing values raise Refusal."""
