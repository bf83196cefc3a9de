"""Nothing is fitted."""


def none() -> None:
    """Inputs are left unchanged; missing values are refused."""
