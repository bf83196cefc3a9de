from __future__ import annotations

import builtins
import ctypes
import io
import sys
from typing import Any

import pytest
import torch

from troth import memory


def test_keep_can_be_called_again_and_again() -> None:
    before = torch.ones(10**6)
    for _ in range(3):
        memory.keep()
    assert before.sum() == 10**6  # what was there stays there


def test_keep_sets_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    class Library:
        def mallopt(self, option: int, value: int) -> int:
            calls.append((option, value))
            return 1

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    memory.keep()
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
    memory.keep()


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_keep_does_without_glibc(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(name: Any) -> Any:
        raise error("musl")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", fail)
    memory.keep()


def test_torch_says_so_itself() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert memory.exhausted(caught.value)


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
    ],
)
def test_memory_that_ran_out_is_recognised(error: RuntimeError) -> None:
    assert memory.exhausted(error)


@pytest.mark.parametrize(
    "text", ["mat1 and mat2 shapes cannot be multiplied", "", "CUDA error: device lost"]
)
def test_other_errors_are_not_taken_for_it(text: str) -> None:
    assert not memory.exhausted(RuntimeError(text))


def test_free_is_a_number_of_bytes() -> None:
    free = memory.free(torch.device("cpu"))
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
    assert memory.free(torch.device("cpu")) == 123 * 1024


@pytest.mark.parametrize("text", [None, "MemTotal: 9 kB\n"])
def test_free_without_an_answer_is_modest(
    monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    _meminfo(monkeypatch, text)
    assert memory.free(torch.device("cpu")) == 4 * 2**30
