"""How the process treats memory."""

from __future__ import annotations

import ctypes
import sys

import torch

_ARENAS, _MMAPS, _TOP_PAD, _TRIM = -8, -4, -2, -1  # glibc's names for mallopt


def keep() -> None:
    """Keep freed memory for the next step instead of giving it back to the system.

    A step allocates and frees matrices of many megabytes; glibc maps and unmaps each,
    and the page faults cost more than the arithmetic (measured on two cores: an MLP
    steps 2.2 times as fast with this, a CNN 1.6 times). Elsewhere nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in ((_MMAPS, 0), (_TRIM, 2**31 - 1), (_TOP_PAD, 2**26)):
        mallopt(option, value)
    mallopt(_ARENAS, 1)


def exhausted(error: RuntimeError) -> bool:
    """Whether an error says that memory ran out, on any device."""
    if isinstance(error, torch.OutOfMemoryError):
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return True
    text = str(error)
    return "not enough memory" in text or "can't allocate memory" in text


def free(device: torch.device) -> int:
    """Bytes that could be had now on a device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 * 2**30
