import pytest
import torch
from clients_sent import messages

from troth.server.attacks.ipm import ipm


@pytest.mark.parametrize(("n", "f"), [(4, 1), (10, 3), (10, 5), (7, 6)])
def test_when_it_turns_the_mean(n, f):
    """The mean of all rows turns back exactly where ε > (n−f)/f, as the text says."""
    update, hostile = torch.rand(n, 5, dtype=torch.float64) + 1, torch.arange(n) < f
    right = update[~hostile].mean(dim=0)
    for factor in (0.99, 1.01):
        found = ipm(messages(update), hostile, epsilon=factor * (n - f) / f).update
        assert (found.mean(dim=0) @ right < 0) == (factor > 1)
