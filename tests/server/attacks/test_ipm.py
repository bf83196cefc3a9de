from __future__ import annotations

from typing import Any

import pytest
import torch

from troth import lookup
from troth.server.attacks.ipm import ipm
from troth.types import Refusal

UPDATE = torch.tensor([[1.0, -2.0], [0.5, 3.0], [4.0, 4.0], [-7.0, 0.25]])
HOSTILE = torch.tensor([False, True, False, True])


def test_by_hand(make: Any) -> None:
    """The mean of (1, −2) and (4, 4) is (2.5, 1)."""
    found = ipm(make(UPDATE), HOSTILE).update
    assert found.tolist() == [[1.0, -2.0], [-1.25, -0.5], [4.0, 4.0], [-1.25, -0.5]]


@pytest.mark.parametrize(("n", "f"), [(4, 1), (10, 3), (10, 5), (7, 6)])
def test_when_it_turns_the_mean(make: Any, n: int, f: int) -> None:
    """The mean of all rows turns back exactly where ε > (n−f)/f, as the text says."""
    update, hostile = torch.rand(n, 5, dtype=torch.float64) + 1, torch.arange(n) < f
    right = update[~hostile].mean(dim=0)
    for factor in (0.99, 1.01):
        found = ipm(make(update), hostile, epsilon=factor * (n - f) / f).update
        assert (found.mean(dim=0) @ right < 0) == (factor > 1)


def test_epsilon_zero_sends_zeros(make: Any) -> None:
    assert not ipm(make(UPDATE), HOSTILE, epsilon=0.0).update[HOSTILE].any()


@pytest.mark.parametrize("value", [-0.5, float("nan"), float("inf")])
def test_refuses_an_epsilon(make: Any, value: float) -> None:
    said = f"ipm's epsilon = {value} must be a finite number of at least 0; 0 sends"
    with pytest.raises(Refusal, match=said):
        ipm(make(UPDATE), torch.zeros_like(HOSTILE), epsilon=value)


def test_options_and_reference() -> None:
    assert lookup.check("attack", "ipm", {}) == {"epsilon": 0.5}
    (entry,) = lookup.about("attack", "ipm").citations
    assert entry.startswith("@inproceedings{xie2020fall")
