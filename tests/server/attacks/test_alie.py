import math

import pytest
import torch
from clients_sent import drawn, messages
from scipy.stats import norm

from troth.server.attacks.alie import alie, supported

UPDATE = torch.tensor([[1.0, 2.0], [100.0, 100.0], [5.0, 2.0]])
HOSTILE = torch.tensor([False, True, False])


def test_the_papers_strength():
    """n = 50, f = 24 (the paper's): s = 26 − 24 = 2, z = Φ⁻¹(24/26) ≈ 1.43.

    A hostile majority stops half a client short: at n = 10, f = 8 nobody else is
    needed; 1 − 1/(2·2) of the normal.
    """
    assert supported(50, 24) == pytest.approx(1.426, abs=1e-3)
    each = {(50, 24): 24 / 26, (10, 1): 4 / 9, (11, 4): 5 / 7, (10, 8): 0.75}
    found = [supported(n, f) for n, f in each]
    assert found == pytest.approx(norm.ppf([*each.values()]), abs=1e-9)
    assert [supported(n, 2) for n in (6, 10, 100)] == [0, 0, 0]
    assert supported(2, 1) == 0  # one benign row: no spread to hide in


def test_the_strength_is_finite_everywhere():
    for n in range(1, 40):
        found = [supported(n, f) for f in range(1, n + 1)]
        assert all(map(math.isfinite, found)), n
        below = [z for f, z in enumerate(found, 1) if 2 * f < n]
        assert below == sorted(below), n  # more adversaries dare more


def test_zero_means_the_papers_strength():
    update, hostile = drawn(11, 4), torch.arange(11) < 4
    a = alie(messages(update), hostile).update
    b = alie(messages(update), hostile, z=supported(11, 4)).update
    assert torch.equal(a, b)
    z = (a[0] - update[4:].mean(dim=0)) / update[4:].std(dim=0, correction=0)
    torch.testing.assert_close(z, torch.full((4,), -norm.ppf(5 / 7)).double())


@pytest.mark.parametrize("z", [1e300, -1e300])
def test_what_overflows_stops_at_the_largest_number(z):
    found = alie(messages(UPDATE), HOSTILE, z=z).update[1]
    assert found.tolist() == [-math.copysign(torch.finfo(found.dtype).max, z), 2.0]
