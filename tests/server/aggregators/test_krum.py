from typing import Literal

import pytest
import torch
from clients_sent import messages
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth.server.aggregators.krum import krum
from troth.types import Refusal

Neighbors = Literal["blanchard", "byzfl"]
OTHERS: dict[Neighbors, int] = {"blanchard": 2, "byzfl": 1}
LINE = torch.tensor([[0.0], [1.0], [3.0], [7.0], [100.0]])


def scores(rows, others):
    """By the definition, in whole numbers."""
    found = []
    for i, row in enumerate(rows):
        rest = [other for j, other in enumerate(rows) if j != i]
        far = sorted(
            sum((a - b) ** 2 for a, b in zip(row, o, strict=True)) for o in rest
        )
        found.append(sum(far[: max(0, others)]))
    return found


@pytest.mark.parametrize(("neighbors", "chosen"), [("blanchard", 1.0), ("byzfl", 3.0)])
def test_by_hand(neighbors, chosen):
    """n = 5, f = 1.

    Two others: 0 → 1 + 9, 1 → 1 + 4, 3 → 4 + 9, 7 → 16 + 36.
    Three: 0 → 1 + 9 + 49, 1 → 1 + 4 + 36, 3 → 4 + 9 + 16, 7 → 16 + 36 + 49.
    """
    said: dict[str, Tensor] = {}
    found = krum(messages(LINE), said.update, f=1, neighbors=neighbors)
    assert found.item() == chosen
    assert said["chosen"].tolist() == (LINE[:, 0] == chosen).tolist()


def test_the_nearest_two_tie_and_the_lower_id_wins():
    for client in ([5, 2, 9, 7, 8], [12, 4, 0, 1, 2]):
        found = krum(messages(LINE, client), f=2, strict=False)
        assert found.item() == 1.0
    assert krum(messages(LINE, [2, 5, 9, 7, 8]), f=2, strict=False).item() == 0.0


def test_or_the_one_that_comes_first():
    for client in ([5, 2, 9, 7, 8], [2, 5, 9, 7, 8]):
        found = krum(messages(LINE, client), f=2, ties="first", strict=False)
        assert found.item() == 0.0
    back = LINE.flip(0)
    assert krum(messages(back), f=2, ties="first", strict=False).item() == 1.0


def test_without_neighbors_the_first_client():
    update = torch.arange(10.0)[:, None]
    client = [3, 8, 6, 1, 9, 2, 7, 4, 5, 11]
    for f in (8, 9, 10, 100):
        assert krum(messages(update, client), f=f, strict=False).item() == 3.0


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 3).flatmap(
        lambda d: st.lists(
            st.lists(st.integers(-4, 4), min_size=d, max_size=d),
            min_size=1,
            max_size=12,
        )
    ),
    st.integers(0, 12),
    st.sampled_from(["blanchard", "byzfl"]),
    st.randoms(use_true_random=False),
)
def test_as_defined(rows, f, neighbors, random):
    n = len(rows)
    client = random.sample(range(50), n)
    found = scores(rows, n - f - OTHERS[neighbors])
    _, _, expected = min(zip(found, client, rows, strict=True))
    sent = messages(torch.tensor(rows, dtype=torch.float32), client)
    got = krum(sent, f=f, neighbors=neighbors, strict=False)
    assert got.tolist() == expected


def test_beyond_its_condition_equal_hostile_rows_win():
    """n = 6 and f = 3: a score counts one neighbour, and that one is hostile too."""
    update = torch.tensor([[1.0], [2.0], [3.0], [50.0], [50.0], [50.0]])
    with pytest.raises(Refusal, match="n ≥ 2f \\+ 3 = 9, and n is 6; lower f, raise"):
        krum(messages(update), f=3)
    assert krum(messages(update), f=3, strict=False).item() == 50.0


@pytest.mark.parametrize(("neighbors", "others"), OTHERS.items())
@pytest.mark.parametrize("f", [2, 3, 6])
def test_hostile_rows_beyond_its_reach_are_never_chosen(neighbors, others, f):
    """Benign rows all 1 apart, f equal rows as far from all of them as is still near.

    A benign score is n − f − others, a hostile one n − 2f + 1 − others distances², so
    the bound is tight: a little nearer and the hostile rows win.
    """
    n = 2 * f + 3
    share = (n - f - others) / (n - 2 * f + 1 - others)
    benign = torch.eye(n - f, n, dtype=torch.float64) / 2**0.5
    middle = benign.mean(dim=0)
    within = float((benign[0] - middle).square().sum())
    for reach, hostile in ((1.001, False), (0.999, True)):
        row = middle.clone()
        row[-1] = (share * reach - within) ** 0.5
        update = torch.cat([benign, row.expand(f, n)])
        chosen = krum(messages(update), f=f, neighbors=neighbors)
        assert torch.equal(chosen, row) == hostile
