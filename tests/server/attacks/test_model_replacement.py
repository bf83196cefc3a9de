from __future__ import annotations

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.server.aggregators.mean import mean
from troth.server.attacks.model_replacement import model_replacement
from troth.types import Messages, Refusal


def messages(update: Tensor) -> Messages:
    n = len(update)
    return Messages(
        update,
        torch.ones(n, 2, dtype=update.dtype),
        torch.full((n,), torch.nan),
        torch.arange(1, n + 1),
        torch.arange(n) + 10,
    )


def test_by_hand() -> None:
    update = torch.tensor([[1.0, -2.0], [0.5, 3.0], [4.0, 4.0]])
    hostile = torch.tensor([False, True, False])
    found = model_replacement(messages(update), hostile)
    assert found.update.tolist() == [[1.0, -2.0], [1.5, 9.0], [4.0, 4.0]]


def test_one_outvotes_all() -> None:
    """Where the others cancel out, the mean is the hostile client's own update."""
    update = torch.tensor([[1.0, -2.0], [-1.0, 2.0], [0.5, 3.0], [0.0, 0.0]])
    hostile = torch.tensor([False, False, True, False])
    found = model_replacement(messages(update), hostile)
    assert mean(found).tolist() == [0.5, 3.0]


@pytest.mark.parametrize("factor", [0.1, 2.0, 3.5, 1e6, 1e-20])
def test_any_factor(factor: float) -> None:
    update = torch.randn(4, 3, dtype=torch.float64)
    hostile = torch.tensor([True, False, False, True])
    found = model_replacement(messages(update), hostile, factor=factor)
    torch.testing.assert_close(
        found.update[hostile], update[hostile] * factor, rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("factor", [0.0, 1.0, 1e-30, 1e38, 1e39, 1e300])
def test_benign_rows_stay_bit_for_bit(factor: float) -> None:
    update = torch.tensor(
        [[0.1, -0.0], [1e-45, 3e38], [float("nan"), float("inf")], [1.0, 2.0]]
    )
    hostile = torch.tensor([False, False, False, True])
    found = model_replacement(messages(update), hostile, factor=factor)
    bits = update.view(torch.int32)
    assert torch.equal(found.update.view(torch.int32)[:3], bits[:3])


def test_only_the_update_is_touched() -> None:
    sent = messages(torch.randn(3, 2))
    found = model_replacement(sent, torch.tensor([True, True, False]))
    for a, b in zip(found[1:], sent[1:], strict=True):
        assert a is b


def test_factor_one_is_no_attack() -> None:
    sent = messages(torch.randn(5, 3))
    found = model_replacement(sent, torch.ones(5, dtype=torch.bool), factor=1.0)
    assert torch.equal(found.update, sent.update)


def test_alone_in_the_round_it_is_no_attack() -> None:
    sent = messages(torch.randn(1, 3))
    found = model_replacement(sent, torch.tensor([True]))
    assert torch.equal(found.update, sent.update)


def test_refuses_a_negative_factor() -> None:
    hostile = torch.tensor([True])
    with pytest.raises(Refusal, match=r"factor = -1.0 "):
        model_replacement(messages(torch.ones(1, 1)), hostile, factor=-1.0)


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_refuses_a_factor_that_is_no_number(factor: float) -> None:
    hostile = torch.tensor([True])
    with pytest.raises(Refusal, match=f"factor = {factor}"):
        model_replacement(messages(torch.ones(1, 1)), hostile, factor=factor)


def test_options_and_reference() -> None:
    assert lookup.check("attack", "model_replacement", {}) == {"factor": 0.0}
    (entry,) = lookup.about("attack", "model_replacement").citations
    assert entry.startswith("@inproceedings{bagdasaryan2020backdoor")


def test_what_would_be_infinite_stops_at_the_largest_number() -> None:
    """Lest the server drop it: an adversary would not want that."""
    sent = Messages(
        torch.tensor([[1e30, 0.0, -2.0], [1.0, 0.0, 1.0]]),
        torch.zeros(2, 0),
        torch.zeros(2),
        torch.ones(2),
        torch.arange(2),
    )
    found = model_replacement(sent, torch.tensor([True, False]), factor=1e39)
    most = torch.finfo(torch.float32).max
    assert found.update.tolist() == [[most, 0.0, -most], [1.0, 0.0, 1.0]]
