from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup
from troth.server import rules
from troth.types import Broadcast, Messages, Refusal

OWN = '''
"""Rules of someone else."""

import torch


def counting(messages, memory, *, start: int = 0):
    """Remembers how often it was asked."""
    memory = torch.cat([memory, torch.tensor([float(start + len(memory))])])
    return messages.update.sum(dim=0), memory


def forgetful(messages):
    """Has no memory, though one is there."""
    return messages.update.sum(dim=0)


def greedy(messages, loss, key, round_, broadcast):
    """Takes all that a round has."""
    return loss, key, round_, broadcast


def lost(messages, nowhere):
    """Asks for what no round has."""
    return nowhere
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "rules_of_someone.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    return "rules_of_someone"


def context(n: int = 3) -> dict[str, Any]:
    update = torch.arange(2.0 * n).reshape(n, 2)
    loss = torch.ones(n)
    return {
        "broadcast": Broadcast(torch.zeros(2), torch.zeros(0), torch.ones(())),
        "messages": Messages(
            update, torch.zeros(n, 0), loss, torch.ones(n), torch.arange(n)
        ),
        "loss": loss,
        "key": torch.tensor(5),
        "round_": 7,
    }


def lift(own: str, name: str, **options: Any) -> rules.Rule:
    full = f"{own}:{name}"
    return rules.lift("aggregator", full, lookup.check("aggregator", full, options))


def test_a_member_by_its_name() -> None:
    rule = rules.lift("aggregator", "mean", {})
    assert rule.name == "mean"
    assert rule.asks == {"messages"}
    step, memory = rule(rules.no_memory(), **context())
    assert step.tolist() == [2.0, 3.0]
    assert memory.shape == (0,)


def test_only_what_it_asks_for_is_given(own: str) -> None:
    given = context()
    result, _ = lift(own, "greedy")(rules.no_memory(), **given, hostile=None, step=None)
    assert all(
        a is given[k]
        for a, k in zip(result, ("loss", "key", "round_", "broadcast"), strict=True)
    )


def test_memory_goes_to_those_who_ask(own: str) -> None:
    rule = lift(own, "counting")
    assert "memory" in rule.asks
    memory = rules.no_memory()
    for count in range(1, 4):
        step, memory = rule(memory, **context())
        assert step.tolist() == [6.0, 9.0]
        assert memory.tolist() == list(range(count))


def test_memory_of_the_others_stays_as_it_is(own: str) -> None:
    before = torch.tensor([1.0, 2.0])
    step, memory = lift(own, "forgetful")(before, **context())
    assert isinstance(step, Tensor)
    assert memory is before


def test_options_reach_the_member(own: str) -> None:
    _, memory = lift(own, "counting", start=5)(rules.no_memory(), **context())
    assert memory.tolist() == [5.0]
    server = rules.lift("server", "sgd", {"lr": 0.5})
    w, _ = server(rules.no_memory(), **context(), step=torch.tensor([2.0, 4.0]))
    assert w.tolist() == [1.0, 2.0]


def test_an_unknown_option_is_never_dropped(own: str) -> None:
    with pytest.raises(Refusal, match="has no option 'f'"):
        lift(own, "counting", f=2)
    unchecked = rules.lift("aggregator", "mean", {"f": 2})
    with pytest.raises(TypeError, match="'f'"):
        unchecked(rules.no_memory(), **context())


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("aggregator", "meen", "no aggregator 'meen'.*did you mean 'mean'"),
        ("attack", "nothing", "no attack 'nothing'.*there are: .*model_replacement"),
        ("filter", "", "no filter ''"),
        ("server", "nowhere:sgd", "server 'nowhere:sgd' cannot be imported"),
    ],
)
def test_unknown_names(kind: str, name: str, words: str) -> None:
    with pytest.raises(Refusal, match=words):
        rules.lift(kind, name, {})


def test_what_no_round_has_is_refused(own: str) -> None:
    with pytest.raises(Refusal, match="'nowhere'"):
        lift(own, "lost")(rules.no_memory(), **context())


def test_no_memory_is_a_tensor_without_width() -> None:
    assert rules.no_memory().shape == (0,)
    assert rules.no_memory(torch.device("cpu")).device == torch.device("cpu")
