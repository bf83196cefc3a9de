import builtins
import ctypes
import io
import resource
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from troth import devices


def test_keep_can_be_called_again_and_again():
    before = torch.ones(10**6)
    for _ in range(3):
        devices.keep()
    assert before.sum() == 10**6  # what was there stays there


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_keep_sets_what_it_says(monkeypatch, platform):
    """Only where there is a glibc; elsewhere nothing is asked for."""
    calls = []
    library = SimpleNamespace(mallopt=lambda *given: calls.append(given))
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    devices.keep()
    assert bool(calls) == (platform == "linux")
    if calls:
        assert dict(calls)[-4] == 0  # M_MMAP_MAX: no block is mapped apart
        assert dict(calls)[-1] >= 2**30  # M_TRIM_THRESHOLD: the top is kept
        for musl in (lambda name: object(), Mock(side_effect=OSError("musl"))):
            monkeypatch.setattr(ctypes, "CDLL", musl)
            devices.keep()


CPU = "DefaultCPUAllocator: {}: you tried to allocate 80 bytes."
MPS = "MPS backend out of memory (MPS allocated: 18.00 GB, other allocations: 1.00 MB, "
MPS += "max allowed: 18.13 GB). Tried to allocate 256.00 MB on private pool."


def test_memory_that_ran_out_is_recognized():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    for error in (
        caught.value,
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
        RuntimeError("[enforce fail at cpu.cpp:1] " + CPU.format("not enough memory")),
        RuntimeError(CPU.format("can't allocate memory")),
        RuntimeError(MPS),
        *(MemoryError(), MemoryError("Unable to allocate 8.00 GiB for an array")),
    ):
        assert devices.exhausted(error), error
    for text in ("mat1 and mat2 shapes cannot be", "", "CUDA error: device lost"):
        assert not devices.exhausted(RuntimeError(text)), text


FAR = "MemAvailable: 99999999999 kB\n"


def hold(monkeypatch, files):
    """Let these be all that /proc and /sys hold."""
    real = builtins.open

    def opened(path, *args, **more):
        if not str(path).startswith(("/proc", "/sys")):
            return real(path, *args, **more)
        if str(path) not in files:
            raise FileNotFoundError(path)
        return io.StringIO(files[str(path)])

    monkeypatch.setattr(builtins, "open", opened)


def free():
    return devices.free(torch.device("cpu"))


V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
TWO = {  # version 2: the narrowest of the group and all above it, files not counted
    "/proc/meminfo": FAR,
    "/proc/self/cgroup": "0::/a/b\n",
    f"{V2}/a/b/memory.max": "max\n",
    f"{V2}/a/b/memory.current": "500\n",
    f"{V2}/a/memory.max": "4000\n",
    f"{V2}/a/memory.current": "1500\n",
    f"{V2}/a/memory.stat": "anon 9\ninactive_file 200\nactive_file 30\n",
}
ONE = {
    "/proc/meminfo": FAR,
    "/proc/self/cgroup": "5:cpu:/x\n4:hugetlb,memory:/a\n0::/\n",
    f"{V1}/a/memory.limit_in_bytes": "5000\n",
    f"{V1}/a/memory.usage_in_bytes": "3000\n",
    f"{V1}/a/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n"
    "total_active_file 20\n",
    f"{V1}/memory.limit_in_bytes": "9223372036854771712\n",
    f"{V1}/memory.usage_in_bytes": "3000\n",
}
CONTAINER = {  # it sees only its own group
    "/proc/meminfo": FAR,
    "/proc/self/cgroup": "4:memory:/docker/0a1b\n",
    f"{V1}/memory.limit_in_bytes": "700\n",
    f"{V1}/memory.usage_in_bytes": "200\n",
}


