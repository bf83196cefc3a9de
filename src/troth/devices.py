"""Devices: their names, cores, threads and free memory, and out-of-memory errors."""

import contextlib
import ctypes
import gc
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import PurePosixPath

import torch
from torch import Tensor

_ARENAS, _MMAPS, _TOP_PAD, _TRIM = -8, -4, -2, -1  # glibc's codes for mallopt


def keep() -> None:
    """Keep freed memory in the process instead of returning it to the system.

    A training step allocates and frees matrices of many megabytes. glibc maps and
    unmaps each of them, and the page faults take longer than the arithmetic. With this
    setting, on two cores, an MLP is trained 2.2 times as fast, and a CNN 1.6 times. On
    systems other than Linux, nothing is done.
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


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a small host tensor to a device without waiting for the device.

    CUDA copies pageable memory to a buffer before the call returns. MPS does not, and
    could read memory that was freed meanwhile. So on MPS, the call waits.
    """
    return tensor.to(device, non_blocking=device.type == "cuda")


def name(device: torch.device) -> str:
    """Return the name of a device's hardware, such as "NVIDIA H200"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    lines = (line.split(":") for line in _lines("/proc/cpuinfo"))
    named = (parts[1].strip() for parts in lines if parts[0].strip() == "model name")
    return f"{device.type} {next(named, '') or platform.processor()}"


def cores() -> int:
    """Return the number of cores that this process may use.

    This is the smallest of three numbers: the cores to which the process is bound, the
    cores of its control group, and `OMP_NUM_THREADS` if it is set.
    """
    count = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    quota, _, period = next(iter(_lines("/sys/fs/cgroup/cpu.max")), "").partition(" ")
    if quota.isdecimal() and period.isdecimal():
        count = min(count, -(-int(quota) // int(period)))
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(count, int(asked)) if asked.isdecimal() else count)


def threads(device: torch.device) -> int:
    """Return the number of threads for one torch operation on a CPU.

    An operation ends with its slowest thread. If other programs use cores, all threads
    wait for a thread that has no core, and the operation may take ten times as long as
    with one thread. So the result is the number of idle cores, or 1 if a short
    measurement shows that one thread is faster. If `OMP_NUM_THREADS` is set, or the
    device is not a CPU, torch's number is returned.
    """
    whole = torch.get_num_threads()
    if device.type != "cpu" or whole == 1 or os.environ.get("OMP_NUM_THREADS"):
        return whole
    most = min(whole, cores()) - _busy()
    times = {max(1, most): 0.0, 1: 0.0}
    for _ in range(5 if len(times) > 1 else 0):
        for count in times:  # alternate, so that a busy moment affects both
            with using(count):
                times[count] += _operations()
    times[1] *= 0.8  # with several threads, there is a risk of waiting
    return min(times, key=times.__getitem__)


def _busy() -> int:
    """Return how many cores other programs use now; 0 if the system does not tell.

    The system tells the mean load of the last minute and the number of running threads.
    The mean includes earlier work of this process, so the smaller number is returned.
    """
    line = next(iter(_lines("/proc/loadavg")), "") or "0 0 0 1/1"
    fields = line.split()
    return min(round(float(fields[0])), int(fields[3].split("/")[0]) - 1)


def _operations() -> float:
    """Return the seconds that some operations on a large tensor take."""
    x, began = torch.ones(2**17), time.perf_counter()
    for _ in range(4):
        x.exp()
    return time.perf_counter() - began


@contextlib.contextmanager
def using(count: int) -> Iterator[None]:
    """Within the block, use `count` threads per torch operation; 0 means no change."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_RAN_OUT = "not enough memory", "can't allocate memory", "MPS backend out of memory"


def exhausted(error: Exception) -> bool:
    """Return whether an error means that the memory of a device ran out."""
    if isinstance(error, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return True
    return isinstance(error, MemoryError) or any(t in str(error) for t in _RAN_OUT)


def tidy() -> None:
    """Free unreferenced memory, also on GPUs."""
    gc.collect()
    torch.cuda.empty_cache()  # does nothing without a GPU


def free(device: torch.device) -> int:
    """Return the free bytes of memory of a device.

    For the CPU, this is the smallest of three numbers: the free memory of the system,
    the remaining memory of the process's control groups, and the remaining memory of
    its limits (`ulimit -v`, `ulimit -d`).
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = _numbers("/proc/meminfo").get("MemAvailable:")
    whole = 4 * 2**30 if found is None else found * 1024
    return max(0, min([whole, *_by_groups(), *_by_limits()]))


def _by_groups() -> Iterator[int]:
    """Yield the remaining bytes of each control group that has a limit."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = "/sys/fs/cgroup" + ("/memory" if controllers else "")
        names = ("limit_in_bytes", "usage_in_bytes") if controllers else _SECOND
        above = PurePosixPath(path)
        for group in (above, *above.parents):  # a container has only the last
            where = f"{root}{group}/memory.".replace("//", "/")
            limit, used = (_number(where + name) for name in names)
            if limit is not None and used is not None:
                yield limit - used + _cached(where + "stat")


_SECOND = ("max", "current")  # file names in version 2 of control groups


def _cached(path: str) -> int:
    """Return the bytes of a group's file cache, which the kernel can free."""
    stat = _numbers(path)
    whole = "total_" if "total_inactive_file" in stat else ""  # includes subgroups
    kinds = ("inactive_file", "active_file")
    return sum(stat.get(whole + kind, 0) for kind in kinds)


def _by_limits() -> Iterator[int]:
    """Yield the remaining bytes of the process's limits of address space and data."""
    try:
        import resource
    except ImportError:  # Windows
        return
    pages = [*_lines("/proc/self/statm"), "0 0 0 0 0 0 0"][0].split()
    for name, used in (("RLIMIT_AS", pages[0]), ("RLIMIT_DATA", pages[5])):
        limit, _ = resource.getrlimit(getattr(resource, name))
        if limit != resource.RLIM_INFINITY:
            yield limit - int(used) * resource.getpagesize()


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []


def _number(path: str) -> int | None:
    """Return the number in a file, or `None` if it has none (such as `max`)."""
    text = next(iter(_lines(path)), "")
    return int(text) if text.isdecimal() else None


def _numbers(path: str) -> dict[str, int]:
    """Return the numbers in a file, keyed by the word before each number."""
    pairs = (line.split()[:2] for line in _lines(path))
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdecimal()}
