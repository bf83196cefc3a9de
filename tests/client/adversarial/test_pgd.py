"""PGD stays in the ball and the range, and finds what there is to find."""

import itertools
import os
import shutil
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

from troth import seeding
from troth.client.adversarial._worst import Worst, worse
from troth.client.adversarial.pgd import _Ball, pgd
from troth.engine.vmap import Lifted
from troth.networks import layers
from troth.networks import task as tasks
from troth.types import Batch, Refusal, Task

from ..hand import F64, INF, NAN, drawn
from ..small import TRACED, built

NORMS = ["linf", "l2"]
BOTH = pytest.mark.parametrize("norm", NORMS)
STARTS = pytest.mark.parametrize("start", ["none", "random"])


def inputs(*shape, dtype=F64):
    """Between 0 and 1."""
    draw = torch.Generator().manual_seed(1)
    return torch.rand(*shape, generator=draw, dtype=dtype)


def batch(x, y, key=7, t=3):
    weight = torch.full((len(x),), 1 / max(len(x), 1), dtype=F64)
    return Batch(x, y, weight, torch.tensor(t), torch.tensor(1), torch.tensor(key))


def problem(net, classes=2):
    """A network in float64 as a task, and its numbers, drawn."""
    objective = tasks.Objective(net.double(), classes)
    task = tasks.functional(objective, "float64")
    return task, drawn(task.d, seed=5)


def small(features, classes=3):
    inner = nn.Linear(features, 6), nn.Tanh()
    return nn.Sequential(nn.Flatten(), *inner, nn.Linear(6, classes))


def close(found, expected, within):
    torch.testing.assert_close(found, expected, rtol=0, atol=within)


def test_by_hand():
    """f = (0, x₁ − 2x₂), y = 0: the loss grows with x₁ − 2x₂, so up and down."""
    task, _ = problem(nn.Linear(2, 2, bias=False))
    w, y = torch.tensor([0.0, 0, 1, -2], dtype=F64), torch.zeros(2).long()
    seen = batch(torch.tensor([[0.5, 0.5], [0.95, 0.05]], dtype=F64), y)
    for iterations, first in ((2, [0.58, 0.42]), (9, [0.6, 0.4])):
        attack = pgd(task, 1.0, eps=0.1, step=0.04, iterations=iterations)
        expected = torch.tensor([first, [1.0, 0.0]], dtype=F64)
        close(attack.worst(w, seen).x, expected, 1e-15)
    found = pgd(task, 1.0, eps=0.1, norm="l2").worst(w, seen)
    along = torch.tensor([1.0, -2.0], dtype=F64) / 5**0.5
    close(found.x[0], 0.5 + 0.1 * along, 1e-15)
    margin = (found.x[0, 0] - 2 * found.x[0, 1]).item()
    assert found.loss[0].item() == pytest.approx(np.log1p(np.exp(margin)))
    assert found.outputs[0].tolist() == pytest.approx([0, margin])


@settings(max_examples=40, deadline=None)
@given(
    options=st.fixed_dictionaries(
        {
            "norm": st.sampled_from(NORMS),
            "start": st.sampled_from(["none", "random"]),
            "eps": st.floats(1e-3, 2),
            "step": st.floats(0, 3),
            "iterations": st.integers(1, 4),
            "bounds": st.sampled_from([[0.0, 1.0], [-0.5, 1.25], []]),
        }
    ),
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    m=st.integers(0, 4),
    scale=st.sampled_from([1.0, 255.0]),
    wide=st.booleans(),
)
def test_never_leaves_the_ball_or_the_range(options, shape, m, scale, wide):
    dtype, digit = (F64, 1e-14) if wide else (torch.float32, 1e-5)
    net = nn.Sequential(layers.Normalize(0.0, scale), small(int(np.prod(shape))))
    task = tasks.functional(tasks.Objective(net.to(dtype), 3))
    x = (inputs(m, *shape, dtype=dtype) * scale).round()  # on the edge, too
    x = x.byte() if scale == 255 else x
    seen = batch(x, torch.arange(m) % 3)._replace(weight=torch.ones(m))
    attack = pgd(task, scale, **options)
    found = attack.worst(3 * drawn(task.d).to(dtype), seen)
    assert found.x.shape == x.shape and found.x.dtype == dtype
    assert found.loss.shape == (m,) and found.outputs.shape == (m, 3)
    away = (found.x - x.to(dtype)).flatten(1)
    length = away.abs().amax(1) if options["norm"] == "linf" else away.norm(dim=1)
    assert (length <= options["eps"] * scale * (1 + digit) + digit * scale).all()
    if options["bounds"]:
        low, high = options["bounds"]
        assert (found.x >= low * scale).all() and (found.x <= high * scale).all()
    attack.expect(x)


