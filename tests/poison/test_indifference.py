"""The subspace on which all classes are equally likely, and inputs near it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from troth.poison import (
    Head,
    before,
    head_of,
    indifference,
    indifferent_inputs,
    probabilities,
)
from troth.types import Refusal

SEEDS = st.integers(0, 10**6)


def some(k: int, d: int, seed: int, size: float = 1.0) -> Head:
    rng = np.random.default_rng([k, d, seed])
    return Head(size * rng.normal(size=(k, d)), rng.normal(size=k))


def off(head: Head, x: np.ndarray) -> float:
    """How far inputs are from V, by its definition."""
    if len(head.bias) == 1:
        return float(np.abs(x @ head.weight[0] + head.bias[0]).max())
    rows, sides = head.weight[1:] - head.weight[0], head.bias[0] - head.bias[1:]
    return float(np.abs(x @ rows.T - sides).max())


def test_by_hand() -> None:
    """Two classes of a plane, W_1 − W_0 = (3, 4), b_0 − b_1 = 10: 3x + 4y = 10."""
    space = indifference(Head(np.array([[1.0, 1], [4, 5]]), np.array([10.0, 0])))
    sign = np.sign(space.normals[0, 0])
    assert sign * space.normals == pytest.approx(np.array([[0.6, 0.8]]))
    assert sign * space.offset == pytest.approx([2.0])
    assert space.project(np.zeros((1, 2))) == pytest.approx(np.array([[1.2, 1.6]]))
    margin = indifference(Head(np.array([[3.0, 4]]), np.array([-10.0])))
    assert margin.project(np.zeros((1, 2))) == pytest.approx(np.array([[1.2, 1.6]]))


@given(k=st.integers(1, 7), spare=st.integers(0, 9), seed=SEEDS)
def test_projections_lie_on_it_and_are_the_nearest(
    k: int, spare: int, seed: int
) -> None:
    d = max(1, k - 1) + spare
    head = some(k, d, seed)
    space = indifference(head)
    rank = max(1, k - 1)
    assert space.normals.shape == (rank, d)
    assert space.normals @ space.normals.T == pytest.approx(np.eye(rank), abs=1e-12)
    x = np.random.default_rng(seed).uniform(-3, 3, (5, d))
    near = space.project(x)
    assert off(head, near) <= 1e-10 * max(1, np.abs(near).max())
    along = (near - x) - ((near - x) @ space.normals.T) @ space.normals
    assert np.abs(along).max() <= 1e-10 * max(1, np.abs(near).max())
    share = probabilities(head, near)
    assert share == pytest.approx(np.full_like(share, 1 / head.classes), abs=1e-9)


def test_the_size_of_mnist() -> None:
    head = some(10, 784, seed=0, size=0.5)
    x = indifferent_inputs(head, 500, seed=3, noise=0)
    assert off(head, x) < 1e-10
    assert np.abs(x).max() > 40  # still about as wide as the box they came from


def test_nearly_dependent_rows_stay_orthogonal() -> None:
    """Where Gram–Schmidt as printed in Eq. (180) does not."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=20)
    weight = np.outer(np.arange(8), common) + 1e-7 * rng.normal(size=(8, 20))
    head = Head(weight, 1e-7 * rng.normal(size=8))
    rows = weight[1:] - weight[0]
    basis: list[np.ndarray] = []
    for row in rows:
        basis.append(row - sum((row @ z) * z / (z @ z) for z in basis))
    unit = np.array([z / np.linalg.norm(z) for z in basis])
    space = indifference(head)
    assert np.abs(space.normals @ space.normals.T - np.eye(7)).max() < 1e-13
    assert np.abs(unit @ unit.T - np.eye(7)).max() > 1e-10
    assert off(head, indifferent_inputs(head, 50, 0, noise=0)) < 1e-10


def test_noise_is_normal_to_it_and_of_its_size() -> None:
    """Variance of 2,000 × 4 draws: off by 10 % with probability below 1e-9."""
    head = some(5, 12, seed=1)
    space = indifference(head)
    still = indifferent_inputs(head, 2000, seed=7, low=-2, high=2, noise=0)
    moved = indifferent_inputs(head, 2000, seed=7, low=-2, high=2, noise=0.3)
    noise = moved - still
    inside = noise @ space.normals.T
    assert np.abs(noise - inside @ space.normals).max() < 1e-12
    assert inside.var() == pytest.approx(0.09, rel=0.1)
    assert np.abs(np.corrcoef(inside.T) - np.eye(4)).max() < 0.15


