"""The kernel beside the plain code, on a GPU; without one there is nothing to run."""

import pytest
import torch

from troth import seeding
from troth.server.attacks import _crowd
from troth.types import Messages

normal = pytest.importorskip("troth.networks.kernels.normal")
pytestmark = pytest.mark.usefixtures("gpu")


@pytest.mark.parametrize(("keys", "count"), [(1, 1), (3, 7), (2, 100_001), (1, 2**20)])
def test_normal_numbers_are_those_of_the_plain_code(keys, count):
    key = seeding.keys(3, "test", 5, torch.arange(keys))
    ours, plain = normal.normal(key.cuda(), count).cpu(), seeding.normal(key, count)
    assert ours.shape == plain.shape
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)


def test_noise_is_that_of_the_plain_code():
    update, client = torch.randn(4, 1001), torch.tensor([7, 3, 5, 1])
    messages = Messages(update, update[:, :0], update[:, 0], client, client)
    there = Messages(*(field.cuda() for field in messages))
    rows = torch.tensor([0, 2, 3])
    std = torch.tensor([0.5, 2.0, 1e39], dtype=torch.float64)
    key = seeding.key(3, "test", 5)
    plain = _crowd.noise(messages, rows, key, 0.25, std).update
    ours = _crowd.noise(there, rows.cuda(), key.cuda(), 0.25, std.cuda()).update.cpu()
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
    assert torch.equal(ours[1], update[1]) and bool(ours.isfinite().all())
