"""No schedule."""

from __future__ import annotations


def constant() -> float:
    """The learning rate stays as it is."""
    return 1.0
