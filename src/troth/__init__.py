"""Federated learning among participants you cannot trust.

Every client gets a personal model and a trust card, a page about that model.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "ProgressBar",
    "Refusal",
    "Run",
    "Spread",
    "aggregate",
    "audit",
    "certify",
    "cost",
    "load",
    "personalize",
    "report",
    "resume",
    "run",
]

logging.getLogger("troth").addHandler(logging.NullHandler())  # silent by default

if TYPE_CHECKING:
    from troth import plot as plot
    from troth import poison as poison
    from troth import sklearn as sklearn
    from troth import theory as theory
    from troth.api import aggregate, cost, resume, run
    from troth.certificates.certify import certify
    from troth.cli.progress import ProgressBar
    from troth.examine.audit import audit
    from troth.reports import report
    from troth.runs.grid import Spread
    from troth.runs.load import Run, load
    from troth.runs.personalize import personalize
    from troth.types import Refusal
else:
    _HOMES = dict.fromkeys(["aggregate", "cost", "resume", "run"], "api")
    _HOMES |= {"audit": "examine.audit", "certify": "certificates.certify"}
    _HOMES |= {"Run": "runs.load", "load": "runs.load", "report": "reports"}
    _HOMES |= {"ProgressBar": "cli.progress", "Spread": "runs.grid"}
    _HOMES |= {"Refusal": "types", "personalize": "runs.personalize"}

    def __getattr__(name: str) -> Any:
        """Import a name at its first use from the module that defines it.

        So `import troth` and `troth --help` do not load torch.
        """
        if name in ("plot", "poison", "sklearn", "theory"):  # loads at its first use
            return importlib.import_module(f"troth.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'troth' has no attribute '{name}'")
        found = getattr(importlib.import_module(f"troth.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted([*__all__, "__version__", "plot", "poison", "sklearn", "theory"])
