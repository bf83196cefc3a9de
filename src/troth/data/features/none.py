"""Nothing is fitted."""

from __future__ import annotations


def none() -> None:
    """Inputs stay as the data have them; missing values in them are refused."""
