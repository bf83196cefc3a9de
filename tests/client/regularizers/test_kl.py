import math

import pytest
import torch
from torch import nn

from troth.client.regularizers.kl import kl
from troth.networks import task as tasks
from troth.types import Batch, Refusal

from ..hand import F64, drawn


def made(outputs, classes):
    net = nn.Linear(3, outputs).double()
    return tasks.functional(tasks.Objective(net, classes), "float64")


def batch(labels, weight=None):
    rows = len(labels)
    part = torch.full((rows,), 1 / rows, dtype=F64)
    part = part if weight is None else torch.tensor(weight, dtype=F64)
    return Batch(drawn(rows, 3, seed=4), labels, part, *[torch.tensor(0)] * 2)


def outputs(v, x, width):
    weight, bias = v[: 3 * width].reshape(width, 3), v[3 * width :]
    return (x @ weight.T + bias).tolist()


def probabilities(z):
    """Of classes, or where there is one output, of yes and no."""
    z = z if len(z) > 1 else [z[0], 0.0]
    return [math.exp(a) / sum(math.exp(b) for b in z) for a in z]


def symmetric(f, g):
    """½(KL(p‖q) + KL(q‖p)) = ½ Σ (p − q) log p/q."""
    pairs = zip(probabilities(f), probabilities(g), strict=True)
    return 0.5 * sum((p - q) * math.log(p / q) for p, q in pairs)


LABELS = [
    (4, 4, torch.tensor([0, 3, 1])),
    (1, 2, torch.tensor([0, 1, 1])),
    (3, 3, torch.tensor([[0, 1, 1], [1, 0, 1], [0, 0, 0]])),
]
EVERY = pytest.mark.parametrize(
    ("width", "classes", "labels"), LABELS, ids=["classes", "margin", "several labels"]
)


@EVERY
def test_by_hand(width, classes, labels):
    """Of several labels each output is one by itself."""
    task, seen = made(width, classes), batch(labels)
    v, w = drawn(2, task.d)
    each = []
    for f, g in zip(outputs(v, seen.x, width), outputs(w, seen.x, width), strict=True):
        apart = [([a], [b]) for a, b in zip(f, g, strict=True)]
        each += [symmetric(a, b) for a, b in (apart if labels.ndim > 1 else [(f, g)])]
    found = kl(task).value(v, w, seen).item()
    assert found == pytest.approx(sum(each) / 3, rel=1e-12)
    assert kl(task).curvature == 0.0  # no bound


@EVERY
def test_gradients(width, classes, labels):
    objective = tasks.Objective(nn.Linear(3, width).double(), classes)
    pure, own = tasks.functional(objective, "float64"), tasks.in_place(objective)
    seen = batch(labels, [0.2, 0.0, 0.8])
    v, w = drawn(2, pure.d)
    expected = torch.func.grad(kl(pure).value)(v, w, seen)
    for task in (pure, own):
        found = kl(task).grad(v, w, seen)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
        assert kl(task).grad(w, w, seen).abs().max() < 1e-16
        assert kl(task).value(w, w, seen).item() == 0.0


def test_padding_does_not_count():
    task, whole = made(4, 4), batch(torch.tensor([0, 3, 1]))
    more = batch(torch.tensor([0, 3, 1, 0, 0]), [1 / 3] * 3 + [0.0] * 2)
    far = torch.full((2, 3), 1e6, dtype=F64)
    more = more._replace(x=torch.cat([whole.x, far]))
    for part in (kl(task).value, kl(task).grad):
        a, b = (part(*drawn(2, task.d), seen) for seen in (whole, more))
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("width", [1, 4])
def test_huge_outputs(width):
    """Single precision, where such probabilities are 0 and their logarithms −1e30."""
    objective = tasks.Objective(nn.Linear(3, width), 2 if width == 1 else width)
    seen = batch(torch.tensor([0, 1, 1]))
    seen = seen._replace(x=seen.x.float(), weight=seen.weight.float())
    for task in (tasks.functional(objective), tasks.in_place(objective)):
        w = 1e30 * drawn(task.d).float()
        for v in (w, -w, 0 * w, drawn(task.d, seed=2).float()):
            assert kl(task).value(v, w, seen).isfinite()
            assert kl(task).grad(v, w, seen).isfinite().all()


@pytest.mark.parametrize("width", [1, 2])
def test_soft_labels_change_nothing(width):
    """It reads what labels are of, not which: rows of shares are no several labels."""
    task = made(width, 2)
    labels = torch.tensor([0, 1, 1]), torch.full((3, 2), 0.5).double()
    for part in (kl(task).value, kl(task).grad):
        assert torch.equal(*(part(*drawn(2, task.d), batch(y)) for y in labels))


def test_refuses_a_regression():
    words = "'kl' compares predicted probabilities of classes, and this is a regression"
    with pytest.raises(Refusal, match=words):
        kl(made(1, 0))