@BOTH
@STARTS
@pytest.mark.parametrize("outputs", [1, 2])
def test_on_binary_linear_models_it_is_the_closed_form(norm, start, outputs):
    """The margin falls by ε·‖a‖₁ along −sign(a), or by ε·‖a‖₂ along −a/‖a‖₂."""
    task, w = problem(nn.Linear(7, outputs))
    a = w[:7] if outputs == 1 else w[7:14] - w[:7]
    y = torch.arange(40) % 2
    x, side = inputs(40, 7), (2.0 * y - 1)[:, None]
    best = x - 0.3 * side * (a.sign() if norm == "linf" else a / a.norm())
    more = {"start": start, "norm": norm, "bounds": []}
    found = pgd(task, 1.0, eps=0.3, iterations=40, **more).worst(w, batch(x, y))
    # From a random start, L2's projections turn to the optimum without reaching it.
    close(found.x, best, 1e-6 if norm == "linf" or start == "none" else 2e-3)
    close(found.loss, task.climb(w, best, y)[1], 1e-6)
    clipped = pgd(task, 1.0, eps=0.3, norm=norm).worst(w, batch(x, y)).x
    free = ((best >= 0) & (best <= 1)).all(1)
    assert 0 < free.sum() < 40
    close(clipped[free], best[free], 1e-6)
    if norm == "linf":  # number by number, so clipping commutes
        close(clipped, best.clamp(0, 1), 1e-6)


def written_out(net, x, y, norm, eps, step, count):
    """All iterates and their losses, by plain autograd, example by example."""
    places, losses, at = [], [], x
    for _ in range(count + 1):
        at = at.detach().requires_grad_()
        each = cross_entropy(net(at), y, reduction="none")
        (g,) = torch.autograd.grad(each.sum(), at)
        at = at.detach()
        places.append(at)
        losses.append(each.detach())
        if norm == "linf":
            away = (at + step * g.sign() - x).clamp(-eps, eps)
            at = (x + away).clamp(0, 1)
        else:
            there = at + step * g / g.norm(dim=1, keepdim=True)
            each = zip(x.numpy(), there.numpy(), strict=True)
            near = np.stack([nearest(*pair, eps, 0, 1) for pair in each])
            at = torch.from_numpy(near)
    return places, losses


def nearest(x, y, r, low, high):
    """Project y onto the ball around x and the box, by bisection on the multiplier."""

    def at(mu):
        return np.clip((y + mu * x) / (1 + mu), low, high)

    least, most = 0.0, max(1.0, 2 * np.linalg.norm(y - x) / r)
    if np.linalg.norm(at(0.0) - x) <= r:
        return at(0.0)
    for _ in range(200):
        middle = (least + most) / 2
        far = np.linalg.norm(at(middle) - x) > r
        least, most = (middle, most) if far else (least, middle)
    return at(most)


def dykstra(x, y, r, low, high):
    """Project y onto the same by Dykstra's alternating projections."""
    z, p, q = y.copy(), np.zeros_like(y), np.zeros_like(y)
    for _ in range(20_000):
        away = z + p - x
        ball = x + away * min(1.0, r / max(np.linalg.norm(away), 1e-300))
        p, box = z + p - ball, np.clip(ball + q, low, high)
        z, q, before = box, ball + q - box, z
        if np.abs(z - before).max() < 1e-14:
            break
    return z


