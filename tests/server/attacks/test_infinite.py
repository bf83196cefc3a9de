from __future__ import annotations

from typing import Any

import pytest
import torch

from troth import lookup
from troth.server.attacks.infinite import infinite
from troth.server.filters.drop_invalid import drop_invalid
from troth.types import Broadcast, Refusal

HOSTILE = torch.tensor([False, True, False])


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_by_hand(make: Any, value: Any, dtype: torch.dtype) -> None:
    update = torch.randn(3, 2, dtype=dtype)
    found = infinite(make(update), HOSTILE, value=value).update
    expected = torch.full((2,), float(value), dtype=dtype)
    torch.testing.assert_close(found[1], expected, equal_nan=True)
    assert torch.equal(found[~HOSTILE], update[~HOSTILE])


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_the_first_filter_drops_it(make: Any, value: Any) -> None:
    sent = infinite(make(torch.randn(3, 2)), HOSTILE, value=value)
    broadcast = Broadcast(torch.zeros(2), torch.zeros(2), torch.ones(()))
    assert drop_invalid(broadcast, sent).client.tolist() == [10, 12]


def test_options() -> None:
    assert lookup.check("attack", "infinite", {}) == {"value": "inf"}
    with pytest.raises(Refusal, match=r"1\.0 is not one of 'inf', '-inf', 'nan'"):
        lookup.check("attack", "infinite", {"value": 1.0})
