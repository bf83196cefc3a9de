from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.server.attacks.gaussian import gaussian
from troth.types import Refusal


def test_size_and_shape_of_the_noise(make: Any, key: Tensor) -> None:
    """Of 10⁵ draws each, within 5 σ: fails with probability below 10⁻⁵."""
    d, bound = 100_000, 5 / 100_000**0.5
    sent, hostile = make(torch.zeros(3, d)), torch.tensor([True, False, True])
    found = gaussian(sent, hostile, key, mean=-3.0, std=2.0).update.double()
    z = (found[hostile] + 3) / 2
    assert z.mean(dim=1).abs().max() < bound
    assert ((z**2).mean(dim=1) - 1).abs().max() < bound * 2**0.5
    assert ((z**4).mean(dim=1) - 3).abs().max() < bound * 96**0.5
    assert (z[0] * z[1]).mean().abs() < bound  # everyone draws its own


def test_the_own_update_does_not_matter(make: Any, key: Tensor) -> None:
    hostile = torch.tensor([True, False])
    a = gaussian(make(torch.full((2, 5), torch.nan)), hostile, key).update
    b = gaussian(make(torch.ones(2, 5)), hostile, key).update
    assert torch.equal(a[0], b[0])
    assert a[0].isfinite().all()
    assert a[1].isnan().all()


def test_a_client_draws_by_its_id(make: Any, key: Tensor) -> None:
    every = torch.ones(3, dtype=torch.bool)
    whole = gaussian(make(torch.zeros(3, 7)), every, key).update
    back = make(torch.zeros(3, 7), torch.tensor([12, 11, 10]))
    assert torch.equal(gaussian(back, every, key).update.flip(0), whole)
    alone = make(torch.zeros(1, 7), torch.tensor([11]))
    assert torch.equal(gaussian(alone, every[:1], key).update[0], whole[1])
    later = gaussian(make(torch.zeros(3, 7)), every, key + 1).update
    assert not torch.equal(later, whole)


def test_without_spread_it_is_the_mean(make: Any, key: Tensor) -> None:
    sent, hostile = make(torch.zeros(2, 3)), torch.tensor([True, False])
    found = gaussian(sent, hostile, key, mean=1.5, std=0.0).update
    assert found.tolist() == [[1.5] * 3, [0.0] * 3]


@pytest.mark.parametrize(("mean", "std"), [(1e30, 1e30), (0.0, 1e300), (-1e300, 0.0)])
def test_beyond_the_range_it_stops(
    make: Any, key: Tensor, mean: float, std: float
) -> None:
    sent, hostile = make(torch.zeros(1, 100)), torch.tensor([True])
    found = gaussian(sent, hostile, key, mean=mean, std=std).update
    assert found.isfinite().all()
    assert found.abs().max() >= 1e30


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_refuses_a_spread(make: Any, key: Tensor, value: float) -> None:
    sent, nobody = make(torch.zeros(2, 2)), torch.zeros(2, dtype=torch.bool)
    said = f"gaussian's std = {value} must be a finite number of at least 0; 0 sends"
    with pytest.raises(Refusal, match=said):
        gaussian(sent, nobody, key, std=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_refuses_a_mean(make: Any, key: Tensor, value: float) -> None:
    sent, nobody = make(torch.zeros(2, 2)), torch.zeros(2, dtype=torch.bool)
    with pytest.raises(Refusal, match=f"mean = {value} must be a finite number$"):
        gaussian(sent, nobody, key, mean=value)


def test_options_and_reference() -> None:
    assert lookup.check("attack", "gaussian", {}) == {"mean": 0.0, "std": 1.0}
    (entry,) = lookup.about("attack", "gaussian").citations
    assert entry.startswith("@inproceedings{blanchard2017machine")
