from __future__ import annotations

import pytest
import torch
from torch import nn

from troth import lookup
from troth.networks.models.linear import linear
from troth.networks.models.mlp import mlp
from troth.types import Refusal


def test_layers_and_their_sizes() -> None:
    net = mlp((1, 4, 4), 3, widths=[5, 2])
    shapes = [tuple(p.shape) for p in net.parameters()]
    assert shapes == [(5, 16), (5,), (2, 5), (2,), (3, 2), (3,)]
    assert [type(m) for m in net.children()] == [
        nn.Flatten,
        *(nn.Linear, nn.ReLU) * 2,
        nn.Linear,
    ]
    assert net(torch.randn(6, 1, 4, 4)).shape == (6, 3)


def test_without_widths_it_is_linear() -> None:
    torch.manual_seed(0)
    a = mlp((7,), 3, widths=[])
    torch.manual_seed(0)
    b = linear((7,), 3)
    x = torch.randn(2, 7)
    assert torch.equal(a(x), b(x))


def test_regression_has_one_output() -> None:
    assert mlp((7,), 0)(torch.randn(2, 7)).shape == (2, 1)


def test_dropout_is_for_hidden_units() -> None:
    net = mlp((7,), 3, widths=[5, 4], dropout=0.3)
    hidden = [nn.Linear, nn.ReLU, nn.Dropout]
    assert [type(m) for m in net.children()] == [
        nn.Flatten,
        *hidden,
        *hidden,
        nn.Linear,
    ]
    assert {m.p for m in net.children() if isinstance(m, nn.Dropout)} == {0.3}
    assert "Dropout" not in str(mlp((7,), 3, widths=[5, 4]))
    assert "Dropout" not in str(mlp((7,), 3, widths=[], dropout=0.3))


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_refuses_bad_dropout(p: float) -> None:
    for widths in ([], [3]):
        with pytest.raises(Refusal, match=r"model\.dropout = .* and below 1"):
            mlp((7,), 3, widths=widths, dropout=p)


def test_refuses_widths_below_one() -> None:
    with pytest.raises(Refusal, match=r"model\.widths = \[3, 0\]"):
        mlp((7,), 3, widths=[3, 0])


def test_options() -> None:
    assert lookup.check("model", "mlp", {}) == {"widths": [128], "dropout": 0.0}
