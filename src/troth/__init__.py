"""Federated learning among participants you cannot trust.

Every client gets its own model, and a word on how far to trust it.
"""

from troth.api import aggregate, cost, resume, run
from troth.loading import Run, load
from troth.types import Refusal

__all__ = ["Refusal", "Run", "aggregate", "cost", "load", "resume", "run"]
__version__ = "0.1.0"
