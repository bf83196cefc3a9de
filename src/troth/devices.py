"""Device helpers: free memory, out-of-memory errors, and the memory allocator."""

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
    unmaps each of them, and the page faults cost more than the arithmetic. With this
    setting an MLP trains 2.2 times as fast on two cores, and a CNN 1.6 times. On other
    systems than Linux nothing is done.
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
    """Send a small host tensor to a device without waiting for the device.

    CUDA copies pageable memory to a buffer before the call returns. MPS does not, and
    would read memory that was freed since. On MPS the call therefore waits.
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
    """Return how many cores this process may use.

    This is the smallest of three numbers: the cores that the process is bound to, those
    that its control group may use, and `OMP_NUM_THREADS` if it is set.
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
    """Choose how many threads one torch operation on a CPU uses.

    An operation ends with its slowest thread. If other programs use the cores, all
    threads wait for the thread without a core, and the operation may take ten times as
    long as on one thread. So only idle cores are used, and a short measurement compares
    them with one core. If `OMP_NUM_THREADS` is set, or on another device, torch's
    number is kept.
    """
    whole = torch.get_num_threads()
    if device.type != "cpu" or whole == 1 or os.environ.get("OMP_NUM_THREADS"):
        return whole
    most = min(whole, cores()) - _busy()
    times = {max(1, most): 0.0, 1: 0.0}
    for _ in range(5 if len(times) > 1 else 0):
        for count in times:  # in turns, so that a busy moment affects both
            with using(count):
                times[count] += _operations()
    times[1] *= 0.8  # several threads must be worth the risk of waiting
    return min(times, key=times.__getitem__)


def _busy() -> int:
    """Return how many cores other programs use now; 0 if the system does not say.

    The system gives the mean of the last minute and the number of running threads. The
    mean includes the earlier work of this process, so the smaller number is taken.
    """
    line = next(iter(_lines("/proc/loadavg")), "") or "0 0 0 1/1"
    fields = line.split()
    return min(round(float(fields[0])), int(fields[3].split("/")[0]) - 1)


def _operations() -> float:
    """Return the seconds of some operations on a tensor that several threads share."""
    x, began = torch.ones(2**17), time.perf_counter()
    for _ in range(4):
        x.exp()
    return time.perf_counter() - began


@contextlib.contextmanager
def using(count: int) -> Iterator[None]:
    """Use this many threads for one torch operation within the block; 0: no change."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


_RAN_OUT = "not enough memory", "can't allocate memory", "MPS backend out of memory"


def exhausted(error: Exception) -> bool:
    """Return whether an error means that memory ran out, on any device."""
    if isinstance(error, torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return True
    return isinstance(error, MemoryError) or any(t in str(error) for t in _RAN_OUT)


def tidy() -> None:
    """Free unreferenced memory, also on GPUs."""
    gc.collect()
    torch.cuda.empty_cache()  # does nothing without a GPU


def free(device: torch.device) -> int:
    """Return the free bytes of a device.

    For the CPU, this is the smallest of three numbers: the free memory of the system,
    what is left of the limits of the process's control groups, and what is left of its
    own limits (`ulimit -v`, `ulimit -d`).
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = _numbers("/proc/meminfo").get("MemAvailable:")
    whole = 4 * 2**30 if found is None else found * 1024
    return max(0, min([whole, *_by_groups(), *_by_limits()]))


def _by_groups() -> Iterator[int]:
    """Yield the bytes left in each limited control group above the process."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = "/sys/fs/cgroup" + ("/memory" if controllers else "")
        names = ("limit_in_bytes", "usage_in_bytes") if controllers else _SECOND
        above = PurePosixPath(path)
        for group in (above, *above.parents):  # in a container, only the last exists
            where = f"{root}{group}/memory.".replace("//", "/")
            limit, used = (_number(where + name) for name in names)
            if limit is not None and used is not None:
                yield limit - used + _cached(where + "stat")


_SECOND = ("max", "current")  # file names in version 2 of control groups


def _cached(path: str) -> int:
    """Return the file cache of a group, which the kernel can free at any time."""
    stat = _numbers(path)
    whole = "total_" if "total_inactive_file" in stat else ""  # includes subgroups
    kinds = ("inactive_file", "active_file")
    return sum(stat.get(whole + kind, 0) for kind in kinds)


def _by_limits() -> Iterator[int]:
    """Yield the bytes left of the process's limits on address space and on data."""
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
    """Return the number in a file, or `None` if it has none (`max`: no limit)."""
    text = next(iter(_lines(path)), "")
    return int(text) if text.isdecimal() else None


def _numbers(path: str) -> dict[str, int]:
    """Return the numbers in a file, keyed by the word before each number."""
    pairs = (line.split()[:2] for line in _lines(path))
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdecimal()}
