from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.server import rules
from troth.server.attacks.alie import alie, supported
from troth.server.attacks.optimal_alie import optimal_alie
from troth.types import Messages, Refusal

HOSTILE = torch.arange(11) >= 8


def mean(messages: Messages) -> Tensor:
    return messages.update.mean(dim=0)


def median(messages: Messages) -> Tensor:
    return messages.update.quantile(0.5, dim=0)


def refusing(messages: Messages) -> Tensor:
    return torch.zeros_like(messages.update[0])


def watchful(messages: Messages) -> Tensor:
    """Leaves out rows farther than 4 from the median, and takes the mean."""
    update = messages.update
    near = (update - median(messages)).norm(dim=1) <= 4
    return update[near].mean(dim=0)


def broken(messages: Messages) -> Tensor:
    """Not a number as soon as rows are large: then w stays."""
    return messages.update.mean(dim=0) / (messages.update.abs().max() < 5)


def rows(seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(11, 5, generator=draw, dtype=torch.float64)


def harm(sent: Messages, defence: Any) -> float:
    step = defence(sent)
    step = step if step.isfinite().all() else torch.zeros_like(step)
    return float((step - sent.update[~HOSTILE].mean(dim=0)).norm())


@pytest.mark.parametrize("defence", [mean, median, refusing, watchful, broken])
@pytest.mark.parametrize("evaluations", [1, 2, 20])
def test_never_worse_than_alie(make: Any, defence: Any, evaluations: int) -> None:
    for seed in range(5):
        sent = make(rows(seed))
        found = optimal_alie(sent, HOSTILE, defence, evaluations=evaluations)
        plain = alie(sent, HOSTILE)
        assert harm(found, defence) >= harm(plain, defence)
        assert torch.equal(found.update[~HOSTILE], sent.update[~HOSTILE])


def test_one_evaluation_is_alie(make: Any) -> None:
    sent = make(rows(0))
    found = optimal_alie(sent, HOSTILE, mean, evaluations=1)
    assert torch.equal(found.update, alie(sent, HOSTILE).update)


def test_a_defence_that_refuses_leaves_the_plain_attack(make: Any) -> None:
    sent = make(rows(0))
    found = optimal_alie(sent, HOSTILE, refusing)
    assert torch.equal(found.update, alie(sent, HOSTILE).update)


def test_the_mean_has_no_limit(make: Any) -> None:
    sent = make(rows(0))
    found = optimal_alie(sent, HOSTILE, mean)
    assert harm(found, mean) > 1000 * harm(alie(sent, HOSTILE), mean)


def test_stays_just_below_what_is_seen(make: Any) -> None:
    """Against a rule that leaves out distant rows, it beats every z on a fine grid."""
    for seed in range(5):
        sent = make(rows(seed))
        found = harm(optimal_alie(sent, HOSTILE, watchful), watchful)
        side = 1 if supported(11, 3) > 0 else -1
        every = torch.linspace(0.01, 10, 300).tolist()
        grid = [harm(alie(sent, HOSTILE, z=side * z), watchful) for z in every]
        assert found >= 0.97 * max(grid)


def test_it_is_an_alie(make: Any) -> None:
    sent = make(rows(3))
    found = optimal_alie(sent, HOSTILE, watchful).update
    benign = sent.update[~HOSTILE]
    z = (benign.mean(dim=0) - found[8]) / benign.std(dim=0, correction=0)
    torch.testing.assert_close(z, z[:1].expand(5))
    assert torch.equal(found[8:], found[8:9].expand(3, 5))


def test_asks_the_defence_no_more_than_it_may(make: Any) -> None:
    asked = []

    def counting(messages: Messages) -> Tensor:
        asked.append(messages)
        return mean(messages)

    optimal_alie(make(rows(0)), HOSTILE, counting, evaluations=7)
    assert len(asked) == 7
    assert all(isinstance(messages, Messages) for messages in asked)
    optimal_alie(make(rows(0)), torch.zeros_like(HOSTILE), counting)
    assert len(asked) == 7  # nobody hostile, nothing to try


@pytest.mark.parametrize("evaluations", [0, -3])
def test_refuses_to_look_at_nothing(make: Any, evaluations: int) -> None:
    said = f"optimal_alie's evaluations = {evaluations} must be at least 1"
    nobody = torch.zeros_like(HOSTILE)
    with pytest.raises(Refusal, match=said):
        optimal_alie(make(rows(0)), nobody, mean, evaluations=evaluations)


def test_asks_for_the_defence(make: Any) -> None:
    given = lookup.check("attack", "optimal_alie", {})
    assert given == {"evaluations": 20}
    rule = rules.lift("attack", "optimal_alie", given)
    with pytest.raises(Refusal, match="asks for 'defence'"):
        rule(rules.no_memory(), messages=make(rows(0)), hostile=HOSTILE)


def test_references() -> None:
    entries = lookup.about("attack", "optimal_alie").citations
    assert [entry.partition("{")[2].partition(",")[0] for entry in entries] == [
        "baruch2019little",
        "shejwalkar2021manipulating",
        "allouah2023fixing",
    ]
