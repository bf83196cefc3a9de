"""The chain on the last layer of a deep network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from troth.poison import data_attack, embeddings, probabilities
from troth.types import Refusal


def network(bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48, 12),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(12, 4, bias=bias),
    )


X = torch.rand(23, 1, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("bias", [True, False])
def test_embeddings_and_head_make_the_outputs(bias: bool) -> None:
    net = network(bias)
    net.train()
    statistics = {k: v.clone() for k, v in net.state_dict().items()}
    z, head = embeddings(net, X, batch=7)
    assert net.training and all(m.training for m in net.modules())
    assert all(torch.equal(v, statistics[k]) for k, v in net.state_dict().items())
    assert not net[-1]._forward_pre_hooks  # type: ignore[index]
    assert z.shape == (23, 12) and z.dtype == np.float64
    with torch.no_grad():
        wanted = net.eval()(X).numpy()
    assert z @ head.weight.T + head.bias == pytest.approx(wanted, abs=1e-6)
    assert z == pytest.approx(embeddings(net, X, batch=100)[0], abs=1e-6)


def test_parts_that_were_frozen_stay_so() -> None:
    net = network()
    net.train()
    net[1].eval()  # type: ignore[index]
    embeddings(net, X)
    assert net[0].training and not net[1].training  # type: ignore[index]


def test_poisoned_embeddings_are_indifferent_to_the_head() -> None:
    z, head = embeddings(network(), X)
    found = data_attack(head, 50, 0, noise=0.0)
    assert found.x.shape == (50, z.shape[1])
    p = probabilities(head, found.x)
    assert p == pytest.approx(np.full((50, 4), 0.25), abs=1e-9)


def test_refusals() -> None:
    soft = nn.Sequential(network(), nn.Softmax(dim=1))
    with pytest.raises(Refusal, match="Sequential does not end in a linear layer"):
        embeddings(soft, X)
    with pytest.raises(Refusal, match="there are 0 examples"):
        embeddings(network(), X[:0])
    with pytest.raises(Refusal, match="batch = 0"):
        embeddings(network(), X, batch=0)
