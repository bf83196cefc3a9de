import torch
from clients_sent import messages, mixed

from troth.server.filters.plausible import plausible


def of(*lengths, radius):
    """Sent rows of these lengths, and those that are left."""
    update = torch.tensor(lengths)[:, None] * torch.tensor([0.6, 0.8])
    sent = messages(update, torch.arange(len(lengths)) * 2, extra=1)
    return sent, plausible(sent, radius=radius)


def test_rows_outside_the_ball_are_dropped():
    sent, found = of(0.0, 0.999, 1.0, 1.000009, 1.00003, 7.0, radius=1.0)
    assert all(map(torch.equal, found, mixed(sent, slice(4))))


def test_an_infinite_ball_lets_everything_pass():
    assert all(map(torch.equal, *of(1.0, 1e30, radius=float("inf"))))
