import pytest
import torch
from clients_sent import broadcast
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.steps.adam import adam
from troth.server.steps.sgd import sgd

OFF = {"beta1": 0.0, "beta2": 1.0, "tau": 1.0}
NUMBERS = st.floats(-(2.0**100), 2.0**100, width=32)


@settings(max_examples=60, deadline=None)
@given(
    numbers=st.lists(NUMBERS, min_size=2, max_size=8),
    lr=st.floats(0, 10),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_with_its_moments_off_it_is_sgd_exactly(numbers, lr, dtype):
    numbers = torch.tensor(numbers, dtype=dtype)
    w, v, memory = torch.ones_like(numbers), torch.ones_like(numbers), torch.zeros(0)
    for factor in (1.0, -0.3, 0.0):
        w, memory = adam(broadcast(w), factor * numbers, memory, lr=lr, **OFF)
        v, _ = sgd(broadcast(v), factor * numbers, torch.zeros(0), lr=lr)
        assert torch.equal(w, v)


def test_a_tau_too_small_for_the_type_divides_by_no_zero():
    step = torch.tensor([0.0, 2.0])  # an input that is always 0 has no gradient
    w, _ = adam(broadcast(torch.ones(2)), step, torch.zeros(0), tau=1e-60)
    assert w[0] == 1 and w[1] == pytest.approx(1 + 0.1 * 0.1 / 0.1)
