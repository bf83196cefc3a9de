"""A model that reports what a gradient attack ended in."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from torch import nn

from troth.client.regularizers.l2 import l2
from troth.client.regularizers.l2sq import l2sq
from troth.client.regularizers.smooth_l2 import smooth_l2
from troth.networks import task as tasks
from troth.poison import boundary_distance, model_attack
from troth.types import Batch, Refusal

SEEDS = st.integers(0, 10**6)
TASK = tasks.functional(tasks.Objective(nn.Linear(2, 2), 2))


def draw(seed, *shape):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def pull(name, rho, theta, lam, delta=1.0):
    """∇_ρ R as the paper writes it (Section 2.2)."""
    far = (rho - theta).norm()
    over = {"l2sq": 1, "l2": far, "smooth_l2": math.hypot(delta, far)}
    return lam * (rho - theta) / over[name]


def test_by_hand():
    """Of the last, 3/5 of λ at 3/4 of δ: (3/4)/√(1 + (3/4)²) = 3/5."""
    rho, g = torch.tensor([1.0, 2.0]), torch.tensor([4.0, -8.0])
    half = model_attack(rho, g, lam=2.0)
    assert half.tolist() == [-1.0, 6.0] and half.dtype == torch.float32
    assert model_attack(rho, g, lam=2.0, square="whole").tolist() == [0.0, 4.0]
    g = torch.tensor([0.6, 0.0])
    near = model_attack(torch.zeros(2), g, lam=1.0, regularizer="smooth_l2")
    torch.testing.assert_close(near, torch.tensor([-0.75, 0.0]))


@given(seed=SEEDS, d=st.integers(1, 9), lam=st.floats(0.01, 50))
def test_the_papers_lam_is_half_of_ours(seed, d, lam):
    rho, g = draw(seed, d), draw(seed + 1, d)
    ours = model_attack(rho, g, lam=2 * lam)
    theirs = model_attack(rho, g, lam=lam, square="whole")
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(pull("l2sq", rho, ours, 2 * lam), g)


@given(
    seed=SEEDS,
    d=st.integers(1, 9),
    lam=st.floats(0.01, 50),
    delta=st.floats(0.01, 10),
    share=st.floats(0, 0.999),
)
def test_smooth_l2_inside_the_ball_is_exact(seed, d, lam, delta, share):
    rho, g = draw(seed, d), draw(seed + 1, d)
    g *= share * lam / g.norm()
    smooth = {"regularizer": "smooth_l2", "delta": delta, "epsilon": 0}
    model = model_attack(rho, g, lam=lam, **smooth)
    assert (pull("smooth_l2", rho, model, lam, delta) - g).norm() <= 1e-9 * lam


@pytest.mark.parametrize("epsilon", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("lam", [0.5, 3.0])
def test_smooth_l2_on_the_boundary_is_within_epsilon(lam, epsilon):
    rho, g = draw(0, 5), draw(1, 5)
    g *= lam / g.norm()
    given = {"delta": 2.0, "epsilon": epsilon}
    model = model_attack(rho, g, lam=lam, regularizer="smooth_l2", **given)
    miss = float((pull("smooth_l2", rho, model, lam, 2.0) - g).norm())
    assert miss == pytest.approx(epsilon, rel=1e-4)
    far = float((model - rho).norm())
    assert far == pytest.approx(boundary_distance(lam, **given))
    assert far == pytest.approx(2.0 * math.sqrt(lam / (2 * epsilon)), rel=0.05)


@pytest.mark.parametrize("name", ["l2", "smooth_l2"])
def test_float32_projections_on_the_ball_are_accepted(name):
    rho = torch.zeros(1000)
    for h in draw(0, 50, 1000).float():
        g = h * (1.0 / h.norm())
        model = model_attack(rho, g, lam=1.0, regularizer=name)
        assert (pull(name, rho, model, 1.0) - g).norm() < 1.1e-5


@pytest.mark.parametrize("name", ["l2", "smooth_l2"])
def test_lemma_3_the_minimum_is_where_the_attack_ended(name):
    """Honest Σ½‖ρ − c_n‖²-like pulls sum to −g at ρ∞; with θ♠ the least is ρ∞."""
    rng = np.random.default_rng(5)
    end, centres = rng.normal(size=3), rng.normal(size=(4, 3))
    g = torch.as_tensor(-0.1 * (end - centres).sum(axis=0))
    lam = 1.25 * float(g.norm())
    model = model_attack(torch.as_tensor(end), g, lam=lam, regularizer=name).numpy()

    def loss(rho):
        far = float(np.linalg.norm(rho - model))
        own = far if name == "l2" else math.hypot(1, far)
        return float(0.05 * ((rho - centres) ** 2).sum() + lam * own)

    options = {"xatol": 1e-9, "fatol": 1e-15, "maxiter": 5000, "maxfev": 9000}
    found = optimize.minimize(loss, end + 0.3, method="Nelder-Mead", options=options)
    assert np.linalg.norm(found.x - end) < 1e-5


@pytest.mark.parametrize(
    ("name", "member", "options", "share"),
    [
        ("l2sq", l2sq(), {}, 0.3),
        ("smooth_l2", smooth_l2(TASK, delta=0.5), {"delta": 0.5}, 0.3),
        ("l2", l2(TASK), {}, 1.0),  # the boundary, from any side
    ],
)
def test_the_librarys_regularizers_report_it(name, member, options, share):
    """The same gradients from regularizers/, which the coupled federation uses."""
    rho, g = draw(3, 6).requires_grad_(), draw(4, 6)
    g *= share * 3.0 / g.norm()
    model = model_attack(rho.detach(), g, lam=3.0, regularizer=name, **options)
    none = Batch(*[torch.zeros(0)] * len(Batch._fields))
    member.value(model, rho, none).backward()
    torch.testing.assert_close(3.0 * rho.grad, g)
    torch.testing.assert_close(pull(name, rho.detach(), model, 3.0, 0.5), g)


def test_l2_stays_at_rho_inside():
    rho, g = draw(0, 4), draw(1, 4)
    inside = model_attack(rho, g * (1.8 / g.norm()), lam=2.0, regularizer="l2")
    assert torch.equal(inside, rho)


SMOOTH = {"regularizer": "smooth_l2"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"lam": 0.0}, "lam = 0.0 must be a finite number above 0"),
        ({"gradient": torch.ones(4)}, "gradient has 4 parameters and rho has 3"),
        ({"gradient": torch.tensor([1.0, math.nan, 0])}, "1 NaN or infinite values"),
        (
            {"regularizer": "l2"},
            "norm 1.73205, but with l2 no model has a gradient longer",
        ),
        (SMOOTH, "shorten it to this length"),
        (SMOOTH | {"epsilon": 0.0, "lam": math.sqrt(3)}, "above 0; the boundary"),
        (SMOOTH | {"lam": 9.0, "delta": 0.0}, "delta = 0.0"),
    ],
)
def test_refusals(changed, words):
    given = {"rho": torch.zeros(3), "gradient": torch.ones(3), "lam": 1.0} | changed
    with pytest.raises(Refusal, match=words):
        model_attack(**given)
