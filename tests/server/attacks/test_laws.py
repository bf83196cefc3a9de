"""What holds of every attack in the folder: it has its own rows, and only those."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from troth import lookup, seeding
from troth.server import rules
from troth.server.server import Rules, Serving
from troth.types import Broadcast, Messages

NAMES = lookup.names("attack")
OPTIONS: dict[str, dict[str, Any]] = {  # for members that cannot do without
    "counter_gradient": {"target": "{d}.npy"},
    "frozen_model": {"target": "{d}.npy", "lam": 0.7},
}
HOSTILE = torch.tensor([False, True, False, False, True, False, False])
WIDTHS = {torch.float32: torch.int32, torch.float64: torch.int64}


@pytest.fixture(autouse=True, scope="module")
def _targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Models that an attacker may want, in the folder where the tests run."""
    place = tmp_path_factory.mktemp("targets")
    for d in (1, 5):
        np.save(place / f"{d}.npy", np.linspace(1, 2, d))
    with contextlib.chdir(place):
        yield


def options(name: str, d: int) -> dict[str, Any]:
    """Of a member, for models of d parameters."""
    given = OPTIONS.get(name, {})
    filled = {k: v.format(d=d) if k == "target" else v for k, v in given.items()}
    return lookup.check("attack", name, filled)


def messages(dtype: torch.dtype, d: int = 5, extra: int = 2) -> Messages:
    draw = torch.Generator().manual_seed(d)
    n = len(HOSTILE)
    return Messages(
        torch.randn(n, d, generator=draw, dtype=dtype),
        torch.randn(n, extra, generator=draw, dtype=dtype),
        torch.rand(n, generator=draw, dtype=dtype),
        torch.arange(1, n + 1),
        torch.arange(n) * 3,
    )


def attacked(
    name: str, sent: Messages, hostile: Tensor = HOSTILE, seed: int = 0
) -> Messages:
    """As the round does it."""
    given = options(name, sent.update.shape[1])
    w, extra = torch.zeros_like(sent.update[0]), torch.zeros_like(sent.extra[0])
    result, memory = rules.lift("attack", name, given)(
        rules.no_memory(),
        broadcast=Broadcast(w, extra, torch.ones((), dtype=w.dtype)),
        messages=sent,
        hostile=hostile,
        key=seeding.keys(seed, "attack", 0, torch.tensor(0)),
        round_=0,
        defence=lambda tried: tried.update.mean(dim=0),
    )
    assert isinstance(result, Messages)
    assert isinstance(memory, Tensor)
    return result


def same(a: Tensor, b: Tensor) -> bool:
    """Bit for bit."""
    if a.dtype in WIDTHS:
        a, b = a.view(WIDTHS[a.dtype]), b.view(WIDTHS[b.dtype])
    return torch.equal(a, b)


def test_all_are_found() -> None:
    assert "model_replacement" in NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", list(WIDTHS))
@pytest.mark.parametrize("d", [1, 5])
def test_benign_rows_stay_bit_for_bit(name: str, dtype: torch.dtype, d: int) -> None:
    sent = messages(dtype, d)
    for field, before in zip(attacked(name, sent), sent, strict=True):
        assert same(field[~HOSTILE], before[~HOSTILE])


@pytest.mark.parametrize("name", NAMES)
def test_benign_rows_that_are_no_numbers_stay_too(name: str) -> None:
    sent = messages(torch.float32)
    sent.update[0] = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0, 1e-45])
    found = attacked(name, sent)
    assert same(found.update[~HOSTILE], sent.update[~HOSTILE])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", list(WIDTHS))
def test_keeps_shape_type_and_device(name: str, dtype: torch.dtype) -> None:
    sent = messages(dtype)
    for field, before in zip(attacked(name, sent), sent, strict=True):
        assert field.shape == before.shape
        assert field.dtype == before.dtype
        assert field.device == before.device


@pytest.mark.parametrize("name", NAMES)
def test_the_key_decides(name: str) -> None:
    sent = messages(torch.float32)
    first, again = attacked(name, sent), attacked(name, sent)
    for a, b in zip(first, again, strict=True):
        assert same(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_does_not_touch_what_it_reads(name: str) -> None:
    sent, hostile = messages(torch.float32), HOSTILE.clone()
    kept = [field.clone() for field in sent]
    attacked(name, sent, hostile)
    assert all(same(a, b) for a, b in zip(sent, kept, strict=True))
    assert torch.equal(hostile, HOSTILE)


@pytest.mark.parametrize("name", NAMES)
def test_without_adversaries_nothing_happens(name: str) -> None:
    sent = messages(torch.float32)
    found = attacked(name, sent, torch.zeros_like(HOSTILE))
    assert all(same(a, b) for a, b in zip(found, sent, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_round_of_adversaries_alone(name: str) -> None:
    sent = messages(torch.float32)
    found = attacked(name, sent, torch.ones_like(HOSTILE))
    assert found.update.shape == sent.update.shape


def served(name: str, strength: float) -> Tensor:
    """The updates that reach the filters of a round, at some strength."""
    rule = rules.lift("attack", name, options(name, 5))
    mean = rules.lift("aggregator", "mean", {})
    server = rules.lift("server", "sgd", {"lr": 1.0})
    every = Rules(rule, (), mean, server, mean, strength)
    sent = messages(torch.float64, extra=0)
    w = torch.zeros_like(sent.update[0])
    broadcast = Broadcast(w, w[:0], torch.ones((), dtype=w.dtype))
    desk = Serving(every, 0, 0, torch.device("cpu"))
    return desk.serve(broadcast, sent, 0, HOSTILE).messages.update


@pytest.mark.parametrize("name", NAMES)
def test_strength_0_is_no_attack_and_half_is_half_way(name: str) -> None:
    own, whole = messages(torch.float64, extra=0).update, served(name, 1.0)
    assert same(served(name, 0.0), own)
    assert not same(whole[HOSTILE], own[HOSTILE])
    if name != "infinite":
        torch.testing.assert_close(served(name, 0.5), (own + whole) / 2)
        torch.testing.assert_close(served(name, 2.0), 2 * whole - own)
