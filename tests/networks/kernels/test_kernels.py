from __future__ import annotations

import torch

from troth.networks import kernels


def test_a_cpu_has_none() -> None:
    assert not kernels.ready(torch.zeros(1))
