import pytest
import torch
from clients_sent import RANDOM, column, drawn, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.krum import krum
from troth.server.aggregators.multi_krum import multi_krum

NEIGHBORS = {"blanchard": 2, "byzfl": 1}
LINE = column(0.0, 1.0, 3.0, 7.0, 100.0)


@pytest.mark.parametrize(
    ("m", "expected"), [(1, 1.0), (2, 0.5), (3, 4 / 3), (4, 11 / 4), (0, 11 / 4)]
)
def test_by_hand(m, expected):
    """n = 5, f = 1, two others: 1 → 5, 0 → 10, 3 → 13, 7 → 52, and 100 far behind."""
    found, said = noted(multi_krum, LINE, f=1, m=m)
    assert found.item() == pytest.approx(expected)
    assert said["chosen"].sum() == (m or 4) and said["chosen"][1]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"f": 8}, 4.0), ({"f": 80}, 3.0), ({"f": 8, "ties": "first"}, 0.5)],
)
def test_without_neighbors_the_first_two_clients(options, expected):
    """At n = 10 and f = 8, as in the papers' tables with 80 % hostile."""
    sent = column(*range(10), client=[3, 8, 6, 1, 9, 2, 7, 4, 5, 11])
    assert multi_krum(sent, **options, strict=False).item() == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-6, 6), min_size=1, max_size=12),
    st.integers(0, 9),
    st.integers(0, 14) | st.just(99),
    st.sampled_from([*NEIGHBORS]),
    RANDOM,
)
def test_as_defined(values, f, m, neighbors, random):
    """By loops over whole numbers, d = 1: full of ties; not strict, at most all."""
    n = len(values)
    others = max(0, n - f - NEIGHBORS[neighbors])
    client = random.sample(range(50), n)
    rated = []
    for i, value in enumerate(values):
        rest = values[:i] + values[i + 1 :]
        score = sum(sorted((value - other) ** 2 for other in rest)[:others])
        rated.append((score, client[i], value))
    best = [v for _, _, v in sorted(rated)[: max(1, min(m or n - f, n))]]
    sent = column(*values, dtype=torch.float64, client=client)
    found = multi_krum(sent, f=f, m=m, neighbors=neighbors, strict=False).item()
    assert found == pytest.approx(sum(best) / len(best), abs=1e-12)


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_of_one_it_is_krum(neighbors, n):
    sent = messages(drawn(n, 6, dtype=torch.float32))
    for f in (0, 1, 2):
        options = {"f": f, "neighbors": neighbors, "strict": False}
        assert torch.equal(multi_krum(sent, m=1, **options), krum(sent, **options))
