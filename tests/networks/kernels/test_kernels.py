import torch

from troth.networks import kernels


def test_a_cpu_has_none():
    assert not kernels.ready(torch.zeros(1))
