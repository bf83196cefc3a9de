from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.server import rules
from troth.server.attacks.ipm import ipm
from troth.server.attacks.optimal_ipm import optimal_ipm
from troth.types import Messages, Refusal

HOSTILE = torch.arange(11) >= 8


def mean(messages: Messages) -> Tensor:
    return messages.update.mean(dim=0)


def median(messages: Messages) -> Tensor:
    return messages.update.quantile(0.5, dim=0)


def refusing(messages: Messages) -> Tensor:
    return torch.zeros_like(messages.update[0])


def watchful(messages: Messages) -> Tensor:
    """Leaves out rows longer than 6, and takes the mean."""
    return messages.update[messages.update.norm(dim=1) <= 6].mean(dim=0)


def rows(seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(11, 5, generator=draw, dtype=torch.float64) + 1


def harm(sent: Messages, defence: Any) -> float:
    return float((defence(sent) - sent.update[~HOSTILE].mean(dim=0)).norm())


@pytest.mark.parametrize("defence", [mean, median, refusing, watchful])
@pytest.mark.parametrize("evaluations", [1, 2, 20])
def test_never_worse_than_ipm(make: Any, defence: Any, evaluations: int) -> None:
    for seed in range(5):
        sent = make(rows(seed))
        found = optimal_ipm(sent, HOSTILE, defence, evaluations=evaluations)
        assert harm(found, defence) >= harm(ipm(sent, HOSTILE), defence)
        assert torch.equal(found.update[~HOSTILE], sent.update[~HOSTILE])


def test_by_hand(make: Any) -> None:
    """Rows longer than 6 are left out; the mean is (2, 0), so ε = 3 is the most."""
    update = torch.tensor([[1.0, 1.0], [3.0, -1.0], [7.0, 7.0]]).double()
    found = optimal_ipm(make(update), torch.arange(3) == 2, watchful, evaluations=40)
    torch.testing.assert_close(
        found.update[2], torch.tensor([-6.0, 0.0]).double(), rtol=1e-3, atol=0
    )
    assert found.update[2].norm() <= 6


def test_one_evaluation_and_a_refusing_defence_are_ipm(make: Any) -> None:
    sent = make(rows(0))
    for found in (
        optimal_ipm(sent, HOSTILE, mean, evaluations=1),
        optimal_ipm(sent, HOSTILE, refusing),
    ):
        assert torch.equal(found.update, ipm(sent, HOSTILE).update)


def test_the_mean_has_no_limit(make: Any) -> None:
    sent = make(rows(0))
    found = optimal_ipm(sent, HOSTILE, mean)
    assert harm(found, mean) > 1000 * harm(ipm(sent, HOSTILE), mean)


def test_beats_every_epsilon_of_a_fine_grid(make: Any) -> None:
    for seed in range(5):
        sent = make(rows(seed))
        found = harm(optimal_ipm(sent, HOSTILE, watchful), watchful)
        every = torch.linspace(0.01, 20, 300).tolist()
        grid = [harm(ipm(sent, HOSTILE, epsilon=e), watchful) for e in every]
        assert found >= 0.97 * max(grid)


@pytest.mark.parametrize("evaluations", [0, -3])
def test_refuses_to_look_at_nothing(make: Any, evaluations: int) -> None:
    said = f"optimal_ipm's evaluations = {evaluations} must be at least 1"
    nobody = torch.zeros_like(HOSTILE)
    with pytest.raises(Refusal, match=said):
        optimal_ipm(make(rows(0)), nobody, mean, evaluations=evaluations)


def test_asks_for_the_defence(make: Any) -> None:
    given = lookup.check("attack", "optimal_ipm", {})
    assert given == {"evaluations": 20}
    rule = rules.lift("attack", "optimal_ipm", given)
    with pytest.raises(Refusal, match="asks for 'defence'"):
        rule(rules.no_memory(), messages=make(rows(0)), hostile=HOSTILE)


def test_references() -> None:
    entries = lookup.about("attack", "optimal_ipm").citations
    assert [entry.partition("{")[2].partition(",")[0] for entry in entries] == [
        "xie2020fall",
        "shejwalkar2021manipulating",
        "allouah2023fixing",
    ]
