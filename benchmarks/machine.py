"""Describe the machine of a benchmark."""

from __future__ import annotations

import os
import platform
from typing import Any

import torch


def facts(device: str) -> dict[str, Any]:
    """Return the facts about the machine that a result file contains.

    Args:
        device: Device of the benchmark: auto, cpu or cuda.
    """
    cuda = torch.cuda.is_available() and device in ("auto", "cuda")
    return {
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[1],  # over the last five minutes
        "torch": torch.__version__,
    }
