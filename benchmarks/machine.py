"""What a benchmark was measured on."""

from __future__ import annotations

import os
import platform
from typing import Any

import torch


def facts(device: str) -> dict[str, Any]:
    """The machine, as a result file names it.

    Args:
        device: as the benchmark was asked for it: auto, cpu, cuda.
    """
    cuda = torch.cuda.is_available() and device in ("auto", "cuda")
    return {
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[1],  # over the last five minutes
        "torch": torch.__version__,
    }