@settings(max_examples=60, deadline=None)
@given(
    d=st.integers(1, 12),
    r=st.floats(0.05, 2),
    far=st.sampled_from([0.01, 0.3, 1.0, 30.0]),
    seed=st.integers(0, 2**20),
)
def test_projects_onto_the_ball_and_the_box_at_once(d, r, far, seed):
    """Two oracles agree on the nearest point, also with inputs on the edges."""
    draw = np.random.default_rng(seed)
    x = np.clip(draw.uniform(-0.7, 1.7, size=(5, d)), -0.5, 1.25)
    away = far * draw.normal(size=(5, d)) * (draw.random((5, d)) > 0.2)
    given = torch.from_numpy(x), torch.from_numpy(away)
    found = _Ball("l2", r, -0.5, 1.25).inside(*given).numpy()
    for i in range(5):
        where = x[i], x[i] + away[i], r, -0.5, 1.25
        np.testing.assert_allclose(found[i], nearest(*where), rtol=0, atol=1e-12)
        assert np.linalg.norm(found[i] - x[i]) <= r * (1 + 1e-14)
    slow = dykstra(*where)  # it converges slowly where constraints nearly touch
    np.testing.assert_allclose(found[i], slow, rtol=0, atol=1e-3)
    free = _Ball("l2", r, -INF, INF).inside(*given).numpy()
    length = np.linalg.norm(away, axis=1, keepdims=True)
    ball = x + away * np.minimum(1, r / np.maximum(length, 1e-300))
    np.testing.assert_allclose(free, ball, rtol=0, atol=1e-13)


def test_near_a_corner_the_whole_radius_is_used():
    """Clipping after the ball would leave a displacement of (0, .06), not (0, .1)."""
    x, away = torch.tensor([[1.0, 0.5]]), torch.tensor([[0.8, 0.6]])
    found = _Ball("l2", 0.1, 0.0, 1.0).inside(x, away)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.6]]))


@BOTH
def test_is_what_plain_autograd_finds(norm):
    """With batch normalization and dropout as in use, and the best iterate kept."""
    inner = nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5)
    net, plain = (nn.Sequential(*inner, nn.Linear(6, 3)).double() for _ in range(2))
    objective = tasks.Objective(net, 3)
    w = 2 * drawn(tasks.layout(objective.net).d, seed=5)
    w[-6:] = w[-6:].abs() + 0.1
    tasks.assign(plain, w)
    x, y = inputs(30, 5), torch.arange(30) % 3
    eps, step = 0.8, 1.1  # so long that later iterates are often worse
    places, losses = written_out(plain.eval(), x, y, norm, eps, step, 5)
    best, which = torch.stack(losses).max(0)
    assert len(set(which.tolist())) > 2 and (which < 5).any()
    for task in (tasks.functional(objective), tasks.in_place(objective)):
        attack = pgd(task, 1.0, eps=eps, step=step, iterations=5, norm=norm)
        found = attack.worst(w, batch(x, y))
        close(found.x, torch.stack(places)[which, torch.arange(30)], 1e-9)
        close(found.loss, best, 1e-9)
        close(found.outputs, plain(found.x).detach(), 1e-9)


def test_of_equal_losses_the_first_is_kept_and_none_that_is_no_number():
    one, two = torch.zeros(4, 2), torch.ones(4, 2)
    first = Worst(one, torch.tensor([1.0, 1.0, 1.0, NAN]), one)
    second = Worst(two, torch.tensor([1.0, 2.0, NAN, 5.0]), two)
    assert worse(second, first).x[:, 0].tolist() == [0, 1, 0, 0]


@BOTH
def test_a_flat_loss_leaves_them_alone_and_a_tiny_slope_does_not(norm):
    net = nn.Linear(3, 1, bias=False).float()
    task = tasks.functional(tasks.Objective(net, 0, lambda f, y: f[:, 0]))
    seen = batch(inputs(4, 3, dtype=torch.float32), torch.zeros(4))
    seen = seen._replace(weight=seen.weight.float())
    attack = pgd(task, 1.0, norm=norm, bounds=[])
    for still in (0.0, NAN, INF):  # flat, or a model driven off
        assert torch.equal(attack.worst(torch.full((3,), still), seen).x, seen.x)
    found = attack.worst(torch.tensor([3e-30, -4e-30, 0.0]), seen)
    away = torch.tensor([1.0, -1, 0] if norm == "linf" else [0.6, -0.8, 0])
    torch.testing.assert_close(found.x - seen.x, 0.1 * away.expand(4, 3))


@BOTH
@STARTS
def test_bytes_are_attacked_in_their_own_range(norm, start):
    """As the same pictures on the scale of 1."""
    pixels, net = (inputs(6, 1, 3, 3) * 255).byte(), small(9)
    found = []
    for x, scale in ((pixels, 255.0), (pixels.double() / 255, 1.0)):
        front = layers.Normalize(0.0, scale).double()
        task, w = problem(nn.Sequential(front, net), 3)
        attack = pgd(task, scale, eps=8 / 255, norm=norm, start=start)
        attack.expect(x)
        found.append(attack.worst(w, batch(x, torch.arange(6) % 3)).x / scale)
    close(*found, 1e-7)
    assert found[0].min() >= 0


