"""What holds of every aggregator in the folder."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup, rules, seeding
from troth.types import Broadcast, Messages

NAMES = lookup.names("aggregator")
OPTIONS: dict[str, dict[str, Any]] = {}  # for members that cannot do without
NO_SHIFT: set[str] = set()  # what depends on where zero is
NO_SCALE: set[str] = set()  # what depends on the unit
NO_RANGE: set[str] = set()  # what may leave the range of a coordinate

SHAPES = [(1, 1), (2, 1), (1, 4), (2, 4), (7, 4), (30, 4), (31, 3)]
"""(n, d): odd, even, one, and more than 25 rows, where `cdist` changes its formula."""

Shape = tuple[int, int]
SHAPED = pytest.mark.parametrize("shape", SHAPES, ids=str)
EVERY = pytest.mark.parametrize("name", NAMES)


def messages(shape: Shape, dtype: torch.dtype = torch.float64) -> Messages:
    n, d = shape
    draw = torch.Generator().manual_seed(n + d)
    return Messages(
        torch.randn(n, d, generator=draw, dtype=dtype),
        torch.zeros(n, 0, dtype=dtype),
        torch.rand(n, generator=draw, dtype=dtype),
        torch.randint(1, 9, (n,), generator=draw),
        torch.arange(n) * 3,
    )


def aggregated(name: str, given: Messages) -> Tensor:
    """As the round does it."""
    options = lookup.check("aggregator", name, OPTIONS.get(name, {}))
    zero = given.update.new_zeros
    result, memory = rules.lift("aggregator", name, options)(
        rules.no_memory(),
        broadcast=Broadcast(zero(given.update.shape[1]), zero(0), zero(()) + 1),
        messages=given,
        loss=given.loss,
        key=seeding.keys(0, "aggregator", 0, torch.tensor(0)),
        round_=0,
    )
    assert isinstance(result, Tensor)
    assert isinstance(memory, Tensor)
    return result


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_all_are_found() -> None:
    assert {"mean", "median"} <= set(NAMES)


@EVERY
@SHAPED
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_finite_vector_of_the_same_type(
    name: str, shape: Shape, dtype: torch.dtype
) -> None:
    given = messages(shape, dtype)
    found = aggregated(name, given)
    assert found.shape == (shape[1],)
    assert found.dtype == dtype
    assert found.device == given.update.device
    assert found.isfinite().all()


@EVERY
@SHAPED
def test_clients_have_no_order(name: str, shape: Shape) -> None:
    given = messages(shape)
    draw = torch.Generator().manual_seed(1)
    expected = aggregated(name, given)
    for _ in range(3):
        order = torch.randperm(shape[0], generator=draw)
        mixed = Messages(*(field[order] for field in given))
        close(aggregated(name, mixed), expected)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NO_SHIFT])
@SHAPED
def test_shifts_with_the_updates(name: str, shape: Shape) -> None:
    given = messages(shape)
    shift = torch.linspace(-3, 5, shape[1], dtype=torch.float64)
    moved = given._replace(update=given.update + shift)
    close(aggregated(name, moved), aggregated(name, given) + shift)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NO_SCALE])
@SHAPED
@pytest.mark.parametrize("unit", [4.0, 1e-3, -1.0])
def test_scales_with_the_updates(name: str, shape: Shape, unit: float) -> None:
    given = messages(shape)
    larger = given._replace(update=unit * given.update)
    close(aggregated(name, larger), unit * aggregated(name, given))


@EVERY
@pytest.mark.parametrize("n", [1, 2, 3, 30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_all_say_is_the_result(name: str, n: int, dtype: torch.dtype) -> None:
    row = messages((1, 6), dtype).update
    alike = messages((n, 6), dtype)._replace(update=row.expand(n, 6).clone())
    accuracy = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        aggregated(name, alike), row[0], rtol=accuracy, atol=accuracy
    )


@pytest.mark.parametrize("name", [n for n in NAMES if n not in NO_RANGE])
@SHAPED
def test_lies_within_the_range_of_every_coordinate(name: str, shape: Shape) -> None:
    """Up to rounding; so nothing is added that no client sent."""
    given = messages(shape)
    found = aggregated(name, given)
    assert (given.update.amin(0) - 1e-12 <= found).all()
    assert (found <= given.update.amax(0) + 1e-12).all()


@EVERY
def test_twice_the_same(name: str) -> None:
    given = messages((7, 4))
    assert torch.equal(aggregated(name, given), aggregated(name, given))


@EVERY
@SHAPED
def test_does_not_touch_what_it_reads(name: str, shape: Shape) -> None:
    given = messages(shape)
    kept = [field.clone() for field in given]
    found = aggregated(name, given)
    found.add_(1.0)  # nor does the result lie in what was read
    assert all(torch.equal(a, b) for a, b in zip(given, kept, strict=True))
