"""What holds of every metric in the folder."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from troth import lookup
from troth.types import Refusal

NAMES = lookup.names("metric")
SPREADS = {"std", "jain"}  # all others are an average or quantiles


def measure(
    name: str, values: np.ndarray, size: np.ndarray | None = None, up: bool = True
) -> np.ndarray:
    given = lookup.check("metric", name, {})
    size = np.ones(len(values)) if size is None else size
    function = lookup.find("metric", name)
    number = lookup.call(function, given, values=values, size=size, higher_is_better=up)
    json.dumps(number)  # a plain number or a list of them
    return np.atleast_1d(number)


@pytest.fixture(params=[1, 2, 9, 10, 11, 57, 1000])
def clients(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(request.param)
    return draw.random(request.param), draw.integers(1, 50, request.param)


Clients = tuple[np.ndarray, np.ndarray]


def test_all_are_found() -> None:
    expected = {"mean", "std", "weighted", "worst10", "best10", "deciles", "jain"}
    assert expected <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("up", [True, False])
def test_clients_have_no_order(name: str, up: bool, clients: Clients) -> None:
    values, size = clients
    order = np.random.default_rng(1).permutation(len(values))
    np.testing.assert_allclose(
        measure(name, values[order], size[order], up),
        measure(name, values, size, up),
        rtol=1e-12,
        atol=1e-15,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_client_without_a_value_is_left_out(name: str, clients: Clients) -> None:
    values, size = clients
    at = np.random.default_rng(2).integers(0, len(values) + 1, 5)
    np.testing.assert_allclose(
        measure(name, np.insert(values, at, np.nan), np.insert(size, at, 9)),
        measure(name, values, size),
        rtol=1e-12,
        atol=1e-15,
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("values", [[], [np.nan], [np.nan, np.nan]])
def test_nothing_gives_nan_without_a_warning(name: str, values: list[float]) -> None:
    assert np.isnan(measure(name, np.array(values, dtype=float))).all()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in SPREADS])
@pytest.mark.parametrize("up", [True, False])
def test_lies_between_the_extremes(name: str, up: bool, clients: Clients) -> None:
    values, size = clients
    number = measure(name, values, size, up)
    assert (number >= values.min() - 1e-12).all()
    assert (number <= values.max() + 1e-12).all()


@pytest.mark.parametrize("name", [n for n in NAMES if n not in SPREADS])
def test_shifts_with_the_values(name: str, clients: Clients) -> None:
    values, size = clients
    np.testing.assert_allclose(
        measure(name, values + 3, size), measure(name, values, size) + 3, rtol=1e-12
    )


def test_spreads_have_their_bounds(clients: Clients) -> None:
    values, _ = clients
    assert 0 <= measure("std", values)[0] <= (values.max() - values.min()) / 2 + 1e-12
    assert 1 / len(values) - 1e-12 <= measure("jain", values)[0] <= 1 + 1e-12


def test_worst_mean_best_are_in_order(clients: Clients) -> None:
    values, _ = clients
    worst, mean, best = (measure(k, values) for k in ("worst10", "mean", "best10"))
    assert worst <= mean + 1e-12
    assert mean <= best + 1e-12
    assert measure("worst10", values, up=False) == best
    assert measure("best10", values, up=False) == worst


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_any_type_of_number(name: str, dtype: Any) -> None:
    values: np.ndarray = np.arange(12).astype(dtype)
    np.testing.assert_array_equal(
        measure(name, values), measure(name, values.astype(float))
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("up", [True, False])
def test_an_infinite_loss_needs_no_warning(name: str, up: bool) -> None:
    measure(name, np.array([1.0, np.inf, 2.0]), up=up)
    measure(name, np.array([-np.inf, np.inf]), up=up)


@pytest.mark.parametrize("name", NAMES)
def test_refuses_a_matrix(name: str) -> None:
    with pytest.raises(Refusal, match="one number a client"):
        measure(name, np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize("name", NAMES)
def test_does_not_touch_what_it_reads(name: str, clients: Clients) -> None:
    values, size = clients
    kept = values.copy()
    measure(name, values, size)
    np.testing.assert_array_equal(values, kept)
