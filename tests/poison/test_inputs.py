"""Inputs near the subspace of equally likely classes: free, in a box, embedded."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from troth import seeding
from troth.poison import (
    Head,
    before,
    boxed_inputs,
    clipped_inputs,
    embeddings,
    head_of,
    indifference,
    indifferent_inputs,
    probabilities,
)
from troth.types import Refusal

SEEDS = st.integers(0, 10**6)


def some(k, d, seed, size=1.0):
    rng = np.random.default_rng([k, d, seed])
    return Head(size * rng.normal(size=(k, d)), rng.normal(size=k))


def off(head, x):
    """How far inputs are from V, by its definition."""
    if len(head.bias) == 1:
        return float(np.abs(x @ head.weight[0] + head.bias[0]).max())
    rows, sides = head.weight[1:] - head.weight[0], head.bias[0] - head.bias[1:]
    return float(np.abs(x @ rows.T - sides).max())


BY_HAND = [([[1.0, 1], [4, 5]], [10.0, 0]), ([[3.0, 4]], [-10.0])]


@pytest.mark.parametrize(("weight", "bias"), BY_HAND)
def test_by_hand(weight, bias):
    """Of a plane 3x + 4y = 10: two classes, W_1 − W_0 = (3, 4), or one margin."""
    space = indifference(Head(np.array(weight), np.array(bias)))
    sign = np.sign(space.normals[0, 0])
    assert sign * space.normals == pytest.approx(np.array([[0.6, 0.8]]))
    assert sign * space.offset == pytest.approx([2.0])
    assert space.project(np.zeros((1, 2))) == pytest.approx(np.array([[1.2, 1.6]]))


@given(k=st.integers(1, 7), spare=st.integers(0, 9), seed=SEEDS)
def test_projections_lie_on_it_and_are_the_nearest(k, spare, seed):
    rank = max(1, k - 1)
    head = some(k, rank + spare, seed)
    space = indifference(head)
    assert space.normals.shape == (rank, rank + spare)
    assert space.normals @ space.normals.T == pytest.approx(np.eye(rank), abs=1e-12)
    x = np.random.default_rng(seed).uniform(-3, 3, (5, rank + spare))
    near = space.project(x)
    error = 1e-10 * max(1, np.abs(near).max())
    along = (near - x) - ((near - x) @ space.normals.T) @ space.normals
    assert off(head, near) <= error and np.abs(along).max() <= error
    share = probabilities(head, near)
    assert share == pytest.approx(np.full_like(share, 1 / head.classes), abs=1e-9)


def test_nearly_dependent_rows_stay_orthogonal():
    """Where Gram–Schmidt as printed in Eq. (180) does not."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=20)
    weight = np.outer(np.arange(8), common) + 1e-7 * rng.normal(size=(8, 20))
    head = Head(weight, 1e-7 * rng.normal(size=8))
    basis = []
    for row in weight[1:] - weight[0]:
        basis.append(row - sum((row @ z) * z / (z @ z) for z in basis))
    unit = np.array([z / np.linalg.norm(z) for z in basis])
    space = indifference(head)
    assert np.abs(space.normals @ space.normals.T - np.eye(7)).max() < 1e-13
    assert np.abs(unit @ unit.T - np.eye(7)).max() > 1e-10
    assert off(head, indifferent_inputs(head, 50, 0, noise=0)) < 1e-10


def test_noise_is_normal_to_it_and_of_its_size():
    """Variance of 2,000 × 4 draws: off by 10 % with probability below 1e-9."""
    head = some(5, 12, seed=1)
    space = indifference(head)
    still, moved = (
        indifferent_inputs(head, 2000, seed=7, low=-2, high=2, noise=noise)
        for noise in (0, 0.3)
    )
    inside = (moved - still) @ space.normals.T
    assert np.abs(moved - still - inside @ space.normals).max() < 1e-12
    assert inside.var() == pytest.approx(0.09, rel=0.1)
    assert np.abs(np.corrcoef(inside.T) - np.eye(4)).max() < 0.15


def test_same_seed_same_inputs_and_a_longer_list_begins_alike():
    head = some(4, 6, seed=3)
    few, many = (indifferent_inputs(head, m, seed=5) for m in (700, 2500))
    assert np.array_equal(few, many[:700])
    assert not np.array_equal(few, indifferent_inputs(head, 700, seed=6))
    assert len({*map(bytes, many)}) == 2500


