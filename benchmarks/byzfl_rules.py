"""Other packages that have the same rules, for benchmarks and tests."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any, NamedTuple


class Byzfl(NamedTuple):
    """The modules of byzfl (0.0.11) that hold rules."""

    aggregators: Any
    filters: Any
    attacks: Any


def byzfl() -> Byzfl | None:
    """Its rules, or None where it is not installed.

    `import byzfl` needs torchvision, seaborn and more, for experiments of its own: its
    `__init__` is left out, and modules are imported under a bare parent of that name.
    """
    if "byzfl" not in sys.modules:
        found = importlib.util.find_spec("byzfl")
        if found is None or found.submodule_search_locations is None:
            return None
        bare = types.ModuleType("byzfl")
        bare.__path__ = list(found.submodule_search_locations)
        sys.modules["byzfl"] = bare
    names = "aggregators.aggregators", "aggregators.preaggregators", "attacks.attacks"
    return Byzfl(*(importlib.import_module(f"byzfl.{name}") for name in names))
