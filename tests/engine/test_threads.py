"""Work spread over threads comes back in order, and cores are given back."""

from __future__ import annotations

import threading

import pytest
import torch

from troth.engine.engine import spread


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 20])
def test_every_piece_once_in_order_by_its_worker(n: int, workers: int) -> None:
    seen = spread(lambda w, k: (w, k, threading.get_ident()), n, workers)
    assert [k for _, k, _ in seen] == list(range(n))
    assert [w for w, _, _ in seen] == [k % max(1, min(workers, n)) for k in range(n)]
    if min(n, workers) > 1:
        assert all(ident != threading.get_ident() for *_, ident in seen)


def test_one_core_each_and_given_back_after_a_failure() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        cores = spread(lambda w, k: torch.get_num_threads(), 4, 2)
        assert cores == [1] * 4 and torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError):
            spread(lambda w, k: 1 // (k - 2), 4, 2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_no_gradients_in_threads() -> None:
    with torch.no_grad():
        assert spread(lambda w, k: torch.is_grad_enabled(), 3, 2) == [False] * 3
