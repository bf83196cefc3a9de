import math
from itertools import combinations

import pytest
import torch
from clients_sent import RANDOM, drawn, matrices, messages, noted
from hypothesis import given, settings
from hypothesis import strategies as st

from troth.server.aggregators.mda import mda
from troth.types import Refusal


def chosen(sent, f, **options):
    """The ids of the rows that were averaged."""
    found, said = noted(mda, sent, f=f, **options)
    expected = sent.update[said["chosen"]].double().mean(dim=0)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    return {*sent.client[said["chosen"]].tolist()}


def closest(rows, f):
    """By looking at all subsets, in whole numbers."""

    def diameter(subset):
        pairs = combinations((rows[i] for i in subset), 2)
        far = (sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for a, b in pairs)
        return max(far, default=0)

    return {*min(combinations(sorted(rows), len(rows) - f), key=diameter)}


@settings(max_examples=100, deadline=None)
@given(matrices(st.integers(-4, 4), 9), st.integers(0, 10), RANDOM)
def test_as_all_subsets_say(rows, f, random):
    """Full of ties, of which the lowest ids; beyond the condition too."""
    client = random.sample(range(50), len(rows))
    expected = closest(dict(zip(client, rows, strict=True)), min(f, len(rows) - 1))
    sent = messages(torch.tensor(rows, dtype=torch.float32), client)
    assert chosen(sent, f, strict=False) == expected


@pytest.mark.parametrize(
    ("n", "f"), [(30, 14), (40, 3), (100, 40), (101, 50), (100, 80), (300, 60)]
)
def test_on_a_line_it_is_the_shortest_window(n, f):
    """So the answer is known where subsets are too many to look at."""
    update = drawn(n, 1)
    values, order = update[:, 0].sort()
    first = int((values[n - f - 1 :] - values[: f + 1]).argmin())
    expected = {*order[first : first + n - f].tolist()}
    assert chosen(messages(update), f, strict=False) == expected


@pytest.mark.parametrize(("n", "f"), [(22, 10), (40, 4), (100, 3), (100, 97), (60, 56)])
@pytest.mark.parametrize("d", [1, 3, 200])
def test_a_million_subsets_need_few_steps(n, f, d):
    assert math.comb(n, f) <= 1_000_000
    update = drawn(n, d, dtype=torch.float32)
    for each in (update, update.round()):  # then full of ties
        chosen(messages(each), f, strict=False, limit=20_000)


def test_the_search_ends():
    sent = messages(drawn(31, 8, dtype=torch.float32))
    with pytest.raises(Refusal) as refused:
        mda(sent, f=15, limit=20)
    assert str(refused.value) == (
        "mda did not find the closest 16 of n = 31 updates (3.01e+08 subsets) in "
        "limit = 20 steps; raise limit, lower f, or take another rule"
    )
    assert len(chosen(sent, f=15)) == 16


def test_equal_rows_at_any_scale_need_no_search():
    assert chosen(messages(torch.full((200, 2), 1e30)), f=99, limit=20) == {*range(101)}


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 2**40))
def test_lies_within_the_benign_diameter_of_a_benign_row(f, more, seed):
    benign = drawn(f + 1 + more, 3, seed)
    hostile = benign[0] + 3 * drawn(f, 3, seed + 1)
    found = mda(messages(torch.cat([hostile, benign])), f=f)
    diameter = torch.cdist(benign, benign).max()
    assert (benign - found).norm(dim=1).min() <= diameter + 1e-12
