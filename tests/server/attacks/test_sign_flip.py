from __future__ import annotations

from typing import Any

import pytest
import torch

from troth import lookup
from troth.server.attacks.ipm import ipm
from troth.server.attacks.sign_flip import sign_flip
from troth.types import Refusal

UPDATE = torch.tensor([[1.0, -2.0], [0.5, 3.0], [4.0, 4.0], [-7.0, 0.25]])
HOSTILE = torch.tensor([False, True, False, True])


def test_own_by_hand(make: Any) -> None:
    found = sign_flip(make(UPDATE), HOSTILE).update
    assert found.tolist() == [[1.0, -2.0], [-0.5, -3.0], [4.0, 4.0], [7.0, -0.25]]
    found = sign_flip(make(UPDATE), HOSTILE, factor=10.0).update
    assert found.tolist() == [[1.0, -2.0], [-5.0, -30.0], [4.0, 4.0], [70.0, -2.5]]


def test_benign_by_hand(make: Any) -> None:
    """The mean of (1, −2) and (4, 4) is (2.5, 1)."""
    found = sign_flip(make(UPDATE), HOSTILE, factor=2.0, of="benign").update
    assert found.tolist() == [[1.0, -2.0], [-5.0, -2.0], [4.0, 4.0], [-5.0, -2.0]]


@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0, 7.0])
def test_benign_is_inner_product_manipulation(make: Any, factor: float) -> None:
    sent = make(torch.randn(4, 9))
    found = sign_flip(sent, HOSTILE, factor=factor, of="benign").update
    assert torch.equal(found, ipm(sent, HOSTILE, epsilon=factor).update)


def test_twice_is_nothing(make: Any) -> None:
    sent = make(torch.randn(4, 9))
    again = sign_flip(sign_flip(sent, HOSTILE), HOSTILE)
    assert torch.equal(again.update, sent.update)


@pytest.mark.parametrize("of", ["own", "benign"])
def test_factor_zero_sends_zeros(make: Any, of: Any) -> None:
    found = sign_flip(make(UPDATE), HOSTILE, factor=0.0, of=of).update
    assert not found[HOSTILE].any()


def test_large_factors_stop_at_the_largest_number(make: Any) -> None:
    """Beyond float32 too, where 0 times the factor must not become NaN."""
    update = torch.tensor([[1.0, 1.0], [1e30, 0.0], [1.0, 1.0], [-1e-40, 1.0]])
    found = sign_flip(make(update), HOSTILE, factor=1e60).update
    limit = torch.finfo(torch.float32).max
    expected = torch.tensor([[-limit, 0.0], [1e20, -limit]])
    torch.testing.assert_close(found[HOSTILE], expected, rtol=1e-4, atol=0)


def test_an_own_update_that_is_no_number_goes_out_as_it_is(make: Any) -> None:
    update = torch.tensor([[1.0, torch.inf], [torch.nan, 2.0], [1.0, 2.0]])
    found = sign_flip(make(update), torch.ones(3, dtype=torch.bool)).update
    assert torch.equal(found[:2].view(torch.int32), update[:2].view(torch.int32))
    assert found[2].tolist() == [-1.0, -2.0]


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_refuses_a_factor(make: Any, value: float) -> None:
    said = f"sign_flip's factor = {value} must be a finite number of at least 0"
    with pytest.raises(Refusal, match=said):
        sign_flip(make(UPDATE), torch.zeros_like(HOSTILE), factor=value)


def test_options_and_reference() -> None:
    assert lookup.check("attack", "sign_flip", {}) == {"factor": 1.0, "of": "own"}
    with pytest.raises(Refusal, match=r"'all' is not one of 'own', 'benign'"):
        lookup.check("attack", "sign_flip", {"of": "all"})
    (entry,) = lookup.about("attack", "sign_flip").citations
    assert entry.startswith("@inproceedings{allenzhu2021byzantine")