def test_classes_that_agree_leave_fewer_directions():
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
def test_an_empty_one_is_refused(head):
    with pytest.raises(Refusal, match="for no input are all . classes equally likely"):
        indifference(head)


def test_a_flat_model_as_a_head():
    layer = nn.Linear(3, 4)
    head = head_of(nn.utils.parameters_to_vector(layer.parameters()), 4, 3)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    logits = x.double().numpy() @ head.weight.T + head.bias
    assert logits == pytest.approx(layer(x).detach().numpy(), abs=1e-6)
    bare = head_of(np.arange(6.0), 2, 3, bias=False)
    assert bare.weight.tolist() == [[0, 1, 2], [3, 4, 5]] and not bare.bias.any()


def test_a_head_behind_a_normalisation():
    head = some(3, 4, seed=5)
    rng = np.random.default_rng(0)
    mean, std, x = rng.normal(size=4), rng.uniform(0.5, 2, 4), rng.normal(size=(9, 4))
    raw = before(head, mean, std)
    assert probabilities(raw, x) == pytest.approx(probabilities(head, (x - mean) / std))
    assert before(head, 0.0, 1.0).bias == pytest.approx(head.bias)


CORNER = Head(np.array([[1.0, 1.0]]), np.array([-2.0]))  # x + y = 2
AWAY = Head(np.array([[1.0, 1.0]]), np.array([-3.0]))


def through_the_middle(k, d, seed):
    """A head whose V passes through an inner point of the box."""
    rng = np.random.default_rng([k, d, seed])
    weight = rng.normal(size=(k, d))
    return Head(weight, -weight @ rng.uniform(0.3, 0.7, d))


def draws(seed, d, count):
    """The first of the uniform draws that are then projected."""
    return seeding.generator(seed, "poison/inputs").uniform(0, 1, (1024, d))[:count]


@settings(max_examples=40, deadline=None)
@given(k=st.integers(1, 6), spare=st.integers(2, 30), seed=SEEDS)
def test_in_the_box_and_on_v(k, spare, seed):
    head = through_the_middle(k, k + spare, seed)
    x = boxed_inputs(head, 40, seed, noise=0)
    assert x.min() >= 0 and x.max() <= 1
    space = indifference(head)
    assert np.abs(x @ space.normals.T - space.offset).max() <= 1e-10
    p = probabilities(head, x)
    assert p == pytest.approx(np.full_like(p, 1 / head.classes), abs=1e-8)


def test_they_are_the_nearest_points():
    """Dykstra's alternating projections go there, slowly."""
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


def test_noise_is_kept_inside_the_box():
    """Off V by the noise itself, where clipping afterwards would change it."""
    head = through_the_middle(5, 30, seed=3)
    space = indifference(head)
    x = boxed_inputs(head, 2000, 5, noise=0.1)
    assert x.min() >= 0 and x.max() <= 1
    off = x @ space.normals.T - space.offset
    assert off.std() == pytest.approx(0.1, rel=0.1)  # fails below 1e-9
    free = indifferent_inputs(head, 2000, 5, low=0, high=1, noise=0.1)
    assert off == pytest.approx(free @ space.normals.T - space.offset, abs=1e-9)


def test_no_feature_is_stuck_at_a_bound():
    """9x_0 + Σx_j = 18.5 takes x_0 = 1 first: nearest points all have that."""
    head = Head(np.array([[9.0, *[1.0] * 11]]), np.array([-18.5]))
    stuck, free = (boxed_inputs(head, 200, 2, rim=rim) for rim in (0.0, 0.1))
    assert np.ptp(stuck[:, 0]) == 0 and np.ptp(free[:, 0]) > 0.05
    assert free.min() >= 0 and free.max() <= 1
    ones = np.ones((200, 1))
    ranks = [np.linalg.matrix_rank(np.hstack([x, ones])) for x in (stuck, free)]
    assert ranks == [12, 13]  # the weight of x_0 and the bias are one, or two


def test_boxes_by_hand():
    """A plane in [2, 5]³, one corner of the unit square, and all of a box."""
    head = Head(np.array([[1.0, -1.0, 2.0]]), np.array([-9.0]))
    x = boxed_inputs(head, 50, 0, low=2, high=5, noise=0)
    assert x.min() >= 2 and x.max() <= 5
    assert x @ [1, -1, 2] == pytest.approx(np.full(50, 9.0), abs=1e-9)
    x = boxed_inputs(CORNER, 30, 0, noise=0, tolerance=1e-6)
    assert x == pytest.approx(np.ones((30, 2)), abs=1e-5)
    flat = Head(np.ones((3, 4)), np.full(3, 2.0))
    assert boxed_inputs(flat, 9, 1) == pytest.approx(draws(1, 4, 9))


