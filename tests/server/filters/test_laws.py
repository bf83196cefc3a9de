"""What holds of every filter in the folder: it never invents a message."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from troth import lookup, seeding
from troth.server import rules
from troth.types import Broadcast, Messages

NAMES = lookup.names("filter")
OPTIONS: dict[str, dict[str, Any]] = {  # for members that cannot do without
    "nnm": {"f": 3, "strict": False},
    "plausible": {"radius": 2.0},
}
TYPES = [torch.float32, torch.float64]


def messages(n: int, dtype: torch.dtype = torch.float32, extra: int = 2) -> Messages:
    draw = torch.Generator().manual_seed(n)
    return Messages(
        torch.randn(n, 5, generator=draw, dtype=dtype),
        torch.randn(n, extra, generator=draw, dtype=dtype),
        torch.rand(n, generator=draw, dtype=dtype),
        torch.arange(1, n + 1),
        torch.arange(n) * 3 + 7,
    )


def filtered(name: str, given: Messages) -> Messages:
    """As the round does it."""
    options = lookup.check("filter", name, OPTIONS.get(name, {}))
    zero = given.update.new_zeros
    broadcast = Broadcast(
        zero(given.update.shape[1]), zero(given.extra.shape[1]), zero(()) + 1
    )
    result, memory = rules.lift("filter", name, options)(
        rules.no_memory(),
        broadcast=broadcast,
        messages=given,
        loss=given.loss,
        key=seeding.keys(0, "filter0", 0, torch.tensor(0)),
        round_=0,
    )
    assert isinstance(result, Messages)
    assert isinstance(memory, Tensor)
    return result


def test_all_are_found() -> None:
    assert "drop_invalid" in NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_never_more_rows_than_came_nor_other_clients(name: str, n: int) -> None:
    given = messages(n)
    found = filtered(name, given)
    ids = found.client.tolist()
    assert len(ids) <= n
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(given.client.tolist())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_field_has_as_many_rows(name: str, dtype: torch.dtype) -> None:
    given = messages(9, dtype)
    found = filtered(name, given)
    assert {len(field) for field in found} == {len(found.client)}
    for field, before in zip(found, given, strict=True):
        assert field.shape[1:] == before.shape[1:]
        assert field.dtype == before.dtype
        assert field.device == before.device


@pytest.mark.parametrize("name", NAMES)
def test_numbers_stay_numbers(name: str) -> None:
    found = filtered(name, messages(9))
    assert found.update.isfinite().all()
    assert found.extra.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("extra", [0, 2])
def test_nothing_in_nothing_out(name: str, extra: int) -> None:
    """The first filter may leave no message; the others see none."""
    found = filtered(name, messages(0, extra=extra))
    assert [tuple(f.shape) for f in found] == [(0, 5), (0, extra), (0,), (0,), (0,)]


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_same(name: str) -> None:
    pairs = zip(filtered(name, messages(9)), filtered(name, messages(9)), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("name", NAMES)
def test_does_not_touch_what_it_reads(name: str) -> None:
    given = messages(9)
    kept = [field.clone() for field in given]
    filtered(name, given)
    assert all(torch.equal(a, b) for a, b in zip(given, kept, strict=True))