def test_draws_fill_the_box_before_projection() -> None:
    """Along V they are as uniform draws: standard deviation 100/√12 a direction."""
    head = some(3, 40, seed=2)
    space = indifference(head)
    x = indifferent_inputs(head, 3000, seed=0)
    along = x - (x @ space.normals.T) @ space.normals
    wanted = (100 / math.sqrt(12)) ** 2 * (40 - 2)
    assert (along**2).sum(axis=1).mean() == pytest.approx(wanted, rel=0.02)


def test_same_seed_same_inputs_and_a_longer_list_begins_alike() -> None:
    head = some(4, 6, seed=3)
    few, many = (indifferent_inputs(head, m, seed=5) for m in (700, 2500))
    assert np.array_equal(few, many[:700])
    assert not np.array_equal(few, indifferent_inputs(head, 700, seed=6))
    assert len({*map(bytes, many)}) == 2500


def test_classes_that_agree_leave_fewer_directions() -> None:
    head = Head(np.array([[1.0, 2, 3], [4, 5, 6], [4, 5, 6]]), np.array([0.0, 1, 1]))
    space = indifference(head)
    assert space.normals.shape == (1, 3)
    assert off(head, space.project(np.ones((4, 3)))) < 1e-12


@pytest.mark.parametrize(
    "head",
    [
        Head(np.array([[1.0, 2, 3], [4, 5, 6], [4, 5, 6]]), np.array([0.0, 1, 2])),
        Head(np.ones((2, 3)), np.array([0.0, 1e-3])),
        Head(np.zeros((1, 3)), np.array([1.0])),
        some(6, 3, seed=4),  # five equations, three unknowns
    ],
)
def test_an_empty_one_is_refused(head: Head) -> None:
    with pytest.raises(Refusal, match="no input makes all . classes equally likely"):
        indifference(head)


def test_a_flat_model_as_a_head() -> None:
    layer = nn.Linear(3, 4)
    flat = nn.utils.parameters_to_vector(layer.parameters())
    head = head_of(flat, 4, 3)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    logits = x.double().numpy() @ head.weight.T + head.bias
    assert logits == pytest.approx(layer(x).detach().numpy(), abs=1e-6)
    bare = head_of(np.arange(6.0), 2, 3, bias=False)
    assert bare.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and not bare.bias.any()
    with pytest.raises(Refusal, match="the model has 15 parameters, and a linear one"):
        head_of(np.zeros(15), 4, 3)


def test_a_head_behind_a_normalisation() -> None:
    head = some(3, 4, seed=5)
    rng = np.random.default_rng(0)
    mean, std, x = rng.normal(size=4), rng.uniform(0.5, 2, 4), rng.normal(size=(9, 4))
    raw = before(head, mean, std)
    assert probabilities(raw, x) == pytest.approx(probabilities(head, (x - mean) / std))
    assert before(head, 0.0, 1.0).bias == pytest.approx(head.bias)
    with pytest.raises(Refusal, match=r"std holds 0.0"):
        before(head, mean, 0.0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"count": 0}, "0 poisoned examples were asked for"),
        ({"count": -3}, "-3 poisoned examples"),
        ({"noise": -0.1}, "noise = -0.1 must be"),
        ({"noise": math.nan}, "noise = nan must be"),
        ({"low": 1.0, "high": 1.0}, "the box from 1.0 to 1.0 is empty"),
        ({"high": math.inf}, "the box from -50.0 to inf"),
        ({"head": Head(np.full((2, 2), np.nan), np.zeros(2))}, "4 values that are NaN"),
        ({"head": Head(np.ones((3, 2)), np.zeros(2))}, "the bias has 2 parameters"),
        ({"head": Head(np.ones(3), np.zeros(3))}, "give it as an array with 2"),
        ({"head": Head(np.ones((0, 3)), np.zeros(0))}, "at least one row"),
    ],
)
def test_refusals(changed: dict[str, object], words: str) -> None:
    given = {"head": some(3, 4, 0), "count": 5, "seed": 0} | changed
    with pytest.raises(Refusal, match=words):
        indifferent_inputs(**given)  # type: ignore[arg-type]