def test_the_authors_recipe():
    head = through_the_middle(4, 25, seed=4)
    near = indifferent_inputs(head, 300, 6, low=0, high=1, noise=0.01)
    x = clipped_inputs(head, 300, 6)
    assert x == pytest.approx(np.clip(near / near.max(), 0, 1))
    boxed = boxed_inputs(head, 300, 6)
    sure = [float(probabilities(head, z).max(axis=1).mean()) for z in (boxed, x)]
    assert sure[0] < 0.3 < sure[1]  # clipping leaves V; a quarter is indifferent
    below = Head(np.array([[1.0, 1e-9]]), np.array([5.0]))  # x = −5
    assert math.isfinite(clipped_inputs(below, 4, 0).max())


def network(bias=True):
    torch.manual_seed(0)
    bottom = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten()
    top = nn.Linear(48, 12), nn.ReLU(), nn.Dropout(0.5), nn.Linear(12, 4, bias=bias)
    return nn.Sequential(*bottom, *top)


X = torch.rand(23, 1, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("bias", [True, False])
def test_embeddings_and_head_make_the_outputs(bias):
    net = network(bias)
    statistics = {k: v.clone() for k, v in net.state_dict().items()}
    z, head = embeddings(net, X, batch=7)
    assert net.training and all(m.training for m in net.modules())
    assert all(torch.equal(v, statistics[k]) for k, v in net.state_dict().items())
    assert not net[-1]._forward_pre_hooks
    assert z.shape == (23, 12) and z.dtype == np.float64
    net[1].eval()  # a part that is frozen stays so
    assert z == pytest.approx(embeddings(net, X, batch=100)[0], abs=1e-6)
    assert net[0].training and not net[1].training
    with torch.no_grad():
        wanted = net.eval()(X).numpy()
    assert z @ head.weight.T + head.bias == pytest.approx(wanted, abs=1e-6)


FOUR, MIDDLE = some(3, 4, 0), through_the_middle(3, 5, 0)
ONE = Head(np.array([[1.0]]), np.array([5.0]))
SOFT = nn.Sequential(network(), nn.Softmax(dim=1))


@pytest.mark.parametrize(
    ("call", "given", "options", "words"),
    [
        (indifferent_inputs, (FOUR, 0, 0), {}, "the number of poisoned examples is 0"),
        (indifferent_inputs, (FOUR, 5, 0), {"noise": -0.1}, "noise = -0.1 must be"),
        (indifferent_inputs, (FOUR, 5, 0), {"low": 1, "high": 1}, "from 1 to 1 is"),
        (
            indifference,
            (Head(np.full((2, 2), np.nan), np.zeros(2)),),
            {},
            "4 NaN or infinite values",
        ),
        (indifference, (Head(np.ones((3, 2)), np.zeros(2)),), {}, "bias has 2"),
        (indifference, (Head(np.ones(3), np.zeros(3)),), {}, "array with 2"),
        (indifference, (Head(np.ones((0, 3)), np.zeros(0)),), {}, "at least one row"),
        (head_of, (np.zeros(15), 4, 3), {}, "has 15 parameters, but a linear"),
        (before, (FOUR, np.zeros(4), 0.0), {}, "std has the value 0.0"),
        (clipped_inputs, (ONE, 4, 0), {}, "largest value of 4 projected inputs is -"),
        (boxed_inputs, (MIDDLE, 5, 0), {"tolerance": 0}, "tolerance = 0 must be"),
        (boxed_inputs, (MIDDLE, 5, 0), {"rim": 1.0}, "rim = 1.0 must be a share"),
        (
            boxed_inputs,
            (AWAY, 70, 0),
            {"noise": 0},
            "2 was not reached: 70 .* 0.707 away",
        ),
        (boxed_inputs, (CORNER, 400, 0), {"noise": 0.1}, "of 400 .* use less noise"),
        (boxed_inputs, (CORNER, 10**6, 0), {"noise": 0.1}, "of 1024 inputs are up to"),
        (embeddings, (SOFT, X), {}, "Sequential does not end in a linear layer"),
        (embeddings, (network(), X[:0]), {}, "there are 0 examples"),
    ],
)
def test_refusals(call, given, options, words):
    with pytest.raises(Refusal, match=words):
        call(*given, **options)
