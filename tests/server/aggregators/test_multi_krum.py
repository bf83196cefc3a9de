from typing import Literal

import pytest
import torch
from clients_sent import messages
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth.server.aggregators.krum import krum
from troth.server.aggregators.multi_krum import multi_krum

Neighbors = Literal["blanchard", "byzfl"]
NEIGHBOURS: tuple[Neighbors, ...] = ("blanchard", "byzfl")
LINE = torch.tensor([[0.0], [1.0], [3.0], [7.0], [100.0]])


@pytest.mark.parametrize(
    ("m", "expected"), [(1, 1.0), (2, 0.5), (3, 4 / 3), (4, 11 / 4), (0, 11 / 4)]
)
def test_by_hand(m, expected):
    """n = 5, f = 1, two others: 1 → 5, 0 → 10, 3 → 13, 7 → 52, and 100 far behind."""
    said: dict[str, Tensor] = {}
    found = multi_krum(messages(LINE), said.update, f=1, m=m).item()
    assert found == pytest.approx(expected)
    assert said["chosen"].sum() == (m or 4) and said["chosen"][1]


def test_without_neighbors_the_first_two_clients():
    """At n = 10 and f = 8, as in the papers' tables with 80 % hostile."""
    update = torch.arange(10.0)[:, None]
    client = [3, 8, 6, 1, 9, 2, 7, 4, 5, 11]
    assert multi_krum(messages(update, client), f=8, strict=False).item() == 4.0
    assert multi_krum(messages(update, client), f=80, strict=False).item() == 3.0
    first = multi_krum(messages(update, client), f=8, ties="first", strict=False)
    assert first.item() == 0.5


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-6, 6), min_size=1, max_size=12),
    st.integers(0, 9),
    st.integers(0, 14),
    st.sampled_from(NEIGHBOURS),
    st.randoms(use_true_random=False),
)
def test_as_defined(values, f, m, neighbors, random):
    """By loops over whole numbers, d = 1: full of ties."""
    n = len(values)
    others = max(0, n - f - {"blanchard": 2, "byzfl": 1}[neighbors])
    client = random.sample(range(50), n)
    rated = []
    for i, value in enumerate(values):
        rest = values[:i] + values[i + 1 :]
        score = sum(sorted((value - other) ** 2 for other in rest)[:others])
        rated.append((score, client[i], value))
    best = [v for _, _, v in sorted(rated)[: max(1, min(m or n - f, n))]]
    update = torch.tensor(values, dtype=torch.float64)[:, None]
    sent = messages(update, client)
    found = multi_krum(sent, f=f, m=m, neighbors=neighbors, strict=False).item()
    assert found == pytest.approx(sum(best) / len(best), abs=1e-12)


@pytest.mark.parametrize("neighbors", NEIGHBOURS)
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_of_one_it_is_krum(neighbors, n):
    sent = messages(torch.randn(n, 6, generator=torch.Generator().manual_seed(n)))
    for f in (0, 1, 2):
        options = {"f": f, "neighbors": neighbors, "strict": False}
        one = multi_krum(sent, m=1, **options)
        assert torch.equal(one, krum(sent, **options))


def test_not_strict_it_takes_as_many_as_there_are():
    found = multi_krum(messages(LINE), f=1, m=99, strict=False)
    assert found.item() == pytest.approx(111 / 5)
