from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.server.attacks.random_update import random_update
from troth.types import Messages, Refusal


def test_size_and_shape_of_the_noise(make: Any, key: Tensor) -> None:
    """Of 10⁵ draws each: mean, spread, fourth moment, correlation, all within 5 σ.

    Fails by chance with probability below 2·10⁻⁵ (30 comparisons at 6·10⁻⁷ each).
    """
    d = 100_000
    update = torch.randn(5, d, dtype=torch.float64) * torch.tensor(
        [[1e-3], [1.0], [50.0], [1.0], [1.0]]
    )
    update[3] += 1000  # the spread is about the update's own mean
    hostile = torch.tensor([True, True, True, True, False])
    found = random_update(make(update), hostile, key).update
    z = found[:4] / torch.from_numpy(np.std(update[:4].numpy(), axis=1))[:, None]
    bound = 5 / d**0.5
    assert (z.mean(dim=1).abs() < bound).all()
    assert ((z**2).mean(dim=1) - 1).abs().max() < bound * 2**0.5
    assert ((z**4).mean(dim=1) - 3).abs().max() < bound * 96**0.5
    others = (z @ z.T / d).fill_diagonal_(0)
    assert others.abs().max() < bound
    assert (z[:, 1:] * z[:, :-1]).mean(dim=1).abs().max() < bound


@pytest.mark.parametrize(("options", "expected"), [({}, 2.0), ({"scale": 3.0}, 6.0)])
def test_the_standard_deviation_is_the_populations(
    make: Any, key: Tensor, options: dict[str, float], expected: float
) -> None:
    """(1, 5, 1, 5) has mean 3 and 1/d·Σ(·)² = 4; a unit of noise tells the factor."""
    update, hostile = torch.tensor([[1.0, 5.0, 1.0, 5.0]]), torch.tensor([True])
    unit = random_update(make(update), hostile, key, std=1.0).update
    found = random_update(make(update), hostile, key, **options).update
    torch.testing.assert_close(found, unit * expected)


def test_a_client_draws_by_its_id(make: Any, key: Tensor) -> None:
    """Whatever row it has, and whoever else is there."""
    update = torch.randn(4, 6)
    whole = random_update(make(update), torch.ones(4, dtype=torch.bool), key).update
    order = torch.tensor([2, 0, 3, 1])
    mixed = make(update[order], order + 10)
    again = random_update(mixed, torch.tensor([True, False, True, True]), key).update
    assert torch.equal(again[0], whole[2])
    assert torch.equal(again[1], update[0])
    alone = make(update[1:2], torch.tensor([11]))
    assert torch.equal(
        random_update(alone, torch.tensor([True]), key).update[0], whole[1]
    )


def test_another_key_draws_anew(make: Any, key: Tensor) -> None:
    sent, hostile = make(torch.randn(1, 6)), torch.tensor([True])
    a, b = (random_update(sent, hostile, k).update for k in (key, key + 1))
    assert not torch.equal(a, b)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_without_spread_it_sends_zeros(make: Any, key: Tensor, value: float) -> None:
    update, hostile = torch.full((2, 4), value), torch.tensor([True, False])
    found = random_update(make(update), hostile, key).update
    assert not found[0].any()
    one = random_update(make(torch.ones(1, 1)), torch.tensor([True]), key).update
    assert not one.any()


def test_scale_zero_sends_zeros(make: Any, key: Tensor) -> None:
    sent = make(torch.randn(1, 6))
    assert not random_update(sent, torch.tensor([True]), key, scale=0.0).update.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-40, 1e30, 1e38])
def test_extremes(make: Any, key: Tensor, dtype: torch.dtype, size: float) -> None:
    update = torch.tensor([[1.0, -1.0] * 50], dtype=dtype) * size
    hostile = torch.tensor([True])
    unit = random_update(make(update), hostile, key, std=1.0).update.double()
    found = random_update(make(update), hostile, key).update.double()
    torch.testing.assert_close(found, unit * size, rtol=1e-4, atol=1e-44)


def test_an_own_update_that_is_no_number_goes_out_as_it_is(
    make: Any, key: Tensor
) -> None:
    update = torch.tensor([[1.0, torch.nan], [torch.inf, 2.0], [1.0, 2.0]])
    hostile = torch.ones(3, dtype=torch.bool)
    found = random_update(make(update), hostile, key).update
    assert torch.equal(found[:2].view(torch.int32), update[:2].view(torch.int32))
    assert found[2].isfinite().all()
    assert random_update(make(update), hostile, key, std=1.0).update.isfinite().all()


def test_only_hostile_updates_are_touched(make: Any, key: Tensor) -> None:
    sent: Messages = make(torch.randn(3, 2))
    found = random_update(sent, torch.tensor([True, False, False]), key)
    assert torch.equal(found.update[1:], sent.update[1:])
    assert all(a is b for a, b in zip(found[1:], sent[1:], strict=True))


@pytest.mark.parametrize("option", ["scale", "std"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_refusals(make: Any, key: Tensor, option: str, value: float) -> None:
    """Also when nobody in the round is hostile: before the first round."""
    sent, nobody = make(torch.zeros(2, 2)), torch.zeros(2, dtype=torch.bool)
    said = f"random_update's {option} = {value} must be a finite number of at least 0"
    with pytest.raises(Refusal, match=said):
        random_update(sent, nobody, key, **{option: value})


def test_options_and_reference() -> None:
    assert lookup.check("attack", "random_update", {}) == {"scale": 1.0, "std": 0.0}
    (entry,) = lookup.about("attack", "random_update").citations
    assert entry.startswith("@inproceedings{li2021ditto")
