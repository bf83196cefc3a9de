"""What `troth server` and `troth client` need, which is an extra."""

from __future__ import annotations

import importlib.util
from types import ModuleType


def needed() -> ModuleType:
    """What runs on Flower; refused where that is not installed."""
    from troth.types import Refusal

    if importlib.util.find_spec("flwr") is None:
        raise Refusal(
            "a real federation runs on Flower, which is not installed; install it by: "
            "pip install 'troth[flower]'"
        )
    from troth.flower import federate

    return federate
