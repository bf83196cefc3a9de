import math

import pytest
import torch
from torch.nn import functional

from troth.networks import task as tasks
from troth.networks.losses.cross_entropy import cross_entropy
from troth.networks.models.svm import svm
from troth.types import Refusal

F64 = torch.float64
LOG = math.log


def pair(classes=5):
    draw = torch.Generator().manual_seed(0)
    f = 3 * torch.randn(100, classes, generator=draw, dtype=F64)
    return f, torch.randint(0, max(2, classes), (100,), generator=draw)


def test_by_hand():
    # Shares 1/4 and 3/4 of two classes, and 1/3 each of three.
    f = torch.tensor([[0.0, LOG(3)], [0.0, LOG(3)]], dtype=F64)
    found = cross_entropy(f, torch.tensor([0, 1]))
    assert found.tolist() == pytest.approx([LOG(4), LOG(4 / 3)])
    found = cross_entropy(torch.full((1, 3), 7.0), torch.tensor([2]))
    assert found.item() == pytest.approx(LOG(3))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3, 0.9, 1.0])
def test_it_is_torchs_for_labels_and_for_shares_of_classes(smoothing):
    f, y = pair()
    shares = torch.softmax(f.flip(0) / 2, dim=1)
    for target in (y, shares):
        theirs = functional.cross_entropy(
            f, target, reduction="none", label_smoothing=smoothing
        )
        found = cross_entropy(f, target, smoothing=smoothing)
        torch.testing.assert_close(found, theirs)
    many = cross_entropy(f, 7 * shares, smoothing=smoothing)
    torch.testing.assert_close(many, 7 * theirs)  # an example that counts 7 times


def test_one_column_is_class_1_against_0():
    """As a margin is scored: class 1 where it is positive."""
    f, y = pair(1)
    theirs = functional.binary_cross_entropy_with_logits(
        f[:, 0], y.to(F64), reduction="none"
    )
    torch.testing.assert_close(cross_entropy(f, y), theirs)
    rows = functional.one_hot(y, 2).to(F64)
    torch.testing.assert_close(cross_entropy(f, rows), theirs)
    both = torch.cat([torch.zeros_like(f), f], dim=1)
    for s in (0.0, 0.4):
        expected = cross_entropy(both, y, smoothing=s)
        assert torch.equal(cross_entropy(f, y, smoothing=s), expected)


@pytest.mark.parametrize("smoothing", [-0.1, 1.1, math.nan, math.inf])
def test_refuses(smoothing):
    with pytest.raises(Refusal, match=rf"smoothing = {smoothing} must lie in \[0, 1\]"):
        cross_entropy(*pair(), smoothing=smoothing)
    with pytest.raises(Refusal, match=r"a share of each class.*\[100, 4\]"):
        cross_entropy(pair()[0], torch.full((100, 4), 0.25, dtype=F64))


def test_a_named_loss_goes_before_the_models_own():
    """Of a margin: a logistic regression instead of a hinge."""
    (f, y), net = pair(1), svm((3,), 2)
    for named, expected in ((None, net.loss), (cross_entropy, cross_entropy)):
        objective = tasks.Objective(net, 2, named)
        assert torch.equal(objective.per_example(f, y), expected(f, y))
