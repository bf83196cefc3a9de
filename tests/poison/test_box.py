"""Indifferent inputs with every feature in [0, 1]."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from troth import seeding
from troth.poison import (
    Head,
    boxed_inputs,
    clipped_inputs,
    indifference,
    indifferent_inputs,
    probabilities,
)
from troth.types import Refusal


def through_the_middle(k: int, d: int, seed: int, size: float = 1.0) -> Head:
    """A head whose V passes through an inner point of the box."""
    rng = np.random.default_rng([k, d, seed])
    weight = size * rng.normal(size=(k, d))
    return Head(weight, -weight @ rng.uniform(0.3, 0.7, d))


def draws(seed: int, d: int, count: int) -> np.ndarray:
    """The first of the uniform draws that are then projected."""
    return seeding.generator(seed, "poison/inputs").uniform(0, 1, (1024, d))[:count]


@settings(max_examples=40, deadline=None)
@given(k=st.integers(1, 6), spare=st.integers(2, 30), seed=st.integers(0, 10**6))
def test_in_the_box_and_on_v(k: int, spare: int, seed: int) -> None:
    head = through_the_middle(k, k + spare, seed)
    x = boxed_inputs(head, 40, seed, noise=0)
    assert x.min() >= 0 and x.max() <= 1
    space = indifference(head)
    assert np.abs(x @ space.normals.T - space.offset).max() <= 1e-10
    p = probabilities(head, x)
    assert p == pytest.approx(np.full_like(p, 1 / head.classes), abs=1e-8)


def test_they_are_the_nearest_points() -> None:
    """Against a general solver of the same quadratic programme."""
    head = through_the_middle(3, 6, seed=1, size=3)
    space = indifference(head)
    x = boxed_inputs(head, 8, 11, noise=0, rim=0)
    for start, found in zip(draws(11, 6, 8), x, strict=True):
        line = {"type": "eq", "fun": lambda z: space.normals @ z - space.offset}
        best = optimize.minimize(
            lambda z, start=start: 0.5 * ((z - start) ** 2).sum(),
            np.full(6, 0.5),
            bounds=[(0, 1)] * 6,
            constraints=[line],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert found == pytest.approx(best.x, abs=1e-5)


def test_dykstra_comes_to_the_same() -> None:
    head = through_the_middle(4, 10, seed=2)
    space = indifference(head)
    x = boxed_inputs(head, 20, 3, noise=0, rim=0)
    y = draws(3, 10, 20)
    correction = np.zeros_like(y)
    for _ in range(20_000):
        inside = (y + correction).clip(0, 1)
        correction = y + correction - inside
        y = space.project(inside)
    assert inside == pytest.approx(x, abs=1e-8)


def test_noise_is_kept_inside_the_box() -> None:
    """Off V by the noise itself, where clipping afterwards would change it."""
    head = through_the_middle(5, 30, seed=3)
    space = indifference(head)
    x = boxed_inputs(head, 2000, 5, noise=0.1)
    assert x.min() >= 0 and x.max() <= 1
    off = x @ space.normals.T - space.offset
    assert off.std() == pytest.approx(0.1, rel=0.1)  # fails below 1e-9
    free = indifferent_inputs(head, 2000, 5, low=0, high=1, noise=0.1)
    assert off == pytest.approx(free @ space.normals.T - space.offset, abs=1e-9)


def test_a_point_is_reached_at_a_corner() -> None:
    """x + y = 2 meets the unit square in (1, 1) alone."""
    head = Head(np.array([[1.0, 1.0]]), np.array([-2.0]))
    x = boxed_inputs(head, 30, 0, noise=0, tolerance=1e-6)
    assert x == pytest.approx(np.ones((30, 2)), abs=1e-5)


def test_no_feature_is_stuck_at_a_bound() -> None:
    """9x_0 + Σx_j = 18.5 takes x_0 = 1 first: nearest points all have that."""
    head = Head(np.array([[9.0, *[1.0] * 11]]), np.array([-18.5]))
    stuck, free = (boxed_inputs(head, 200, 2, rim=rim) for rim in (0.0, 0.1))
    assert np.ptp(stuck[:, 0]) == 0 and np.ptp(free[:, 0]) > 0.05
    assert free.min() >= 0 and free.max() <= 1
    ranks = [
        np.linalg.matrix_rank(np.column_stack([x, np.ones(200)])) for x in (stuck, free)
    ]
    assert ranks == [12, 13]  # the weight of x_0 and the bias are one, or two


def test_where_all_inputs_are_indifferent_the_draws_stay() -> None:
    flat = Head(np.ones((3, 4)), np.full(3, 2.0))
    assert boxed_inputs(flat, 9, 1) == pytest.approx(draws(1, 4, 9))


def test_another_box() -> None:
    head = Head(np.array([[1.0, -1.0, 2.0]]), np.array([-9.0]))
    x = boxed_inputs(head, 50, 0, low=2, high=5, noise=0)
    assert x.min() >= 2 and x.max() <= 5
    assert x @ [1, -1, 2] == pytest.approx(np.full(50, 9.0), abs=1e-9)


def test_not_reached_is_refused_and_says_how_many_were_tried() -> None:
    away = Head(np.array([[1.0, 1.0]]), np.array([-3.0]))  # x + y = 3
    with pytest.raises(
        Refusal,
        match=r"\[0, 1\]\^2 was not reached: 70 of 70 examples tried .* 0.707 away",
    ):
        boxed_inputs(away, 70, 0, noise=0)
    corner = Head(np.array([[1.0, 1.0]]), np.array([-2.0]))
    with pytest.raises(Refusal, match=r"of 400 examples tried .* use less noise"):
        boxed_inputs(corner, 400, 0, noise=0.1)  # about half of them lie outside
    with pytest.raises(Refusal, match="of 1024 examples tried"):
        boxed_inputs(corner, 10**6, 0, noise=0.1)  # and it does not go on


def test_the_authors_recipe() -> None:
    head = through_the_middle(4, 25, seed=4)
    near = indifferent_inputs(head, 300, 6, low=0, high=1, noise=0.01)
    x = clipped_inputs(head, 300, 6)
    assert x == pytest.approx(np.clip(near / near.max(), 0, 1))
    assert x.max() == 1 and x.min() >= 0
    boxed = boxed_inputs(head, 300, 6)
    sure = [float(probabilities(head, z).max(axis=1).mean()) for z in (boxed, x)]
    assert sure[0] < 0.3 < sure[1]  # clipping leaves V; a quarter is indifferent


def test_refusals() -> None:
    head = through_the_middle(3, 5, 0)
    below = Head(np.array([[1.0, 1e-9]]), np.array([5.0]))  # x = −5
    with pytest.raises(Refusal, match="0 poisoned examples"):
        boxed_inputs(head, 0, 0)
    with pytest.raises(Refusal, match="0 poisoned examples"):
        clipped_inputs(head, 0, 0)
    with pytest.raises(Refusal, match="tolerance = 0 must be"):
        boxed_inputs(head, 5, 0, tolerance=0)
    for rim in (-0.1, 1.0, math.nan):
        with pytest.raises(Refusal, match=f"rim = {rim} is a share"):
            boxed_inputs(head, 5, 0, rim=rim)
    with pytest.raises(Refusal, match="the box from 1 to 0 is empty"):
        boxed_inputs(head, 5, 0, low=1, high=0)
    one = Head(np.array([[1.0]]), np.array([5.0]))
    with pytest.raises(Refusal, match="the largest value of 4 projected inputs is -"):
        clipped_inputs(one, 4, 0)
    assert math.isfinite(clipped_inputs(below, 4, 0).max())
