"""Nothing is fitted."""


def none() -> None:
    """Inputs stay as the data have them; missing values in them are refused."""
