import pytest
import torch
from clients_sent import messages

from troth.server.attacks.ipm import ipm

UPDATE = torch.tensor([[1.0, -2.0], [0.5, 3.0], [4.0, 4.0], [-7.0, 0.25]])
HOSTILE = torch.tensor([False, True, False, True])


@pytest.mark.parametrize(
    ("options", "row"), [({}, [-1.25, -0.5]), ({"epsilon": 0.0}, [0, 0])]
)
def test_by_hand(options, row):
    """The mean of (1, −2) and (4, 4) is (2.5, 1)."""
    found = ipm(messages(UPDATE), HOSTILE, **options).update
    assert found.tolist() == [[1.0, -2.0], row, [4.0, 4.0], row]


@pytest.mark.parametrize(("n", "f"), [(4, 1), (10, 3), (10, 5), (7, 6)])
def test_when_it_turns_the_mean(n, f):
    """The mean of all rows turns back exactly where ε > (n−f)/f, as the text says."""
    update, hostile = torch.rand(n, 5, dtype=torch.float64) + 1, torch.arange(n) < f
    right = update[~hostile].mean(dim=0)
    for factor in (0.99, 1.01):
        found = ipm(messages(update), hostile, epsilon=factor * (n - f) / f).update
        assert (found.mean(dim=0) @ right < 0) == (factor > 1)
