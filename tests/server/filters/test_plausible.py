from __future__ import annotations

import pytest
import torch

from troth.server.filters.plausible import plausible
from troth.types import Messages, Refusal


def messages(*lengths: float) -> Messages:
    update = torch.tensor([[0.6 * length, 0.8 * length] for length in lengths])
    rows = torch.arange(len(lengths))
    return Messages(update, update[:, :1], torch.zeros(len(rows)), rows + 5, rows * 2)


def test_rows_outside_the_ball_are_dropped() -> None:
    sent = messages(0.0, 0.999, 1.0, 1.000009, 1.00003, 7.0)
    found = plausible(sent, radius=1.0)
    assert found.client.tolist() == [0, 2, 4, 6]
    for field, before in zip(found, sent, strict=True):
        assert torch.equal(field, before[:4])


def test_an_infinite_ball_lets_everything_pass() -> None:
    sent = messages(1.0, 1e30)
    assert plausible(sent, radius=float("inf")).client.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "radius = 'auto' is known only with personalizer 'coupled'"),
        ({"radius": 0.0}, "radius = 0.0 must be above 0"),
        ({"radius": float("nan")}, "radius = nan must be above 0"),
        ({"radius": 1.0, "slack": -0.1}, "its slack = -0.1 at least 0"),
    ],
)
def test_refusals(options: dict, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        plausible(messages(1.0), **options)
