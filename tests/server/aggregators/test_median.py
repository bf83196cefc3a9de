from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup
from troth.server.aggregators.median import median
from troth.types import Messages, Refusal

LEAST = 2.0**-149  # the smallest denormal in float32
FLOATS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-9, 9).map(lambda steps: steps * LEAST),
)


def messages(update: Tensor) -> Messages:
    n = len(update)
    loss = torch.full((n,), torch.nan)
    return Messages(update, update[:, :0], loss, torch.ones(n), torch.arange(n))


def of(*values: float, dtype: torch.dtype = torch.float32) -> float:
    """The median of some numbers: d = 1."""
    column = torch.tensor(values, dtype=dtype)[:, None]
    return median(messages(column)).item()


def test_by_hand() -> None:
    update = torch.tensor([[1.0, 9.0], [2.0, -4.0], [100.0, 0.0]])
    assert median(messages(update)).tolist() == [2.0, 0.0]


def test_even_counts_take_the_middle() -> None:
    assert of(1.0, 2.0) == 1.5
    assert of(4.0, 1.0, 3.0, 100.0) == 3.5
    assert of(0.0, 0.0, 1.0, 1.0) == 0.5


def test_one_message_is_it() -> None:
    assert of(7.25) == 7.25


@pytest.mark.parametrize("n", [1, 2, 3, 4, 25, 26, 101])
@pytest.mark.parametrize("d", [1, 6])
def test_as_numpy_does(n: int, d: int) -> None:
    draw = torch.Generator().manual_seed(n)
    update = torch.randn(n, d, generator=draw, dtype=torch.float64)
    expected = np.median(update.numpy(), axis=0)
    np.testing.assert_allclose(median(messages(update)).numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize("size", [1e30, -1e30, 3.4e38])
def test_large_numbers_do_not_overflow(size: float) -> None:
    assert of(size, size) == pytest.approx(size, rel=1e-6)
    assert of(size, -size) == 0.0
    assert of(size, 1.0, 2.0) == (2.0 if size > 0 else 1.0)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 1001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_numbers_are_kept(steps: int, dtype: torch.dtype) -> None:
    """Half of an odd number of the smallest steps is no number of that type."""
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype))
    one = steps * least.item()
    assert of(one, one, dtype=dtype) == one
    assert of(-one, -one, dtype=dtype) == -one


@settings(max_examples=100, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=9))
def test_any_numbers_as_numpy_does(values: list[float]) -> None:
    halves = np.array(values, dtype=np.float64) / 2  # lest the sum overflow
    expected = 2 * np.median(halves)
    np.testing.assert_allclose(of(*values), expected, rtol=1e-6, atol=3e-45)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(FLOATS, min_size=2, max_size=6).flatmap(
        lambda benign: st.tuples(
            st.just(benign), st.lists(FLOATS, max_size=len(benign) - 1)
        )
    )
)
def test_fewer_than_half_cannot_lead_it_out(
    sides: tuple[list[float], list[float]],
) -> None:
    benign, hostile = sides
    assert min(benign) <= of(*hostile, *benign) <= max(benign)


def test_hostile_rows_far_away_on_every_coordinate() -> None:
    draw = torch.Generator().manual_seed(0)
    benign = torch.randn(6, 50, generator=draw)
    far = 1e30 * torch.randn(5, 50, generator=draw).sign()
    found = median(messages(torch.cat([far, benign])))
    assert (benign.amin(0) <= found).all()
    assert (found <= benign.amax(0)).all()


def test_half_can() -> None:
    assert of(1.0, 2.0, 1e30, 1e30) > 2.0


@pytest.mark.parametrize(("n", "f", "least"), [(2, 1, 3), (6, 3, 7), (1, 4, 9)])
def test_refuses_too_many_with_both_numbers(n: int, f: int, least: int) -> None:
    update = torch.arange(float(n))[:, None]
    sentence = rf"median with f = {f} holds for n ≥ 2f \+ 1 = {least}, and n is {n};"
    with pytest.raises(Refusal, match=sentence):
        median(messages(update), f=f)
    found = median(messages(update), f=f, strict=False)
    assert found.item() == (n - 1) / 2  # as without f


def test_f_changes_nothing_but_what_is_promised() -> None:
    update = torch.tensor([[1.0], [2.0], [7.0]])
    for f in (0, 1, "auto"):
        assert median(messages(update), f=f).item() == 2.0  # type: ignore[arg-type]
    with pytest.raises(Refusal, match="median's f = -1 must be at least 0"):
        median(messages(update), f=-1)


def test_options_and_reference() -> None:
    assert lookup.check("aggregator", "median", {}) == {"f": "auto", "strict": True}
    (entry,) = lookup.about("aggregator", "median").citations
    assert entry.startswith("@inproceedings{yin2018byzantine")
