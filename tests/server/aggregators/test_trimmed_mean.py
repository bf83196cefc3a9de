from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from troth import lookup
from troth.server.aggregators.mean import mean
from troth.server.aggregators.median import median
from troth.server.aggregators.trimmed_mean import trimmed_mean
from troth.types import Messages, Refusal

FLOATS = st.one_of(
    st.floats(-(2.0**100), 2.0**100, width=32),
    st.integers(-9, 9).map(lambda steps: steps * 2.0**-149),
    st.integers(-2, 2).map(float),
)


def messages(update: Tensor) -> Messages:
    n = len(update)
    loss = torch.full((n,), torch.nan)
    return Messages(update, update[:, :0], loss, torch.ones(n), torch.arange(n))


def rows(n: int, d: int, dtype: torch.dtype = torch.float64) -> Tensor:
    draw = torch.Generator().manual_seed(100 * n + d)
    return torch.randn(n, d, generator=draw, dtype=dtype)


def of(f: int, *values: float, strict: bool = True) -> float:
    column = torch.tensor(values, dtype=torch.float32)[:, None]
    return trimmed_mean(messages(column), f=f, strict=strict).item()


def test_by_hand() -> None:
    update = torch.tensor(
        [[9.0, 1.0], [1.0, 2.0], [2.0, 3.0], [4.0, -7.0], [-100.0, 1e30]]
    )
    expected = [(1 + 2 + 4) / 3, (1 + 2 + 3) / 3]
    assert trimmed_mean(messages(update), f=1).tolist() == pytest.approx(expected)
    assert trimmed_mean(messages(update), f=2).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("n", "d", "f"), [(3, 1, 1), (5, 7, 2), (12, 4, 5), (60, 40, 20), (9, 70_000, 4)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_as_its_definition(n: int, d: int, f: int, dtype: torch.dtype) -> None:
    update = rows(n, d, dtype)
    found = trimmed_mean(messages(update), f=f)
    expected = np.sort(update.double().numpy(), axis=0)[f : n - f].mean(axis=0)
    torch.testing.assert_close(
        found.double(), torch.from_numpy(expected), rtol=1e-6, atol=1e-7
    )
    assert found.dtype == dtype


@pytest.mark.parametrize("n", [1, 2, 7])
def test_without_hostile_rows_it_is_the_mean_to_the_bit(n: int) -> None:
    given_ = messages(rows(n, 5, torch.float32))
    assert torch.equal(trimmed_mean(given_, f=0), mean(given_))


def test_equal_values_at_the_cut_are_the_same_to_it() -> None:
    assert of(1, 1.0, 1.0, 3.0, 3.0) == 2.0
    assert of(2, 0.0, 0.0, 0.0, 0.0, 9.0) == 0.0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_f_rows_cannot_lead_it_out_of_the_benign_range(data: st.DataObject) -> None:
    f = data.draw(st.integers(1, 4))
    benign = data.draw(st.lists(FLOATS, min_size=f + 1, max_size=9))
    hostile = data.draw(st.lists(FLOATS, min_size=f, max_size=f))
    found = of(f, *hostile, *benign)
    assert min(benign) <= found <= max(benign)


@settings(max_examples=60, deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=7), st.integers(1, 20))
def test_not_strict_it_is_the_median_at_the_end(values: list[float], f: int) -> None:
    found = of(f, *values, strict=False)
    assert np.isfinite(found)
    if 2 * f >= len(values) - 1:
        column = torch.tensor(values, dtype=torch.float32)[:, None]
        assert found == pytest.approx(
            median(messages(column)).item(), rel=1e-6, abs=2**-149
        )


@pytest.mark.parametrize("value", [3e38, -3e38, 2.0**-149, 0.0])
def test_what_all_say_is_the_result(value: float) -> None:
    value = torch.tensor(value).item()
    assert of(2, *[value] * 9) == value


def test_large_numbers_do_not_overflow() -> None:
    assert of(1, *[3e38] * 40, -3e38) == pytest.approx(3e38, rel=1e-6)


@pytest.mark.parametrize(("n", "f", "least"), [(2, 1, 3), (6, 3, 7), (1, 5, 11)])
def test_refuses_too_many_with_both_numbers(n: int, f: int, least: int) -> None:
    sentence = (
        rf"trimmed_mean with f = {f} holds for n ≥ 2f \+ 1 = {least}, and n is {n};"
    )
    with pytest.raises(Refusal, match=sentence):
        trimmed_mean(messages(rows(n, 2)), f=f)


def test_refuses_what_is_no_count() -> None:
    with pytest.raises(Refusal, match="trimmed_mean's f = -1 must be at least 0"):
        trimmed_mean(messages(rows(3, 2)), f=-1)
    with pytest.raises(Refusal, match="trimmed_mean's f = 'auto' is known within"):
        trimmed_mean(messages(rows(3, 2)))
    with pytest.raises(Refusal, match="aggregator.f = 'many'"):
        lookup.check("aggregator", "trimmed_mean", {"f": "many"})


def test_a_sum_beyond_the_range() -> None:
    most = torch.finfo(torch.float64).max
    column = [-most, most / 2, most / 2, most / 2, most]
    update = torch.tensor(column, dtype=torch.float64)[:, None]
    assert trimmed_mean(messages(update), f=1).item() == pytest.approx(most / 2)
