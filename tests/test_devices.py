from __future__ import annotations

import builtins
import ctypes
import io
import resource
import subprocess
import sys
from typing import Any

import pytest
import torch

from troth import devices


def test_keep_can_be_called_again_and_again() -> None:
    before = torch.ones(10**6)
    for _ in range(3):
        devices.keep()
    assert before.sum() == 10**6  # what was there stays there


def test_keep_sets_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    class Library:
        def mallopt(self, option: int, value: int) -> int:
            calls.append((option, value))
            return 1

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    devices.keep()
    assert dict(calls)[-4] == 0  # M_MMAP_MAX: no block is mapped apart
    assert dict(calls)[-1] >= 2**30  # M_TRIM_THRESHOLD: the top is not given back


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_keep_does_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    def never(name: Any) -> Any:
        raise AssertionError("asked for a C library")

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", never)
    devices.keep()


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_keep_does_without_glibc(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(name: Any) -> Any:
        raise error("musl")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", fail)
    devices.keep()


def test_torch_says_so_itself() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert devices.exhausted(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: "
            "not enough memory: you tried to allocate 80 bytes."
        ),
        RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate"
        ),
        RuntimeError(
            "MPS backend out of memory (MPS allocated: 18.00 GB, other allocations: "
            "1.00 MB, max allowed: 18.13 GB). Tried to allocate 256.00 MB on private "
            "pool."
        ),
        MemoryError(),
        MemoryError("Unable to allocate 8.00 GiB for an array"),
    ],
)
def test_memory_that_ran_out_is_recognised(error: Exception) -> None:
    assert devices.exhausted(error)


@pytest.mark.parametrize(
    "text", ["mat1 and mat2 shapes cannot be multiplied", "", "CUDA error: device lost"]
)
def test_other_errors_are_not_taken_for_it(text: str) -> None:
    assert not devices.exhausted(RuntimeError(text))


def test_free_is_a_number_of_bytes() -> None:
    free = devices.free(torch.device("cpu"))
    assert type(free) is int and 2**20 < free < 2**50


def _meminfo(monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    real = builtins.open

    def opened(path: Any, *args: Any, **more: Any) -> Any:
        if not str(path).startswith(("/proc", "/sys")):
            return real(path, *args, **more)
        if text is None or "meminfo" not in str(path):
            raise FileNotFoundError(path)
        return io.StringIO(text)

    monkeypatch.setattr(builtins, "open", opened)


def test_free_reads_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "MemTotal:  9 kB\nMemFree:  1 kB\nMemAvailable:   123 kB\n"
    _meminfo(monkeypatch, text)
    assert devices.free(torch.device("cpu")) == 123 * 1024


@pytest.mark.parametrize("text", [None, "MemTotal: 9 kB\n"])
def test_free_without_an_answer_is_modest(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    _meminfo(monkeypatch, text)
    assert devices.free(torch.device("cpu")) == 4 * 2**30


# --- limits below what the machine has ---

FAR = "MemAvailable: 99999999999 kB\n"


def _files(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    """These are all that /proc and /sys hold."""
    real = builtins.open

    def opened(path: Any, *args: Any, **more: Any) -> Any:
        if not str(path).startswith(("/proc", "/sys")):
            return real(path, *args, **more)
        if str(path) not in files:
            raise FileNotFoundError(path)
        return io.StringIO(files[str(path)])

    monkeypatch.setattr(builtins, "open", opened)


def _free() -> int:
    return devices.free(torch.device("cpu"))


def test_free_within_a_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 2: the narrowest of the group and all above it, files not counted."""
    at = "/sys/fs/cgroup"
    files = {
        "/proc/meminfo": FAR,
        "/proc/self/cgroup": "0::/a/b\n",
        f"{at}/a/b/memory.max": "max\n",
        f"{at}/a/b/memory.current": "500\n",
        f"{at}/a/memory.max": "4000\n",
        f"{at}/a/memory.current": "1500\n",
        f"{at}/a/memory.stat": "anon 9\ninactive_file 200\nactive_file 30\n",
    }
    _files(monkeypatch, files)
    assert _free() == 4000 - 1500 + 230
    files[f"{at}/a/b/memory.max"] = "1000\n"
    assert _free() == 1000 - 500
    files[f"{at}/a/b/memory.current"] = "1001\n"
    assert _free() == 0


def test_free_within_a_control_group_of_the_first_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = "/sys/fs/cgroup/memory"
    stat = "inactive_file 1\ntotal_inactive_file 100\ntotal_active_file 20\n"
    files = {
        "/proc/meminfo": FAR,
        "/proc/self/cgroup": "5:cpu:/x\n4:hugetlb,memory:/a\n0::/\n",
        f"{at}/a/memory.limit_in_bytes": "5000\n",
        f"{at}/a/memory.usage_in_bytes": "3000\n",
        f"{at}/a/memory.stat": stat,
        f"{at}/memory.limit_in_bytes": "9223372036854771712\n",
        f"{at}/memory.usage_in_bytes": "3000\n",
    }
    _files(monkeypatch, files)
    assert _free() == 5000 - 3000 + 120


def test_free_in_a_container_that_sees_only_its_own_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = "/sys/fs/cgroup/memory"
    files = {
        "/proc/meminfo": FAR,
        "/proc/self/cgroup": "4:memory:/docker/0a1b\n",
        f"{at}/memory.limit_in_bytes": "700\n",
        f"{at}/memory.usage_in_bytes": "200\n",
    }
    _files(monkeypatch, files)
    assert _free() == 500


@pytest.mark.parametrize(
    ("name", "used"), [("RLIMIT_AS", 7000), ("RLIMIT_DATA", 600), (None, 0)]
)
def test_free_within_the_limits_of_the_process(
    monkeypatch: pytest.MonkeyPatch, name: str | None, used: int
) -> None:
    pages = "7000 5 4 3 0 600 0"
    _files(monkeypatch, {"/proc/meminfo": FAR, "/proc/self/statm": pages})
    kind, none = getattr(resource, name or "RLIMIT_AS"), resource.RLIM_INFINITY
    limit = 2**33 if name else none
    monkeypatch.setattr(
        resource, "getrlimit", lambda k: (limit if k == kind else none, none)
    )
    page = resource.getpagesize()
    assert _free() == (2**33 - used * page if name else 99999999999 * 1024)


def test_free_sees_a_real_limit() -> None:
    program = (
        "import resource, torch\n"
        "from troth import devices\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\n"
        "print(devices.free(torch.device('cpu')))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert 0 < int(out.stdout) < 2**33
