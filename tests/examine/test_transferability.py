"""What is measured between two models, by hand and by the laws it obeys."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from troth.client.adversarial.pgd import pgd
from troth.examine import transferability
from troth.examine.transferability import Terms, bound, confidence, look, terms
from troth.networks import task as tasks
from troth.types import Batch

F64 = torch.float64


def task_of(net, classes=2):
    return tasks.functional(tasks.Objective(net.double(), classes), "float64")


def batch(x, y):
    x, y = torch.as_tensor(x, dtype=F64), torch.as_tensor(y)
    weight = torch.full((len(x),), 1 / len(x), dtype=F64)
    zero = torch.tensor(0)
    return Batch(x, y, weight, zero, zero, zero)


def vector(*numbers):
    return torch.tensor(numbers, dtype=F64)


def softplus(z):
    return math.log1p(math.exp(z))


def test_by_hand():
    """w has the margin x₁ − 2x₂ for class 1 and v has 3x₁ − 1.2; the label is 0.

    The loss of a margin z is log(1 + eᶻ), with the gradient σ(z) times its slope. x_adv
    is x + 0.1·(1, −1), the closed form. w was right and is fooled, v is right on both.
    """
    task = task_of(nn.Linear(2, 2))
    w, v = vector(0, 0, 1, -2, 0, 0), vector(0, 0, 3, 0, 0, -1.2)
    made = pgd(task, 1.0, eps=0.1, step=0.1, iterations=1)
    seen = look(task, made, w, v, batch([[0.2, 0.15]], [0]))
    z_w, z_v, adv_w, adv_v = 0.2 - 0.3, 0.6 - 1.2, 0.3 - 0.1, 0.9 - 1.2
    assert seen.right.item() == seen.shared_right.item() == 1
    assert seen.shared_adv_right.item() == 0 and seen.adv_right.item() == 1
    rise = softplus(adv_w) - softplus(z_w), softplus(adv_v) - softplus(z_v)
    assert seen.l_trans.item() == pytest.approx(rise[0] - rise[1], abs=1e-12)
    expected = math.degrees(math.acos(1 / math.sqrt(5)))
    assert seen.angle.item() == pytest.approx(expected, abs=1e-9)
    sigma = [1 / (1 + math.exp(-z)) for z in (z_w, z_v)]
    gamma = sigma[0] * math.sqrt(5) / (sigma[1] * 3)
    assert seen.ratio.item() == pytest.approx(gamma, rel=1e-12)
    assert seen.confidence.item() == pytest.approx(1 - sigma[1], rel=1e-12)
    assert seen.loss.item() == pytest.approx(softplus(z_v), rel=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["linf", "l2"]), st.integers(1, 6))
def test_a_model_beside_itself(seed, norm, m):
    random = np.random.default_rng(seed)
    task = task_of(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), 3)
    w = torch.from_numpy(random.normal(size=task.d))
    some = batch(random.random((m, 4)), random.integers(0, 3, m))
    seen = look(task, pgd(task, 1.0, eps=0.3, norm=norm), w, w.clone(), some)
    assert torch.equal(seen.adv_right, seen.shared_adv_right)
    assert torch.equal(seen.right, seen.shared_right)
    assert not seen.l_trans.any() and not seen.angle.any()
    assert torch.equal(seen.ratio, torch.ones_like(seen.ratio))


def test_angles():
    a = torch.tensor([[1.0, 0], [1, 0], [1, 0], [1, 0], [0, 0]], dtype=F64)
    b = torch.tensor([[5.0, 0], [0, 2], [-3, 0], [1, 1e-9], [1, 0]], dtype=F64)
    found = transferability.angle(a, b)
    assert found[:3].tolist() == pytest.approx([0, 90, 180])
    assert found[3].item() == pytest.approx(math.degrees(1e-9), rel=1e-6)
    assert found[4].isnan()


def test_confidence():
    y = torch.tensor([0, 1])
    two = torch.log(torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]]))
    assert confidence(two, y).tolist() == pytest.approx([0.7, 0.4])
    margin = torch.tensor([[math.log(3)], [-math.log(4)]])
    assert confidence(margin, y).tolist() == pytest.approx([0.75, 0.8])
    several = torch.tensor([[math.log(3), -math.log(4)]])
    found = confidence(several, torch.tensor([[1, 0]]))
    assert found.tolist() == pytest.approx([(0.75 + 0.8) / 2])


class Pictures(nn.Module):
    """One linear layer on pictures."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 2, bias=False)

    def forward(self, x):
        return self.layer(x.flatten(1))


GREY = np.array([[0.2, 0.8], [0.4, 0.4]])
COLOUR = np.array([0.9, 0.5, 0.1])


def weights(slope):
    """Class 1 has this margin, [3, 2, 2]."""
    flat = torch.from_numpy(slope.reshape(-1))
    return torch.cat([torch.zeros(12, dtype=F64), flat])


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_what_is_spurious_in_a_coloured_picture(scale):
    """A margin that is brightness in red leans on colour alone; one that compares
    pixels of equal grey does not lean on it at all; of their sum, a share does."""
    task = task_of(Pictures())
    colour = np.array([1, -1, 0.5])[:, None, None] * GREY
    shape = np.zeros((3, 2, 2))
    shape[:, 1, 0], shape[:, 1, 1] = 1, -1
    picture = scale * COLOUR[:, None, None] * GREY
    one = batch(picture[None], [0])
    for slope, part in ((colour, colour), (shape, 0 * shape), (colour + shape, colour)):
        w = weights(slope / scale)
        found = terms(task, scale, 0.1, w, w, one)
        sine = np.linalg.norm(part) / np.linalg.norm(slope)
        assert float(found.spurious / found.gradient) == pytest.approx(sine, abs=1e-9)
        p = 1 / (1 + math.exp(-float((slope * picture).sum() / scale)))
        assert found.gradient.item() == pytest.approx(p * np.linalg.norm(slope))
        assert found.gamma.item() == 1 and found.l_trans.item() == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 2))
def test_lemma_2_holds_with_the_curvature_that_was_met(seed, eps):
    random = np.random.default_rng(seed)
    task = task_of(Pictures())
    w, v = (torch.from_numpy(random.normal(size=task.d)) for _ in range(2))
    some = batch(random.random((5, 3, 2, 2)), random.integers(0, 2, 5))
    t = terms(task, 1.0, eps, w, v, some)
    *_, g_w = task.climb(w, some.x, some.y)
    *_, g_v = task.climb(v, some.x, some.y)
    theta = transferability.angle(g_w.flatten(1), g_v.flatten(1)).deg2rad()
    first = eps * t.gradient * (1 - theta.cos() / t.gamma)
    assert ((t.l_trans - first).abs() <= t.curvature * eps**2 + 1e-9).all()


def test_theorem_3_by_hand():
    rows = [(1, 3), (0.5, 0.5), (2, math.nan), (0.2, 0.4), (4, 1)]
    found = bound(Terms(*(vector(*row) for row in rows)), 0.1)
    assert found[1:] == pytest.approx((2, 0.25, 2, 0.3, 4))
    expected = ((0.25 + math.sqrt(2)) / 2 - 1) * 2 + 0.3 / 0.1 + 4 * 0.1
    assert found.total == pytest.approx(math.sqrt(3) * expected)
    sure = Terms(vector(1, 0), vector(0, 0), vector(1, 0), vector(0, 0), vector(0, 0))
    assert bound(sure, 0.1).total == math.inf  # it says nothing there
