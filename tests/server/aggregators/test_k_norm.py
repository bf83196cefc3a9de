import pytest
import torch
from clients_sent import RANDOM, column, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.k_norm import k_norm


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=12), st.integers(0, 14), RANDOM
)
def test_as_sorting_does(values, f, random):
    """Of equal lengths the lowest ids stay."""
    n = len(values)
    client = random.sample(range(50), n)
    ranked = sorted(zip(map(abs, values), client, values, strict=True))
    kept = [v for _, _, v in ranked[: max(1, n - f)]]
    sent = column(*values, dtype=torch.float64, client=client)
    found = k_norm(sent, f=f, strict=False).item()
    assert found == pytest.approx(sum(kept) / len(kept), abs=1e-12)


def test_lengths_beyond_float32():
    """In float32 the squares of all but two are infinite, or nothing."""
    sizes = torch.tensor([1e30, 3e30, 2e30, 1.0, 1e-30, 3e-30, 2e-30])
    sent = messages(sizes[:, None].repeat(1, 2))
    for f, left_out in ((2, [1, 2]), (6, [0, 1, 2, 3, 5, 6])):
        _, said = noted(k_norm, sent, f=f)
        assert (~said["chosen"]).nonzero().flatten().tolist() == left_out