def test_free_is_the_least_that_the_system_says(monkeypatch):
    for files, expected in (
        ({"/proc/meminfo": "MemFree:  1 kB\nMemAvailable:   123 kB\n"}, 123 * 1024),
        ({"/proc/meminfo": "MemTotal: 9 kB\n"}, 4 * 2**30),  # no answer: be modest
        ({}, 4 * 2**30),
        (TWO, 4000 - 1500 + 230),
        (TWO | {f"{V2}/a/b/memory.max": "1000\n"}, 1000 - 500),
        (TWO | {f"{V2}/a/b/memory.max": "499\n"}, 0),
        (ONE, 5000 - 3000 + 120),
        (CONTAINER, 500),
    ):
        hold(monkeypatch, files)
        assert free() == expected


@pytest.mark.parametrize(
    ("name", "used"), [("RLIMIT_AS", 7000), ("RLIMIT_DATA", 600), (None, 0)]
)
def test_free_within_the_limits_of_the_process(monkeypatch, name, used):
    files = {"/proc/meminfo": FAR, "/proc/self/statm": "7000 5 4 3 0 600 0"}
    hold(monkeypatch, files)
    limits = {getattr(resource, name): 2**33} if name else {}
    none, page = resource.RLIM_INFINITY, resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda k: (limits.get(k, none), none))
    assert free() == (2**33 - used * page if name else 99999999999 * 1024)


def test_free_sees_a_real_limit():
    program = (
        "import resource, torch\n"
        "from troth import devices\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))\n"
        "print(devices.free(torch.device('cpu')))\n"
    )
    command = [sys.executable, "-c", program]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 < int(out.stdout) < 2**33 and 2**20 < free() < 2**50


# Cores and threads


@pytest.fixture
def machine(monkeypatch):
    """Set the cores, the quota, the load and the speed of several threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    used = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)

    def made(bound=8, quota="max 100000", load="0.00 0 0 1/9 5", slower=0.25):
        files = {"/sys/fs/cgroup/cpu.max": [quota], "/proc/loadavg": [load]}
        monkeypatch.setattr(devices, "_lines", lambda path: files.get(path, []))
        affinity = lambda pid: set(range(bound))  # noqa: E731
        monkeypatch.setattr(devices.os, "sched_getaffinity", affinity, raising=False)
        took = lambda: 1.0 if used[-1] == 1 else slower  # noqa: E731
        monkeypatch.setattr(devices, "_operations", took)

    return made


CPU_DEVICE = torch.device("cpu")


@pytest.mark.parametrize(
    ("given", "cores", "threads"),
    [
        ({}, 8, 8),
        ({"bound": 3}, 3, 3),
        ({"quota": "150000 100000"}, 2, 2),
        ({"load": "5.20 0 0 6/9 5"}, 8, 3),  # five cores are busy
        ({"load": "9.00 0 0 12/9 5"}, 8, 1),
        ({"load": "8.00 0 0 1/9 5"}, 8, 8),  # our own last run has just ended
        ({"load": "0.10 0 0 9/9 5"}, 8, 8),  # a moment
        ({"slower": 3.0}, 8, 1),  # several threads wait for each other
        ({"slower": 0.9}, 8, 1),  # a small gain is not worth the risk
        ({"load": ""}, 8, 8),
    ],
)
def test_cores_and_threads(machine, given, cores, threads):
    machine(**given)
    assert devices.cores() == cores
    assert devices.threads(CPU_DEVICE) == threads


def test_a_given_number_of_threads_is_kept(machine, monkeypatch):
    machine(slower=9.0)
    assert devices.threads(torch.device("meta")) == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert devices.cores() == 5 and devices.threads(CPU_DEVICE) == 8


def test_threads_within_a_block():
    before = torch.get_num_threads()
    with pytest.raises(ValueError), devices.using(3):
        assert torch.get_num_threads() == 3
        raise ValueError
    with devices.using(0):
        assert torch.get_num_threads() == before


def test_the_name_of_a_device(monkeypatch):
    monkeypatch.setattr(devices, "_lines", lambda path: ["a: b", "model name\t: X 5"])
    assert devices.name(CPU_DEVICE) == "cpu X 5"
    monkeypatch.setattr(devices, "_lines", lambda path: [])
    assert devices.name(CPU_DEVICE).startswith("cpu")
