import pytest
import torch
from clients_sent import column, messages

from troth.server.aggregators.krum import krum

LINE = [0.0, 1.0, 3.0, 7.0, 100.0]


@pytest.mark.parametrize(
    ("values", "client", "ties", "chosen"),
    [
        (LINE, [5, 2, 9, 7, 8], "id", 1.0),
        (LINE, [2, 5, 9, 7, 8], "id", 0.0),
        (LINE, [5, 2, 9, 7, 8], "first", 0.0),
        (LINE[::-1], None, "first", 1.0),
    ],
)
def test_the_nearest_two_tie_and_the_lower_id_or_the_first_wins(
    values, client, ties, chosen
):
    sent = column(*values, client=client)
    assert krum(sent, f=2, ties=ties, strict=False).item() == chosen


@pytest.mark.parametrize(("neighbors", "others"), [("blanchard", 2), ("byzfl", 1)])
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