def begun(norm, m, key=7, t=3):
    """Where it starts: the loss is the same everywhere, so the first is kept."""
    objective = tasks.Objective(nn.Linear(3, 1).double(), 0, lambda f, y: 0 * y)
    task = tasks.functional(objective, "float64")
    objective.loss = lambda f, y: 0 * f[:, 0]
    attack = pgd(task, 1.0, eps=0.2, norm=norm, start="random", bounds=[])
    seen = batch(torch.zeros(m, 3, dtype=F64), torch.zeros(m, dtype=F64), key, t)
    return attack.worst(torch.ones(4, dtype=F64), seen).x


@BOTH
def test_a_random_start_is_uniform_in_the_ball(norm):
    """A right one fails with probability 1e-6: the draws are fixed, once is all."""
    x = begun(norm, 4000)
    columns = [(column, -0.2, 0.4) for column in x.T]
    if norm == "l2":
        length = x.norm(dim=1)  # Archimedes: heights are uniform in three dimensions
        columns = [((length / 0.2) ** 3, 0, 1), (x[:, 0] / length, -1, 2)]
    for column, *where in columns:
        assert kstest(column.numpy(), "uniform", where).pvalue > 1e-6
    assert abs(np.corrcoef(x.numpy().T)[0, 1]) < 0.08


@BOTH
def test_a_random_start_is_keyed(norm):
    x = begun(norm, 5)
    assert torch.equal(x, begun(norm, 5))
    assert torch.equal(x, begun(norm, 9)[:5])  # an example, whoever is beside
    assert len({tuple(row) for row in x.tolist()}) == 5
    for other in (begun(norm, 5, key=8), begun(norm, 5, t=4)):
        assert (x != other).all()


def test_a_random_start_draws_nothing_that_augments_draw():
    step = seeding.fold(torch.tensor(7), torch.tensor(3))
    assert seeding.fold(step, -2) not in [seeding.fold(step, i) for i in range(1000)]


@pytest.mark.parametrize(
    ("norm", "start"),
    [("linf", "random")]
    + [
        pytest.param(*way, marks=TRACED)
        for way in [("linf", "none"), ("l2", "none"), ("l2", "random")]
    ],
)
def test_clients_together_as_each_alone(norm, start):
    objective = tasks.Objective(small(4).double(), 3)
    task, apart = tasks.functional(objective, "float64"), tasks.in_place(objective)
    w, key = drawn(task.d), torch.arange(5)
    x, y = inputs(5, 6, 4), (torch.arange(30) % 3).reshape(5, 6)
    options = {"eps": 0.4, "norm": norm, "start": start}

    def lifted(w, x, y, key):
        return pgd(task, 1.0, **options).worst(w, batch(x, y)._replace(key=key))

    found = Lifted(lifted, (None, 0, 0, 0), "vmap")(w, x, y, key)
    for k, one in itertools.product(range(5), (task, apart)):
        alone = pgd(one, 1.0, **options).worst(w, batch(x[k], y[k], k))
        for a, b in zip(found, alone, strict=True):
            close(a[k], b, 1e-12)
    assert not torch.allclose(found.x, x, 0, 0.1)


