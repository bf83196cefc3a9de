import pytest
import torch
from clients_sent import RANDOM, column, matrices, messages
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.krum import krum
from troth.server.aggregators.multi_krum import multi_krum

NEIGHBORS = {"blanchard": 2, "byzfl": 1}


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"f": 8}, 4.0), ({"f": 80}, 3.0), ({"f": 8, "ties": "first"}, 0.5)],
)
def test_without_neighbors_the_first_two_clients(options, expected):
    """At n = 10 and f = 8, as in the papers' tables with 80 % hostile."""
    sent = column(*range(10), client=[3, 8, 6, 1, 9, 2, 7, 4, 5, 11])
    assert multi_krum(sent, **options, strict=False).item() == expected


@settings(max_examples=80, deadline=None)
@given(
    matrices(st.integers(-4, 4), 12),
    st.integers(0, 12) | st.just(100),
    st.integers(0, 14) | st.just(99),
    st.sampled_from([*NEIGHBORS]),
    RANDOM,
)
def test_as_defined(rows, f, m, neighbors, random):
    """By loops over whole numbers, full of ties; of one row it is `krum`.

    Not strict: without neighbors the lowest ids, and at most all rows.
    """
    n = len(rows)
    client = random.sample(range(50), n)
    others, rated = max(0, n - f - NEIGHBORS[neighbors]), []
    for i, row in enumerate(rows):
        rest = rows[:i] + rows[i + 1 :]
        far = [sum((a - b) ** 2 for a, b in zip(row, o, strict=True)) for o in rest]
        rated.append((sum(sorted(far)[:others]), client[i], row))
    best = [row for _, _, row in sorted(rated)[: max(1, min(m or n - f, n))]]
    sent = messages(torch.tensor(rows, dtype=torch.float64), client)
    options = {"f": f, "neighbors": neighbors, "strict": False}
    mean = [sum(values) / len(best) for values in zip(*best, strict=True)]
    found = multi_krum(sent, m=m, **options).tolist()
    assert found == pytest.approx(mean, abs=1e-12)
    assert krum(sent, **options).tolist() == min(rated)[2]
