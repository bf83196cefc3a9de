import torch
from clients_sent import messages as sent_by

from troth.server.filters.plausible import plausible


def messages(*lengths):
    update = torch.tensor([[0.6 * length, 0.8 * length] for length in lengths])
    return sent_by(update, torch.arange(len(lengths)) * 2, extra=1)


def test_rows_outside_the_ball_are_dropped():
    sent = messages(0.0, 0.999, 1.0, 1.000009, 1.00003, 7.0)
    found = plausible(sent, radius=1.0)
    assert found.client.tolist() == [0, 2, 4, 6]
    for field, before in zip(found, sent, strict=True):
        assert torch.equal(field, before[:4])


def test_an_infinite_ball_lets_everything_pass():
    sent = messages(1.0, 1e30)
    assert plausible(sent, radius=float("inf")).client.tolist() == [0, 2]
