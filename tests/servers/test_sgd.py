from __future__ import annotations

import pytest
import torch

from troth import lookup
from troth.servers.sgd import sgd
from troth.types import Broadcast, Refusal


def sent(*w: float) -> Broadcast:
    return Broadcast(torch.tensor(w), torch.zeros(0), torch.ones(()))


def test_by_hand() -> None:
    before = sent(1.0, -2.0)
    step = torch.tensor([0.5, 4.0])
    assert sgd(before, step).tolist() == [1.5, 2.0]
    assert sgd(before, step, lr=0.5).tolist() == [1.25, 0.0]
    assert sgd(before, step, lr=2.0).tolist() == [2.0, 6.0]
    assert before.w.tolist() == [1.0, -2.0]  # untouched
    assert step.tolist() == [0.5, 4.0]


def test_no_learning_rate_no_step() -> None:
    before = sent(0.1, -2.7)
    assert torch.equal(sgd(before, torch.tensor([3.0, 1e30]), lr=0.0), before.w)


def test_the_schedule_is_for_the_clients() -> None:
    before = sent(1.0)._replace(scale=torch.tensor(0.1))
    assert sgd(before, torch.tensor([1.0])).item() == 2.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_the_type(dtype: torch.dtype) -> None:
    before = Broadcast(torch.zeros(2, dtype=dtype), torch.zeros(0), torch.ones(()))
    assert sgd(before, torch.ones(2, dtype=dtype)).dtype == dtype


def test_refuses_a_negative_learning_rate() -> None:
    with pytest.raises(Refusal, match=r"lr = -0.1 .* at least 0"):
        sgd(sent(1.0), torch.ones(1), lr=-0.1)


@pytest.mark.parametrize("lr", [float("nan"), float("inf")])
def test_refuses_a_learning_rate_that_is_no_number(lr: float) -> None:
    with pytest.raises(Refusal, match=f"lr = {lr}"):
        sgd(sent(1.0), torch.ones(1), lr=lr)


def test_options() -> None:
    assert lookup.check("server", "sgd", {}) == {"lr": 1.0}
