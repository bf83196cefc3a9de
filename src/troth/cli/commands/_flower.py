"""What `troth server` and `troth client` need, which is an extra."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

Experiment = Annotated[Path, Argument(metavar="EXPERIMENT.toml")]


def needed(name: str) -> Callable[..., Any]:
    """A function that runs on Flower; refused where that is not installed.

    Args:
        name: of the function and of its module.
    """
    from troth.types import Refusal

    if importlib.util.find_spec("flwr") is None:
        raise Refusal(
            "a real federation runs on Flower, which is not installed; install it by: "
            "pip install 'troth[flower]'"
        )
    module = importlib.import_module(f"troth.deployment.flower.{name}")
    found: Callable[..., Any] = getattr(module, name)
    return found
