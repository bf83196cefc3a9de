from fractions import Fraction
from statistics import median

import pytest
import torch
from clients_sent import RANDOM, column, matrices, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.bulyan import bulyan


def selected(rows, f, theta):
    """Krum anew on what is left, by loops: the ids."""
    rows, found = dict(rows), []
    for _ in range(theta):
        rated = []
        for i, row in rows.items():
            rest = (o for j, o in rows.items() if j != i)
            far = [sum((a - b) ** 2 for a, b in zip(row, o, strict=True)) for o in rest]
            rated.append((sum(sorted(far)[: max(0, len(rows) - f - 2)]), i))
        found.append(min(rated)[1])
        del rows[found[-1]]
    return found


def around(values, beta):
    """The mean of those closest to the median, in fractions; half of what ties."""
    exact = [Fraction(v) for v in values]
    middle = median(exact)
    lower = sorted(exact, key=lambda v: (abs(v - middle), v))[:beta]
    upper = sorted(exact, key=lambda v: (abs(v - middle), -v))[:beta]
    return float(sum(lower + upper, Fraction()) / (2 * beta))


@settings(max_examples=100, deadline=None)
@given(matrices(st.integers(-5, 5), 15), st.integers(0, 4), RANDOM)
def test_as_defined(rows, f, random):
    """Whole numbers: full of ties. Beyond the condition too."""
    n = len(rows)
    client = random.sample(range(50), n)
    named = dict(zip(client, rows, strict=True))
    theta = max(1, n - 2 * f)
    beta = max(2 - theta % 2, theta - 2 * f)
    chosen = selected(named, f, theta)
    columns = zip(*(named[i] for i in chosen), strict=True)
    sent = messages(torch.tensor(rows, dtype=torch.float64), client)
    found, said = noted(bulyan, sent, f=f, strict=False)
    expected = [around(values, beta) for values in columns]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert {client[i] for i in said["chosen"].nonzero().flatten()} == {*chosen}


HOSTILE = st.floats(-1e30, 1e30) | st.floats(-12, 12)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.data())
def test_hostile_values_stay_near_benign_ones(f, data):
    """Each averaged value is as near to the median as some benign one."""
    sizes = {"min_size": 3 * f + 3, "max_size": 3 * f + 5}
    benign = data.draw(st.lists(st.floats(-10, 10), **sizes))
    hostile = data.draw(st.lists(HOSTILE, min_size=f, max_size=f))
    found = bulyan(column(*hostile, *benign, dtype=torch.float64), f=f).item()
    low, high = min(benign), max(benign)
    assert low - (high - low) - 1e-9 <= found <= high + (high - low) + 1e-9