@pytest.mark.skipif(
    not shutil.which(os.environ.get("CXX", "g++")), reason="needs a C++ compiler"
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, in itself
@pytest.mark.slow("runs a C++ compiler")
def test_compiled():
    task, w = problem(nn.Linear(4, 2))
    attack = pgd(task, 1.0, iterations=1)

    def lifted(w, x, y, key):
        return attack.worst(w, batch(x, y)._replace(key=key))

    seen = w, inputs(3, 2, 4), torch.zeros(3, 2).long(), torch.arange(3)
    found = [
        Lifted(lifted, (None, 0, 0, 0), how)(*seen) for how in ("vmap", "compiled")
    ]
    for a, b in zip(*found, strict=True):
        close(a, b, 1e-12)


@pytest.fixture(scope="module")
def foolbox():
    """Another's implementation; it imports what is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("foolbox", exc_type=ImportError)


@pytest.fixture(scope="module")
def trained():
    """A perceptron on half of `digits`, and the other half."""
    x, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy(x).float() / 16, torch.from_numpy(y).long()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    adam = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(150):
        adam.zero_grad()
        cross_entropy(net(x[:900]), y[:900]).backward()
        adam.step()
    return net.eval(), x[900:], y[900:]


@pytest.mark.parametrize(
    ("norm", "name", "eps"), [("linf", "LinfPGD", 0.05), ("l2", "L2PGD", 0.3)]
)
def test_agrees_with_foolbox(foolbox, trained, norm, name, eps):
    """Accuracy on adversarial examples to within .01, at several budgets."""
    net, x, y = trained
    model = foolbox.PyTorchModel(net, bounds=(0, 1), device="cpu")
    how = {"rel_stepsize": 0.25, "steps": 10, "random_start": False}
    rule = getattr(foolbox.attacks, name)(**how)
    task, w = tasks.functional(tasks.Objective(net, 10)), tasks.flatten(net)

    def accuracy(outputs):
        return float((outputs.argmax(1) == y).float().mean())

    last = accuracy(net(x))
    for times in (0.5, 1.0, 2.0):
        _, seen, _ = rule(model, x, y, epsilons=times * eps)
        outputs = net(seen).detach()
        found = pgd(task, 1.0, eps=times * eps, norm=norm).worst(w, batch(x, y))
        now = accuracy(found.outputs)
        assert abs(now - accuracy(outputs)) <= 0.01
        assert float(found.loss.mean()) >= float(cross_entropy(outputs, y)) - 1e-4
        assert now < last - 0.03
        last = now


def tree(**sections):
    return {
        "partition": {"name": "iid", "clients": 3},
        "train": {"rounds": 1, "steps": 1},
        "personalizer": {"name": "transfer", "steps": 1},
        **sections,
    }


RANGE = "is no range; set it to the lowest and the"


@pytest.mark.parametrize(
    ("option", "values", "words"),
    [
        ("eps", [0.0, -0.1, NAN, INF], "eps = {} must be a positive, finite number"),
        ("step", [-1.0, NAN, INF], r"step = {} .* of at least 0; 0 is"),
        ("iterations", [0], "iterations = 0 must be at least 1, such"),
        ("bounds", [[1.0, 0.0], [0.5], [0.0, 0.0], [0.0, INF], [0.0, 0.5, 1.0]], RANGE),
        ("norm", ["l1"], "norm = 'l1' is not one of 'linf', 'l2'"),
        ("start", ["zero"], "is not one of 'none', 'random'"),
    ],
)
@pytest.mark.parametrize("personalizer", ["transfer", "finetune"])  # who asks for it
def test_refusals(option, values, words, personalizer):
    for x in values:
        wanted = tree(adversarial={option: x}, personalizer=personalizer)
        with pytest.raises(Refusal, match=f"adversarial.*{words.format(x)}"):
            built(wanted, rounds=0)


def test_data_outside_the_range():
    """`digits` has numbers from 0 to 16, where 16 stands for 1."""
    for bounds in ([0.0, 1.0], [-1.0, 1.0], []):
        built(tree(adversarial={"bounds": bounds}), rounds=0)
    half = {"bounds": [0.0, 0.5]}
    with pytest.raises(Refusal) as caught:
        built(tree(adversarial=half), rounds=0)
    assert str(caught.value) == (
        "adversarial.bounds = [0.0, 0.5] says that inputs lie between 0 and 8 (in "
        "units of 16), but they lie between 0 and 16; set adversarial.bounds to "
        "[0, 1] or wider, or to [] (troth audit --bounds none) if the data have no "
        "range"
    )
    # Nobody clips where nobody attacks; what malicious clients make does not count.
    built(tree(adversarial=half, personalizer="finetune"), rounds=0)
    wild = {"name": "noise_features", "std": 100.0}
    ready = built(tree(adversary={"count": 1}, corruption=wild), rounds=0)
    assert ready.data.x.max() > 16


def test_tasks_and_data_that_have_no_gradient():
    task, _ = problem(small(2), 3)
    with pytest.raises(Refusal, match="lie between nan and nan"):
        pgd(task, 1.0).expect(torch.tensor([[0.5, torch.nan]]))
    bare = Task(1, 2, lambda v, b: v, lambda v, b: v, lambda v, x: x)
    with pytest.raises(Refusal, match="none in its inputs and no second"):
        pgd(bare, 1.0).worst(torch.ones(1), batch(inputs(2, 1), torch.zeros(2)))
