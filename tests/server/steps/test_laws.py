"""What holds of every server in the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import troth
from troth import files, lookup
from troth.server import rules
from troth.types import Broadcast

SERVERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in lookup.names("server")),
    ("sgd", {"momentum": 0.9}),
    ("adagrad", {"beta1": 0.9}),
]
EVERY = pytest.mark.parametrize(("name", "options"), SERVERS, ids=str)
DTYPES = [torch.float32, torch.float64]


def lift(name: str, options: dict[str, Any]) -> rules.Rule:
    return rules.lift("server", name, lookup.check("server", name, options))


def sent(w: Tensor) -> Broadcast:
    return Broadcast(w, w.new_zeros(3), w.new_ones(()))


def drawn(rounds: int, d: int, dtype: torch.dtype = torch.float64) -> Tensor:
    draw = torch.Generator().manual_seed(rounds + d)
    return torch.randn(rounds, d, generator=draw, dtype=dtype)


def after(rule: rules.Rule, w: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """The model and the memory after these steps, from no memory."""
    memory = rules.no_memory()
    for r, step in enumerate(steps):
        w, memory = rule(memory, broadcast=sent(w), step=step, round_=r)
    return w, memory


@EVERY
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 7])
def test_keeps_type_device_and_shape(
    name: str, options: dict[str, Any], dtype: torch.dtype, d: int
) -> None:
    rule, steps = lift(name, options), drawn(4, d, dtype)
    w, memory = rule(rules.no_memory(), broadcast=sent(steps[0]), step=steps[1])
    shape = memory.shape
    for step in steps:
        w, memory = rule(memory, broadcast=sent(w), step=step)
        assert (w.shape, w.dtype, w.device) == ((d,), dtype, step.device)
        assert isinstance(memory, Tensor) and memory.shape == shape
        assert memory.numel() == 0 or memory.dtype == dtype


@EVERY
def test_does_not_touch_what_it_reads(name: str, options: dict[str, Any]) -> None:
    rule, steps = lift(name, options), drawn(4, 5)
    for rounds in (0, 2):  # without memory and with it
        w, memory = after(rule, steps[0].clone(), steps[1 : 1 + rounds])
        read = (w, memory, steps)
        kept = [t.clone() for t in read]
        again, new = rule(memory, broadcast=sent(w), step=steps[3])
        assert all(torch.equal(a, b) for a, b in zip(read, kept, strict=True))
        assert not torch.equal(again, w)
        again.zero_(), new.zero_()  # what it gives is nobody else's
        assert all(torch.equal(a, b) for a, b in zip(read, kept, strict=True))


@EVERY
def test_twice_the_same(name: str, options: dict[str, Any]) -> None:
    rule, steps = lift(name, options), drawn(6, 5)
    first, again = (after(rule, steps[0], steps) for _ in range(2))
    assert torch.equal(first[0], again[0]) and torch.equal(first[1], again[1])


@EVERY
def test_no_step_leaves_the_model(name: str, options: dict[str, Any]) -> None:
    w = drawn(1, 5)[0]
    found, _ = after(lift(name, options), w, torch.zeros(3, 5, dtype=w.dtype))
    assert torch.equal(found, w)


@EVERY
def test_no_learning_rate_no_step(name: str, options: dict[str, Any]) -> None:
    """However far a step would lead."""
    w = drawn(1, 5)[0]
    found, _ = after(lift(name, options | {"lr": 0.0}), w, drawn(3, 5) * 1e300)
    assert torch.equal(found, w)


@EVERY
def test_the_first_step_leads_where_the_update_points(
    name: str, options: dict[str, Any]
) -> None:
    step = drawn(1, 50)[0]
    w, _ = after(lift(name, options), torch.zeros(50, dtype=step.dtype), step[None])
    assert torch.equal(w.sign(), step.sign())


@EVERY
@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(4)), seed=st.integers(0, 99))
def test_coordinates_do_not_meet(
    name: str, options: dict[str, Any], order: list[int], seed: int
) -> None:
    rule = lift(name, options)
    steps = drawn(5, 4) * torch.logspace(-seed, seed, 4, dtype=torch.float64)
    w, _ = after(rule, steps[0], steps)
    mixed, _ = after(rule, steps[0][order], steps[:, order])
    torch.testing.assert_close(mixed, w[order], rtol=1e-13, atol=0)


@EVERY
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("share", [0.4, 1e-5, 1e-12])
def test_a_huge_step_is_survived(
    name: str, options: dict[str, Any], dtype: torch.dtype, share: float
) -> None:
    """No square of it overflows, and afterwards steps still move the model."""
    rule, huge = lift(name, options), torch.finfo(dtype).max * share
    steps = torch.tensor([[1.0], [huge], [-huge]], dtype=dtype)
    w, memory = after(rule, torch.zeros(1, dtype=dtype), steps)
    assert w.isfinite().all() and memory.isfinite().all()
    again, memory = rule(memory, broadcast=sent(w * 0), step=-steps[1])
    assert memory.isfinite().all() and again.isfinite().all() and again.any()


@EVERY
@pytest.mark.parametrize("lr", [-0.1, float("nan"), float("inf"), 1e300])
def test_refuses_a_learning_rate_that_is_none(
    name: str, options: dict[str, Any], lr: float
) -> None:
    """1e300 is no float32."""
    w = torch.ones(2)
    with pytest.raises(troth.Refusal) as caught:
        after(lift(name, options | {"lr": lr}), w, w[None])
    assert str(caught.value) == (
        f"server.lr = {lr} must be a finite number of at least 0; "
        "1 takes the whole step, 0 none"
    )


@EVERY
def test_memory_goes_through_a_checkpoint(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    """A run that was killed ends with the bytes of one that was not."""
    draw = np.random.default_rng(0)
    data = tmp_path / "data.npz"
    owner = np.repeat(np.arange(5), 8)
    np.savez(data, x=draw.random((40, 3)), y=draw.integers(0, 2, 40), owner=owner)
    tree = {
        "data": {"name": "npz", "path": str(data)},
        "partition": {"name": "natural", "split": [0.6, 0.1, 0.3]},
        "train": {"rounds": 4, "cohort": 3},
        "server": {"name": name, **options},
        "engine": {"how": "threads", "device": "cpu"},
        "checkpoint": {"every": 1},
    }
    troth.run(tree, out=tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(progress: Any) -> None:
        if progress.done == 3:
            raise Killed

    with pytest.raises(Killed):
        troth.run(tree, out=tmp_path / "cut", watch=kill)
    troth.resume(tmp_path / "cut")
    for file in (files.ROUNDS, files.CLIENTS, files.SHARED):
        whole, cut = (tmp_path / run / file for run in ("whole", "cut"))
        assert whole.read_bytes() == cut.read_bytes(), file
